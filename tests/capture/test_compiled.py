"""What is compiled runs as it was written where a model is run again: it is not compiled anew for each size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace

COMPILED: list[int] = []


def backend(graph: Any, _inputs: Any) -> Any:
    COMPILED.append(len(graph.graph.nodes))
    return graph.forward


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + 1


class Calling(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def by_method() -> nn.Module:
    model = Twice()
    model.compile(backend=backend)
    return model


COMPILATIONS: dict[str, Callable[[], nn.Module]] = {
    "by method": by_method,
    "by function": lambda: torch.compile(Twice(), backend=backend),
    "inside": lambda: nn.Sequential(torch.compile(Twice(), backend=backend)),
    "a function": lambda: Calling(torch.compile(lambda x: x * 2 + 1, backend=backend)),
}


@pytest.mark.parametrize("make", COMPILATIONS.values(), ids=COMPILATIONS)
@pytest.mark.filterwarnings(
    "ignore:Dynamo does not know how to trace",
    "ignore:Graph break due to unsupported builtin",
    "ignore:Pickle, copy, and deepcopy support will be removed",
)
def test_what_is_compiled_is_not_compiled_anew_for_other_sizes(make: Callable[[], nn.Module]) -> None:
    torch._dynamo.reset()
    model, x = make(), torch.zeros(2, 8)
    model(x)
    compiled: list[int] = []
    for axes in (False, False, True):  # a compiled function is compiled once for each mode that it runs in
        COMPILED.clear()
        trace = shapetrace.trace(model, x, axes=axes)
        compiled.append(len(COMPILED))
    assert compiled[1] == compiled[2]
    assert trace.calls[0].outputs[""].axes == ("B", 8)
    COMPILED.clear()
    model(x)
    assert COMPILED == []
