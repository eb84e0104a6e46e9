"""What a forward that failed would have done next: it is run again with what failed mended, and told by all of it."""

from __future__ import annotations

from typing import Any

import msgspec
from torch import nn

from ..letters import names_in
from ..passes.axes import Axes, with_axes
from ..passes.doubts import axes_of
from ..schema import TensorMeta, Trace
from .kept import left
from .mended import Mended
from .probe import FAILURES, Recording, Source, reaches

__all__ = ["as_far_as", "mending", "onward"]


def mending(record: Recording) -> Recording:
    """A recording of forwards of copies that go on behind what fails."""

    def recorded(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
        mended = Mended(model)
        try:
            with mended:
                trace = record(model, args, kwargs)
        except FAILURES as error:
            kept = left(error)
            if kept is not None:
                kept.trace = mended.marked(kept.plain())
            raise
        return mended.marked(trace)

    return recorded


def onward(failed: Trace, source: Source, record: Recording) -> Trace | None:
    """The same forward, by the same calls, and beyond that which failed; None if it does not come further."""
    model, given = source.build({})
    args, kwargs = given.at({}, seed=0)
    try:
        with source.within:
            found = record(model, args, kwargs)
    except FAILURES as error:
        kept = left(error)
        if kept is None:
            return None
        found = kept.plain()
    is_further = found.error is None or len(found.calls) > len(failed.calls)
    if not is_further or not reaches(found, failed) or not is_alike(found, failed):
        return None
    return msgspec.structs.replace(failed, calls=found.calls, error=found.error)


def is_alike(found: Trace, failed: Trace) -> bool:
    """Whether the calls of the failed one were given tensors of the same shapes."""
    pairs = ((one.inputs, other.inputs) for one, other in zip(found.calls, failed.calls, strict=False))
    return all(
        one.keys() == other.keys() and all(one[key].shape == other[key].shape for key in one) for one, other in pairs
    )


def as_far_as(failed: Trace, longer: Trace) -> Trace:
    """`failed` with the axes, and what is said of them, of a longer trace that begins with its calls."""

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        other = getattr(longer.calls[index], place).get(key)
        return tensor.shape if other is None else other.axes or tensor.shape

    found = with_axes(failed, axes)
    letters = {letter for axis in axes_of(found) for letter in names_in(axis)}
    sizes = {letter: size for letter, size in longer.sizes.items() if letter in letters or letter in failed.sizes}
    return msgspec.structs.replace(found, sizes=sizes, notes=longer.notes)
