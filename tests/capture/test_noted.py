"""Calls are noted the short way or the long way: what they become is the same."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.capture.recorder import Recorder
from shapetrace.capture.unread import Unread
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer


class Steps(nn.Module):
    """Steps with keyword arguments, several results, a result that is an argument, changes in place, and no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.relu = nn.ReLU(inplace=True)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x: Tensor, *, size: tuple[int, ...]) -> Tensor:
        same = x.contiguous()
        left, right = self.linear(same).split(3, dim=-1)
        both = torch.cat([left, right], dim=-1) * self.scale
        self.relu(both)
        total = torch.zeros(()).expand(size)
        with torch.no_grad():
            torch.add(both, 1, out=both)
        both.sum().item()
        return both[:, None] + total.unsqueeze(dim=0)


MODELS = {
    "gpt": gpt,
    "encoder": encoder,
    "transformer": transformer,
    "steps": lambda: (Steps(), (torch.zeros(2, 6),), {"size": (1, 6)}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_the_short_way_tells_what_the_long_way_does(name: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, args, kwargs = MODELS[name]()
    with context():
        short = shapetrace.trace(model, *args, **kwargs, axes=False)
        monkeypatch.setattr(Recorder, "is_quick", False)
        long = shapetrace.trace(model, *args, **kwargs, axes=False)
    assert short.calls == long.calls


def test_under_inference_mode_a_module_changes_what_a_function_in_it_does_and_nothing_else() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    with torch.inference_mode():
        trace = shapetrace.trace(model, torch.zeros(1, 2), axes=False)
    written = {call.name: bool(call.written) for call in trace.calls if call.kind == "module"}
    assert written == {"Sequential": False, "Linear": False, "ReLU": True}


def test_under_inference_mode_a_result_that_is_the_argument_is_the_same_tensor() -> None:
    with torch.inference_mode():
        trace = shapetrace.trace(nn.Dropout().eval(), torch.zeros(1, 2), axes=False)
    assert {call.outputs[""].number for call in trace.calls} == {trace.calls[0].inputs["input"].number}


def test_a_function_that_fails_on_the_short_way_is_noted_with_what_it_was_given() -> None:
    with pytest.raises(RuntimeError) as caught, torch.no_grad():
        shapetrace.trace(nn.Linear(3, 2), torch.zeros(4, 5), axes=False)
    trace = shapetrace.trace_of(caught.value)
    assert trace is not None
    assert trace.calls[-1].name == "linear"
    assert trace.calls[-1].inputs["0"].shape == (4, 5)
    assert (trace.calls[-1].error or "").startswith("RuntimeError: mat1 and mat2")


def test_what_is_noted_of_functions_is_nothing_to_the_garbage_collector() -> None:
    model, args, kwargs = gpt()
    with shapetrace.attach(model, axes=False) as tap:
        model(*args, **kwargs)
    (kept,) = tap._complete
    assert isinstance(kept.trace, Unread)
    for _ in range(3):  # it lets go of what holds a tuple only after that
        gc.collect()
    assert len(kept.trace.noted) > 50
    assert not any(gc.is_tracked(noted) for noted in kept.trace.noted)
