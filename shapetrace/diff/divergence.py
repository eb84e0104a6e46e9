"""What a comparison of two models in value says, as data that knows no torch."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..records import Record
from ..schema import Trace

__all__ = ["Apart", "Copied", "Divergence", "Extreme", "Relation", "Strange", "Tolerance", "ValuesDiff"]


class Tolerance(msgspec.Struct, frozen=True):
    """|after - before| ≤ absolute + relative · |before| is the same, as `torch.testing.assert_close` has it."""

    relative: float
    absolute: float


class Extreme(msgspec.Struct, frozen=True):
    """A difference, and where it is: the index, and what stands there before and after."""

    difference: float
    index: tuple[int, ...]
    before: complex | float
    after: complex | float


class Relation(msgspec.Struct, frozen=True):
    """How one of two tensors is made of the other.

    kind    "hidden": they are the same but for keys that a mask hides on one `side` only, "before" or "after"; "" if it
            hides others on each; "factor": after is before times `number`; "sum": before and that much more; "order":
            what lies along `dim` stands in another order, or, where that is None, all elements elsewhere
    """

    kind: Literal["hidden", "factor", "sum", "order"]
    side: str = ""
    number: float = 0.0
    dim: int | None = None


class Apart(msgspec.Struct, frozen=True):
    """How two tensors of one shape differ.

    elements   how many there are, of which so many are `differing`
    absolute   the largest |after - before|; infinite where one alone is NaN or infinite
    relative   the largest |after - before| / |before|, where before is not 0; None if it is everywhere
    tolerance  by which they differ
    relation   how after is made of before; None where that cannot be told
    """

    elements: int
    differing: int
    absolute: Extreme
    relative: Extreme | None
    tolerance: Tolerance
    relation: Relation | None = None


class Divergence(msgspec.Struct, frozen=True):
    """Two tensors that correspond and are not the same. `apart` is None if their shapes differ."""

    before: Record
    after: Record
    apart: Apart | None


class Strange(msgspec.Struct, frozen=True):
    """Where NaN, and where inf, are first met on one side; None where they are not."""

    nan: Record | None = None
    inf: Record | None = None


class Copied(msgspec.Struct, frozen=True):
    """A weight of after that got one of before.

    before, after  by their names
    rows           which of either, None for all
    by             "name"; "use": the same is made with both; "order": of equal shapes
    against        "use" or "order" (in which they are registered) where that says otherwise; else ""
    """

    before: str
    after: str
    rows: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    by: str
    against: str = ""


class ValuesDiff(msgspec.Struct, frozen=True):
    """What two models make of the same inputs; false if that is the same, as far as it was compared, and it was.

    before, after   the headers of the traces, without their calls
    weights         what was done with the weights, in words
    inputs          what was done with the inputs, in words
    diverging       all tensors that diverge, in the order of both sides; swapped, the first is the same pair
    within          tensors that differ and of which only what is the same, to rounding, is made: they are not where the
                    models part
    same            how many correspond and are the same
    uncompared      how many correspond and cannot be compared: steps of other shapes, numbers against booleans
    alone           what stands on one side only between the first that diverges and the last same one before it
    strange         where NaN and inf start, before and after
    lone            what a model returns and no value was compared with, before and after
    is_compared     whether anything that a model returns was
    copied          which weight of before went to which of after
    """

    before: Trace
    after: Trace
    weights: str
    inputs: str
    diverging: tuple[Divergence, ...] = ()
    within: tuple[Divergence, ...] = ()
    same: int = 0
    uncompared: int = 0
    alone: tuple[tuple[Record | None, Record | None], ...] = ()
    strange: tuple[Strange, Strange] = (Strange(), Strange())
    lone: tuple[tuple[Record, ...], tuple[Record, ...]] = ((), ())
    is_compared: bool = True
    copied: tuple[Copied, ...] = ()

    @property
    def first(self) -> Divergence | None:
        """The first tensor that diverges, from which on the models part."""
        return self.diverging[0] if self.diverging else None

    def __bool__(self) -> bool:
        return bool(self.diverging) or not self.is_compared

    def __str__(self) -> str:
        from ..renderers import values

        return values(self)

    def __repr__(self) -> str:
        targets = f"{self.before.target} and {self.after.target}"
        return f"<ValuesDiff of {targets}: {len(self.diverging)} tensors diverge; print it to see where>"
