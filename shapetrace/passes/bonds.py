"""Which dims of what a model is given are equally long at any size, and which are as long as its weights: read from
what the functions of the one forward that ran do with them.

A function that says nothing of its dims leaves a bond out, and never makes one that is not there: to run the model at
other sizes is still what tells.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ..schema import Trace
from .meeting import argument, memory
from .nesting import forward_of
from .plumbing import is_float
from .widths.dims import Dim
from .widths.joined import Joined, Row

__all__ = ["UNBOUND", "Bonds", "bonds_of"]

RANK_OF_SEQUENCES = 3
"""What has fewer dims may be rows of two batches."""


class Bonds(msgspec.Struct, frozen=True):
    """
    rows      the name of an argument -> the bonds of the dims of each tensor in it; dims of one bond go together
    fixed     the bonds that a dim of a parameter has, too, or a part of one: heads, and their width
    carried   those of vectors, as of tokens once they are looked up: what a mask alone has is none
    meeting   pairs of them that are dims of one tensor
    """

    rows: Mapping[str, tuple[Row, ...]] = {}
    fixed: frozenset[Dim] = frozenset()
    carried: frozenset[Dim] = frozenset()
    meeting: frozenset[frozenset[Dim]] = frozenset()


UNBOUND = Bonds()


def bonds_of(trace: Trace, parameters: Collection[str]) -> Bonds:
    """Of the forward of `trace`; `parameters` are the names of those that its model has."""
    forward = forward_of(trace.calls)
    if forward is None:
        return UNBOUND
    joined = Joined(trace)
    root = joined.dims.root
    given = trace.calls[forward].inputs
    seen = [memory(tensor) for tensor in given.values()]
    rows: dict[str, list[Row]] = {}
    for key, tensor in given.items():
        is_twice = seen.count(memory(tensor)) > 1  # what is given twice may be two lengths
        its = () if is_twice else tuple(map(root, joined.dims.of(tensor)))
        rows.setdefault(argument(key), []).append(its)
    tensors = [tensor for call in trace.calls for tensor in (*call.inputs.values(), *call.outputs.values())]
    owned = fixed(joined, {root(dim) for t in tensors if t.name in parameters for dim in joined.dims.of(t)})
    of_input = {bond for each in rows.values() for row in each for bond in row} - owned
    carried: set[Dim] = set()
    meeting: set[frozenset[Dim]] = set()
    for call in trace.calls:
        for tensor in (*call.inputs.values(), *call.outputs.values()) if call.kind == "function" else ():
            if len(tensor.shape) >= RANK_OF_SEQUENCES and is_float(tensor):
                bonds = set(map(root, joined.dims.of(tensor)))
                found = bonds & of_input
                carried |= found if bonds & owned else set()
                meeting |= {frozenset({one, other}) for one in found for other in found if one != other}
    return Bonds(
        {name: tuple(its) for name, its in rows.items()},
        frozenset(owned), frozenset(carried), frozenset(meeting),
    )  # fmt: skip


def fixed(joined: Joined, owned: set[Dim]) -> set[Dim]:
    """Some dims with all that they are cut into."""
    root = joined.dims.root
    sums: dict[Dim, list[Row]] = {}
    for whole, parts in joined.dims.sums:
        sums.setdefault(root(whole), []).append(tuple(map(root, parts)))
    found = set(owned)
    left = list(owned)
    while left:
        whole = left.pop()
        rows = *joined.cuts.get(whole, ()), *sums.get(whole, ())
        more = {part for row in rows for part in row} - found
        found |= more
        left.extend(more)
    return found
