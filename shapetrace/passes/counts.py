"""What is as long as there are floats that say yes: an expert takes the tokens that choose it. That they were in all
runs as many as a letter says is chance, or goes by weights that others do not have."""

from __future__ import annotations

from collections.abc import Iterator

from ..letters import is_of_input, is_unknown, names_in
from ..schema import Call, TensorMeta, Trace
from .axes import Axes, with_axes
from .doubts import goes_by_values
from .plumbing import Plumbing
from .widths.dims import Dim
from .widths.joined import Joined

__all__ = ["uncounted"]

PICKING = frozenset({"__getitem__", "masked_select", "repeat_interleave"})
"""Functions that are given first what they take from, and then what says how much of it."""


def uncounted(trace: Trace) -> Trace:
    """`trace` with plain numbers for how many floats say yes, and for all that must be as long."""
    calls = list(counting(trace))
    if not calls:
        return trace
    joined = Joined(trace)
    root = joined.dims.root
    gone: set[Dim] = set()
    for call in calls:
        known = {root(dim) for tensor in call.inputs.values() for dim in joined.dims.of(tensor)}
        for tensor in call.outputs.values():
            pairs = zip(map(root, joined.dims.of(tensor)), tensor.axes or tensor.shape, strict=True)
            new = [dim for dim, axis in pairs if dim not in known and is_made_of_input(axis)]
            gone |= set(new) if len(new) == 1 else set()

    def axes(_index: int, _place: str, _key: str, tensor: TensorMeta) -> Axes:
        dims = zip(joined.dims.of(tensor), tensor.axes or tensor.shape, tensor.shape, strict=True)
        return tuple(size if root(dim) in gone else axis for dim, axis, size in dims)

    return with_axes(trace, axes) if gone else trace


def counting(trace: Trace) -> Iterator[Call]:
    """The calls whose result is as long as floats say, that the model is given, or owns, or makes of these."""
    origins = Plumbing()
    for call in trace.calls:
        if call.kind == "function":
            saying = list(call.inputs.values())[call.name in PICKING :]
            if goes_by_values(call) and any(origins.origin(tensor).floats for tensor in saying):
                yield call
            origins.add(call)


def is_made_of_input(axis: str | int) -> bool:
    return any(is_of_input(letter) or is_unknown(letter) for letter in names_in(axis))
