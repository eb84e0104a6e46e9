"""The axes of tensors that no run at other sizes has: a loop over the length goes round less often where T is smaller.

What these tensors are made of, and what is made of them, was seen elsewhere, and the functions of torch say which dims
are equally long. One that would be two things is neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ...schema import TensorMeta, Trace
from ..axes import Axes, Sight, with_axes
from .dims import UNSEEN, Dims
from .rules import follow, moved_in_place

__all__ = ["name_unseen"]


def name_unseen(trace: Trace, unseen: Collection[Sight]) -> Trace:
    """`trace` with axes for its tensors at these places."""
    if not unseen:
        return trace
    moved = {number for call in trace.calls if moved_in_place(call) for number in call.written}
    seen = {tensor.number for sight, tensor in sights(trace) if sight not in unseen}
    trace = as_elsewhere(trace, unseen, moved)
    dims = Dims({tensor.number for _, tensor in sights(trace)} - seen - moved)
    dims.moved.update(moved)
    for call in trace.calls if dims.unseen else ():
        follow(dims, call)
    torn = {dims.root(dim) for pair in dims.torn for dim in pair}

    def axes(_index: int, place: str, _key: str, tensor: TensorMeta) -> Axes:
        if tensor.number not in dims.unseen or place == "unmade":
            return tensor.axes or tensor.shape
        roots = map(dims.root, dims.of(tensor))
        found = [UNSEEN if root in torn else dims.axes[root] for root in roots]
        return tuple(size if axis == UNSEEN else axis for axis, size in zip(found, tensor.shape, strict=True))

    return with_axes(trace, axes) if dims.unseen else trace


def as_elsewhere(trace: Trace, unseen: Collection[Sight], moved: Collection[int | None]) -> Trace:
    """`trace` where a tensor that was seen at one place has its axes at the others too, as what a module gives on."""
    told: dict[tuple[int | None, tuple[int, ...]], set[Axes]] = {}
    for sight, tensor in sights(trace):
        if sight not in unseen and tensor.number not in moved:
            told.setdefault((tensor.number, tensor.shape), set()).add(tensor.axes or tensor.shape)

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        found = told.get((tensor.number, tensor.shape), set()) if (index, place, key) in unseen else set()
        return next(iter(found)) if len(found) == 1 else tensor.axes or tensor.shape

    return with_axes(trace, axes)


def sights(trace: Trace) -> Iterator[tuple[Sight, TensorMeta]]:
    for index, call in enumerate(trace.calls):
        for place, tensors in (("inputs", call.inputs), ("outputs", call.outputs)):
            yield from (((index, place, key), tensor) for key, tensor in tensors.items() if tensor.number is not None)
