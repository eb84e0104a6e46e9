"""Positions that a model counts: where their numbers begin and end, going by the calls that made them."""

from __future__ import annotations

import re

import msgspec

from ...schema import Call, TensorMeta
from ..expressions import plain_name
from .fault import Fault

__all__ = ["Count", "count"]

MOVING = frozenset(
    """view reshape unsqueeze squeeze expand expand_as repeat to long int contiguous clone transpose t type_as
    type""".split()
)
"""What leaves the numbers of a range as they are."""

SHIFTS = {"add": 1, "add_": 1, "__radd__": 1, "sub": -1, "sub_": -1}
MASKING = frozenset("mul mul_ masked_fill masked_fill_".split())
"""What puts another number, small as a rule, in the place of some, where a mask says so."""


class Count(msgspec.Struct, frozen=True):
    """`length` numbers from `start` on, before `stop`.

    is_known   whether these are the numbers; else they go no further, as those that a mask is summed to
    """

    start: int
    stop: int
    length: int
    is_known: bool = True

    def shifted(self, by: int) -> Count:
        return msgspec.structs.replace(self, start=self.start + by, stop=self.stop + by)

    @property
    def masked(self) -> Count:
        return msgspec.structs.replace(self, is_known=False)


def count(fault: Fault, tensor: TensorMeta) -> Count | None:
    """What the numbers of a tensor count, if they are an `arange`, a buffer or a sum of ones that was only moved."""
    shift, is_masked = 0, False
    for _ in range(fault.index):
        index = fault.maker(tensor)
        if index is None:
            return None
        call = fault.trace.calls[index]
        name, inputs = plain_name(call), list(call.inputs.values())
        found = begun(fault, call)
        if found is not None:
            found = found.shifted(shift)
            return found.masked if is_masked else found
        if name in SHIFTS and len(inputs) == 1 and (number := whole(call, "1", "0", "other")) is not None:
            shift += SHIFTS[name] * number
        elif name == "__getitem__" and re.fullmatch(r"\(?(:, )*(0)?:\)?", call.literals.get("1", "")):
            pass  # all of it: `[:, past:]` where nothing was kept
        elif name in MASKING and len(inputs) == 2:
            is_masked = True
        elif name not in MOVING:
            return None
        if not inputs:
            return None
        tensor = inputs[0]
    return None


def begun(fault: Fault, call: Call) -> Count | None:
    """The count that a call begins."""
    name = plain_name(call)
    if name == "arange":
        return ranged(call)
    if name == "cumsum":
        x, dim = next(iter(call.inputs.values()), None), whole(call, "1", "dim")
        if x is not None and dim is not None and -len(x.shape) <= dim < len(x.shape):
            return Count(1, x.shape[dim] + 1, x.shape[dim], is_known=False)
    return sliced(fault, call) if name == "__getitem__" and len(call.inputs) == 1 else None


def ranged(call: Call) -> Count | None:
    texts = [call.literals[key] for key in ("0", "start", "1", "end", "2", "step") if key in call.literals]
    numbers = [int(text) for text in texts if WHOLE.fullmatch(text)]
    if len(numbers) != len(texts) or len(numbers) not in (1, 2):
        return None
    start, stop = (0, *numbers)[-2:]
    return Count(start, stop, stop - start)


def sliced(fault: Fault, call: Call) -> Count | None:
    """A part of a range, or of a buffer of whole numbers, which is a range as a rule."""
    x = next(iter(call.inputs.values()))
    parts = [part.strip() for part in call.literals.get("1", "").strip("()").split(",")]
    cuts = [cut for part in parts if (cut := CUT.fullmatch(part)) and part != ":"]
    if len(cuts) != 1 or any(part not in (":", "None", "0", "...", cuts[0][0], "") for part in parts):
        return None
    start, stop = int(cuts[0][1] or 0), int(cuts[0][2])
    is_buffer = x.name is not None and x.kind != "Parameter" and x.dtype.startswith("int")
    if is_buffer:
        return Count(start, stop, stop - start, is_known=False) if stop <= max(x.shape, default=0) else None
    whole_range = count(fault, x)
    if whole_range is None or not whole_range.is_known or stop > whole_range.length:
        return None
    return Count(whole_range.start + start, whole_range.start + stop, stop - start)


def whole(call: Call, *keys: str) -> int | None:
    text = next((call.literals[key] for key in keys if key in call.literals), "")
    return int(text) if WHOLE.fullmatch(text) else None


WHOLE = re.compile(r"-?\d+")
CUT = re.compile(r"(\d*):(\d+)")
