"""A module that gave nothing, or several, where its caller goes on with one tensor."""

from __future__ import annotations

from ...schema import Call
from .fault import Fault

__all__ = ["nothing", "several"]


def nothing(fault: Fault) -> str | None:
    """A forward without a `return`."""
    before = last_module(fault)
    if "NoneType" not in fault.text or before is None or before.outputs:
        return None
    return f"{said(before)} gave no tensor: does its forward end in a return?"


def several(fault: Fault) -> str | None:
    """A pair that is taken for a tensor."""
    before = last_module(fault)
    words = ("not tuple", "'tuple' object has no attribute", "can only concatenate tuple", "'tuple' and", "and 'tuple'")
    if before is None or "" in before.outputs or not any(word in fault.text for word in words):
        return None
    first = next(iter(before.outputs.values()), None)
    if first is None:
        return None
    shape = ", ".join(map(str, first.axes if first.axes is not None else first.shape))
    return f"{said(before)} gives several, the first of them a tensor [{shape}]: take it apart, y, … = or y[0]"


def last_module(fault: Fault) -> Call | None:
    """The module that ended last before the error, in the forward in which that came up; None if a function raised,
    or ran in between."""
    calls = fault.trace.calls
    if fault.call.kind != "module":
        return None
    after = [call for call in calls[fault.index + 1 :] if call.depth == fault.call.depth + 1]
    if not after:  # nothing ran inside of it: what it was given came from beside it
        depth = fault.call.depth
        start = next((at for at in reversed(range(fault.index)) if calls[at].depth < depth), -1)
        after = [call for call in calls[start + 1 : fault.index] if call.depth == depth]
    last = after[-1] if after else None
    return last if last is not None and last.kind == "module" and last.error is None else None


def said(module: Call) -> str:
    name = module.path.rpartition(".")[2] or "the model"
    return name if name == module.name else f"{name} ({module.name})"
