"""What the values of each tensor are like: read when it is made and summed up in a few numbers; no tensor is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..records import Record, records_and_writes
from ..schema import Call, Stats, TensorMeta, Trace
from .listener import Listener
from .noted import NotedModule

__all__ = ["StatsRecorder", "stats_of", "with_stats"]

PLAIN = frozenset({Tensor, torch.nn.Parameter})
"""Tensors whose values can be read by no code of the user's."""


class StatsRecorder(Listener):
    """Sums up what each call gives or changes, and what a module is given that is in no other.

    stats   in the order in which `records_and_writes` comes by these tensors
    """

    def __init__(self) -> None:
        super().__init__(self.sum_up)

    def restart(self) -> None:
        super().restart()
        self.stats: list[Stats | None] = []

    def enter(
        self, name: str, path: str, place: Any, keys: tuple[str, ...], args: Any, kwargs: Any, note: Any
    ) -> NotedModule:
        if self.depth == 0:
            self.tell((*args, *kwargs.values()))
        return super().enter(name, path, place, keys, args, kwargs, note)

    def sum_up(self, tensor: Tensor) -> None:
        with _disable_current_modes():  # the aten ops of this are none of the model's
            self.stats.append(stats_of(tensor.detach()))


def stats_of(tensor: Tensor) -> Stats | None:
    """The values of a tensor, summed up; None of one that is complex, sparse, nested, quantised or fake."""
    if not is_readable(tensor):
        return None
    values, nan, inf = tensor, 0, 0
    if not tensor.is_floating_point():
        values = tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)
    elif tensor.itemsize < torch.float32.itemsize:
        values = tensor.float()
    if not bool((is_finite := values.isfinite()).all()):
        nan = int(values.isnan().sum())
        inf = values.numel() - int(is_finite.sum()) - nan
        values = values[is_finite]
    if not values.numel():
        return Stats(nan=nan, inf=inf)
    moments = torch.std_mean(values, correction=0)
    std, mean, least, most = torch.stack([*moments, *values.aminmax()]).tolist()
    if not math.isfinite(std + mean):  # a sum of theirs, or of their squares, is more than a float can be
        largest = max(-least, most)
        std, mean = (part * largest for part in torch.stack(torch.std_mean(values / largest, correction=0)).tolist())
    return Stats(mean, std, least, most, nan, inf)


def is_readable(tensor: Tensor) -> bool:
    if type(tensor) not in PLAIN or tensor.layout != torch.strided or tensor.is_meta or tensor.is_complex():
        return False
    return not (tensor.is_nested or tensor.is_quantized or is_functorch_wrapped_tensor(tensor))


def with_stats(trace: Trace, stats: Sequence[Stats | None]) -> Trace:
    """The trace with what a `StatsRecorder` that recorded it found."""
    found = {(id(each.call), is_given(each), each.key): one for each, one in zip(summed(trace), stats, strict=True)}

    def told(call: Call, tensors: dict[str, TensorMeta], are_given: bool) -> dict[str, TensorMeta]:
        return {
            key: msgspec.structs.replace(tensor, stats=found.get((id(call), are_given, key)))
            for key, tensor in tensors.items()
        }

    calls = tuple(
        msgspec.structs.replace(call, inputs=told(call, call.inputs, True), outputs=told(call, call.outputs, False))
        for call in trace.calls
    )
    return msgspec.structs.replace(trace, calls=calls)


def summed(trace: Trace) -> Iterator[Record]:
    found = records_and_writes(trace)
    return (each for each in found if each.materialised and (not each.is_input or each.call.depth == 0))


def is_given(record: Record) -> bool:
    return record.is_input or record.is_changed
