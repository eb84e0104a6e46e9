"""Axes as the author of a model has declared them for its inputs and results: their names are used, and checked."""

from __future__ import annotations

import msgspec

from ..schema import TensorMeta, Trace
from .axes import Axes, rename_axes, with_axes
from .nesting import given_to, returned_by
from .widths.sized import Written

__all__ = ["as_declared"]


def as_declared(trace: Trace, declared: Written) -> Trace:
    """`trace` with the names of `declared` for its axes; a note says where they contradict each other, or what ran."""
    given = given_to(trace.calls) | returned_by(trace.calls)
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    own: dict[int | None, list[str | int]] = {}
    wrong: dict[str, None] = {}
    for key, dims in declared.items():
        tensor = given.get(key)
        if tensor is None or len(dims) != len(tensor.shape):
            continue
        axes: list[str | int] = list(tensor.axes or tensor.shape)
        for dim, (name, axis, size) in enumerate(zip(dims, tuple(axes), tensor.shape, strict=True)):
            if name is None:
                continue
            if sizes.setdefault(name, size) != size:
                wrong[f"{key} is declared with {name}={size}, but {name} is {sizes[name]} elsewhere"] = None
            elif isinstance(axis, int):
                if trace.sizes.get(name, size) == size:
                    axes[dim] = name
                else:
                    wrong[f"{key} is declared with {name}={size}, but {name} is {trace.sizes[name]} in this model"] = (
                        None
                    )
            elif names.setdefault(axis, name) != name:
                wrong[f"{key} is declared with {name!r} where the same axis is {names[axis]!r} elsewhere"] = None
        own[tensor.number] = axes
    new = {axis: name for axis, name in names.items() if axis != name and axis.isidentifier()}
    for axis, name in dict(new).items():
        if name in trace.sizes and name not in new:
            key = next(key for key, dims in declared.items() if name in dims)
            wrong[f"{key} is declared with {name!r} where another axis of the trace is {name!r}"] = None
            del new[axis]
    renamed = rename_axes(trace, new)
    found = with_axes(renamed, lambda _index, _place, _key, tensor: whole(tensor, own.get(tensor.number)))
    known = {**found.sizes, **{name: size for name, size in sizes.items() if name not in found.sizes}}
    return msgspec.structs.replace(found, sizes=known, notes=(*found.notes, *(f"axes: {said}" for said in wrong)))


def whole(tensor: TensorMeta, declared: list[str | int] | None) -> Axes:
    """The axes of a tensor, and what is declared of its dims that are numbers."""
    axes = tensor.axes or tensor.shape
    if declared is None or tensor.number is None or len(declared) != len(axes):
        return axes
    return tuple(name if isinstance(axis, int) else axis for axis, name in zip(axes, declared, strict=True))
