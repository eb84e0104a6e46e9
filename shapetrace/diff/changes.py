"""What a comparison of two traces says."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..schema import TensorMeta, Trace
from .fields import Fields
from .items import INDEX, Item, Place

__all__ = ["Change", "Diff", "Line", "Sizes"]

Kind = Literal["added", "removed", "changed", "moved"]


class Change(msgspec.Struct, frozen=True):
    """One difference.

    kind     what stands elsewhere in the order has moved, whatever else it changed
    before   what it is about on either side; None on the side where it is not there
    fields   what differs -> before, after; of what moved the "order", of repeated blocks the "layers"
    blocks   the other blocks in which the same changed, before and after: ("blocks.1", "blocks.1")
    steps    how many there are in a row of which this is one: masks and unnamed steps are said once
    covers   the places of all tensors that it speaks for, before and after; None on the side where one is not there
    tensors  of what was added or removed all of these
    """

    kind: Kind
    before: Item | None
    after: Item | None
    fields: Fields = {}
    blocks: tuple[tuple[str, str], ...] = ()
    steps: int = 1
    covers: tuple[tuple[Place | None, Place | None], ...] = ()
    tensors: tuple[TensorMeta, ...] = ()


class Line(msgspec.Struct, frozen=True, gc=False):
    """What stands at one place of both traces together, in the order of both; without a change it is the same.

    depth     how many modules are around it
    is_scope  of a module whether what is in it follows
    blocks    of the first line of a block the other blocks that are, or changed, the same
    """

    depth: int
    before: Item | None
    after: Item | None
    is_scope: bool = False
    change: Change | None = None
    blocks: tuple[tuple[str, str], ...] = ()


class Sizes(msgspec.Struct, frozen=True):
    """A letter of another size, and how many shapes differ by nothing else; None where there is no such letter."""

    letter: str
    before: int | None
    after: int | None
    shapes: int


class Diff(msgspec.Struct, frozen=True):
    """The changes between two traces; false when there are none.

    before, after   the headers of the traces, without their calls
    lines           all that there is, with what changed
    sizes           the letters whose sizes differ
    explained       the places of the tensors whose shapes differ by these alone
    unnamed         tensors of one shape of which one side names an axis, and the other only its size
    """

    before: Trace
    after: Trace
    lines: tuple[Line, ...] = ()
    sizes: tuple[Sizes, ...] = ()
    explained: tuple[tuple[Place, Place], ...] = ()
    unnamed: tuple[tuple[Item, Item], ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(line.change for line in self.lines if line.change is not None)

    @property
    def same(self) -> int:
        """How many tensors are the same, those in blocks that are told once counted once."""
        return sum(line.change is None and not line.is_scope for line in self.lines)

    @property
    def renamed(self) -> int:
        """How many of these are in a module that goes by another path; of a list the place does not count."""
        pairs = [(line.before, line.after) for line in self.lines if line.change is None and not line.is_scope]
        return sum(one is not None and other is not None and has_other_path(one, other) for one, other in pairs)

    def headed(self, before: str, after: str) -> Diff:
        """The same with other names for what was compared."""
        ours, theirs = (
            msgspec.structs.replace(trace, target=target)
            for trace, target in ((self.before, before), (self.after, after))
        )
        return msgspec.structs.replace(self, before=ours, after=theirs)

    def __bool__(self) -> bool:
        return bool(self.explained or self.unnamed) or any(line.change is not None for line in self.lines)

    def __str__(self) -> str:
        from ..renderers import changes

        return changes(self)

    def __repr__(self) -> str:
        return (
            f"<Diff of {self.before.target} and {self.after.target}: {len(self.changes)} changes; print it to see them>"
        )


def has_other_path(one: Item, other: Item) -> bool:
    before, after = one.call.path, other.call.path
    return before != after and INDEX.sub("*", before) != INDEX.sub("*", after)
