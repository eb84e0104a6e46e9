"""As many as floats say is no letter, whatever it is in all runs; what integers and shapes say may be one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace

Axes = tuple[str | int, ...]


class Model(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.gate = nn.Linear(8, 3)
        for parameter in self.gate.parameters():
            nn.init.zeros_(parameter)  # all tokens choose the first expert
        self.function = function

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids).flatten(0, 1)
        return self.function(self, ids, x, self.gate(x).argmax(-1))


def axes(function: Callable[..., Tensor]) -> list[Axes]:
    """Those of the results from the choice on."""
    trace = shapetrace.trace(Model(function), torch.arange(6).view(2, 3))
    calls = [call for call in trace.calls if call.kind == "function"]
    names = [call.name for call in calls]
    rest = calls[names.index("argmax") + 1 :]
    return [next(iter(call.outputs.values())).axes or next(iter(call.outputs.values())).shape for call in rest]


BY_FLOATS: dict[str, tuple[Callable[..., Tensor], list[Axes]]] = {
    "an index": (
        lambda m, ids, x, chosen: x[(chosen < 3).nonzero()[:, 0]] * 2,
        [("B·T",), (6, 1), (6,), (6, 8), (6, 8)],
    ),
    "a mask": (lambda m, ids, x, chosen: m.gate(x[chosen < 3]), [("B·T",), (6, 8), (6, 3)]),
    "what is put back": (
        lambda m, ids, x, chosen: x.index_add(0, at := torch.where(chosen < 3)[0], x[at]),
        [("B·T",), (6,), (6, 8), ("B·T", 8)],
    ),
    "repeats": (lambda m, ids, x, chosen: x.repeat_interleave(chosen.clamp(1), 0), [("B·T",), (6, 8)]),
}  # fmt: skip


@pytest.mark.parametrize(("function", "expected"), BY_FLOATS.values(), ids=BY_FLOATS)
def test_as_many_as_floats_say_is_no_letter(function: Callable[..., Tensor], expected: list[Axes]) -> None:
    assert axes(function) == expected


BY_INTEGERS: dict[str, Callable[..., Tensor]] = {
    "ids": lambda m, ids, x, chosen: x[ids.flatten() >= 0],
    "a shape": lambda m, ids, x, chosen: x[x.new_ones(len(x)).nonzero()[:, 0]],
}


@pytest.mark.parametrize("function", BY_INTEGERS.values(), ids=BY_INTEGERS)
def test_as_many_as_integers_or_a_shape_say_may_be_one(function: Callable[..., Tensor]) -> None:
    assert axes(function)[-1] == ("B·T", 8)
