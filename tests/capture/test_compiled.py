"""What is compiled runs as it was written where a model is run again: it is not compiled anew for each size. And what
is scripted or compiled inside a forward is seen, and said."""

from __future__ import annotations

import subprocess
import sys
import warnings
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
    for axes in (False, False, True):
        COMPILED.clear()
        trace = shapetrace.trace(model, x, axes=axes)
        compiled.append(len(COMPILED))
    assert compiled[1] == compiled[2]
    assert trace.calls[0].outputs[""].axes == ("B", 8)
    COMPILED.clear()
    model(x)
    assert COMPILED == []


def doubled(x: Tensor) -> Tensor:
    return torch.relu(x) * 2


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer torches advise against it
    doubled_in_script = torch.jit.script(doubled)


@torch.compile(backend=backend, fullgraph=True)
def whole(x: Tensor) -> Tensor:
    return x.sin() + 1


FUNCTIONS = {
    "scripted": (doubled_in_script, ["doubled"], "doubled: scripted: what runs inside is not seen"),
    "compiled": (
        whole,
        ["sin", "add"],
        "whole: compiled: while it is watched it runs as it is written, which is equal to rounding",
    ),
}


@pytest.mark.parametrize(("function", "names", "note"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_that_is_scripted_or_compiled_is_seen_and_said(
    function: Callable[..., Any], names: list[str], note: str
) -> None:
    model, x = Calling(function), torch.randn(2, 4, 8)
    bare = model(x)
    for axes in (False, "B=2 T=4"):
        trace = shapetrace.trace(model, x, axes=axes)
        assert [call.name for call in trace.calls[1:]] == names
        assert trace.notes == (note,)
    assert trace.calls[-1].outputs[""].axes == ("B", "T", 8)
    with shapetrace.attach(model, axes=False) as tap:
        watched = model(x)
        model(x)
    assert torch.equal(bare, watched)
    assert [trace.notes for trace in tap.traces] == [(note,)] * 2


def test_afterwards_torch_is_as_before() -> None:
    from torch._dynamo import eval_frame

    script, stance, ask = torch.jit.ScriptFunction.__call__, eval_frame._stance, eval_frame._callback_from_stance
    model, x = Calling(lambda x: whole(doubled_in_script(x))), torch.zeros(2)
    with shapetrace.attach(Twice()), shapetrace.attach(model) as tap:
        model(x)
    assert [call.name for call in tap.traces[0].calls] == ["Calling", "doubled", "sin", "add"]
    assert torch.jit.ScriptFunction.__call__ is script
    assert eval_frame._callback_from_stance is ask
    assert eval_frame._stance == stance


FIRST = """
import sys, torch, shapetrace
from torch import nn

class First(nn.Module):
    def forward(self, x):
        return torch.compile(lambda y: y.sin() + 1, backend="eager", fullgraph=True)(x)

assert "torch._dynamo" not in sys.modules
own = torch.compile
trace = shapetrace.trace(First(), torch.zeros(2, 4, 8), axes="B=2 T=4")
assert torch.compile is own
print(*(call.name for call in trace.calls), *trace.calls[-1].outputs[""].axes)
"""


def test_a_model_may_be_the_first_that_compiles_anything() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=False)
    assert done.stdout == "First sin add B T 8\n", done.stderr


def test_a_scripted_function_that_raises_is_the_call_that_failed() -> None:
    with pytest.raises(Exception) as raised:
        shapetrace.trace(Calling(doubled_in_script), torch.zeros(2, dtype=torch.bool))
    assert "shapetrace: raised in Calling, by doubled(x)" in raised.value.__notes__[0]


class Tracing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        function = torch.jit.trace(lambda y: doubled(self.inner(y)), x)
        return self.inner(function(x))


@pytest.mark.filterwarnings("ignore")
def test_what_torch_runs_to_trace_a_function_is_not_taken_for_the_forward() -> None:
    model, x, own = Tracing(), torch.randn(2, 4, 8), torch.jit._trace.trace_module
    bare = model(x)
    with shapetrace.attach(model, axes=False) as tap:
        assert torch.equal(model(x), bare)
    trace = tap.traces[0]
    assert [(call.kind, call.name) for call in trace.calls] == [
        ("module", "Tracing"), ("function", "_lambda"), ("module", "Linear"), ("function", "linear")
    ]  # fmt: skip
    assert trace.notes == (
        "torch.jit.trace runs inside: what it runs to trace is not seen",
        "_lambda: scripted: what runs inside is not seen",
    )
    assert shapetrace.trace(model, x, axes="B=2 T=4").calls[-1].outputs[""].axes == ("B", "T", 8)
    assert torch.jit._trace.trace_module is own
