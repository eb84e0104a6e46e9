"""The dims of a whole trace, joined call by call, with what is known of the tensors that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...letters import names_in
from ...schema import Trace
from .dims import Dim, Dims
from .rules import follow, moved_in_place

__all__ = ["INPUTS", "Joined", "Row"]

INPUTS = frozenset("BTSP")
"""Axes of the input, which are no widths."""

Row = tuple[Dim, ...]
"""The dims of one tensor."""


class Joined:
    """
    roles    a role -> the dims of each tensor that has it
    owned    the dims of each parameter and buffer
    unmade   of each call that stands for tensors which it does not make, by its index: the dims of these
    cuts     the root of a dim -> the roots of what it is the product of, in each way that is known
    """

    def __init__(self, trace: Trace) -> None:
        self.dims = dims = Dims()
        self.roles: dict[str, dict[Row, None]] = {}
        self.owned: dict[Row, None] = {}
        self.unmade: dict[int, dict[str, Row]] = {}
        dims.moved.update(number for call in trace.calls if moved_in_place(call) for number in call.written)
        for index, call in enumerate(trace.calls):
            unmade = follow(dims, call)
            if unmade:
                self.unmade[index] = unmade
            for tensor in (*call.inputs.values(), *call.outputs.values()):
                if tensor.role is not None:
                    self.roles.setdefault(tensor.role, {})[dims.of(tensor)] = None
                if tensor.name is not None:
                    self.owned[dims.of(tensor)] = None
            for role, row in unmade.items():
                self.roles.setdefault(role, {})[row] = None
        dims.settle()
        self.cuts: dict[Dim, list[Row]] = {}
        for whole, parts in dims.products:
            self.cuts.setdefault(dims.root(whole), []).append(tuple(map(dims.root, parts)))

    def rows(self, *roles: str) -> list[Row]:
        return [row for role in roles for row in self.roles.get(role, ())]

    def last(self, *roles: str, least: int = 1) -> list[Dim]:
        """The last dims of the tensors of some roles, which have so many at least, as far as they are plain numbers."""
        return [row[-1] for row in self.rows(*roles) if len(row) >= least and self.is_open(row[-1])]

    def is_open(self, dim: Dim) -> bool:
        """Whether a letter is missing, and there is one to be found."""
        return isinstance(self.dims.axes[dim], int) and self.dims.sizes[dim] > 1

    def is_input(self, dim: Dim) -> bool:
        return not INPUTS.isdisjoint(names_in(self.dims.axes[dim]))

    def size(self, dim: Dim) -> int:
        return self.dims.sizes[dim]

    def neighbours(self) -> Iterator[tuple[Dim, Dim]]:
        """The roots of dims that stand side by side in a view that splits or merges one, or in a parameter."""
        rows: list[Sequence[Dim]] = [parts for cuts in self.cuts.values() for parts in cuts]
        for row in (*rows, *self.owned):
            yield from zip(map(self.dims.root, row), map(self.dims.root, row[1:]), strict=False)
