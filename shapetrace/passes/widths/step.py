"""A call as a rule sees it: what it was given and what it made, as dims."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Sequence
from functools import lru_cache

from ...schema import Call, TensorMeta
from .dims import Dim, Dims

__all__ = ["Row", "Step"]

Row = Sequence[Dim]
"""The dims of one tensor."""

NOTHING = TensorMeta(())


@lru_cache(4096)
def read(text: str) -> object:
    """What Python reads in a literal; None if it is no number, text or sequence."""
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return None


class Step:
    """A call, and the dims of its tensors.

    unmade   the dims of the tensors that it stands for and does not make
    """

    def __init__(self, dims: Dims, call: Call) -> None:
        self.dims = dims
        self.call = call
        self.unmade: dict[str, tuple[Dim, ...]] = {}

    def given(self, *keys: str) -> Row | None:
        """The dims of the argument that stands at the first of these keys that is a tensor's."""
        tensor = next((self.call.inputs[key] for key in keys if key in self.call.inputs), None)
        return None if tensor is None else self.dims.of(tensor)

    def many(self) -> list[Row]:
        """The dims of the tensors in a list that comes first."""
        inputs = self.call.inputs
        return [self.dims.of(inputs[key]) for key in inputs if key.startswith(("0[", "tensors["))]

    @property
    def made(self) -> list[Row]:
        return [self.dims.of(tensor) for tensor in self.call.outputs.values()]

    @property
    def result(self) -> Row:
        """The dims of the first result; none if there is none."""
        return self.dims.of(next(iter(self.call.outputs.values()), NOTHING))

    def literal(self, *keys: str) -> object:
        """A number, or a tuple or list of them, that was given at the first of these keys; None for anything else."""
        text = next((self.call.literals[key] for key in keys if key in self.call.literals), "None")
        return read(text)

    def numbers(self, *keys: str) -> list[int] | None:
        found = self.literal(*keys)
        some = list(found) if isinstance(found, tuple | list) else [found]
        return [one for one in some if type(one) is int] if all(type(one) is int for one in some) else None

    def number(self, *keys: str, default: int) -> int:
        found = self.numbers(*keys)
        return found[0] if found else default
