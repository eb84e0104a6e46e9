"""What is written to under `torch.inference_mode`, where no version tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace

CHANGES: dict[str, Callable[[Tensor], object]] = {
    "add_": lambda y: y.add_(1),
    "+=": lambda y: y.__iadd__(y),
    "copy_": lambda y: y.copy_(y + 1),
    "an element": lambda y: y.__setitem__(0, 1.0),
    "a view": lambda y: y[0].mul_(2),
    "out": lambda y: torch.add(y, 1, out=y),
    "relu": lambda y: F.relu(y, inplace=True),
    "a list": lambda y: torch._foreach_mul_([y], 2.0),
    "dropout in training": lambda y: F.dropout(y, 0.5, training=True, inplace=True),
    "dropout in eval": lambda y: F.dropout(y, 0.5, training=False, inplace=True),
    "dropout of nothing": lambda y: nn.Dropout(0.5, inplace=True).eval()(y),
    "requires_grad_": lambda y: y.requires_grad_(False),
    "contiguous": lambda y: y.contiguous(),
    "to": lambda y: y.to(torch.float32),
    "a sparse one": lambda y: y.to_sparse().mul_(2),
}
QUIET = {"dropout in eval", "dropout of nothing", "requires_grad_", "contiguous", "to"}


class Changed(nn.Module):
    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        self.change(y)
        return y


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_what_writes_is_told_from_what_could(name: str, context: Any) -> None:
    with context():
        trace = shapetrace.trace(Changed(CHANGES[name]), torch.ones(2, 2), axes=False)
    written = [call.name for call in trace.calls if call.written]
    assert bool(written) is (name not in QUIET), written


@pytest.mark.parametrize("name", CHANGES)
def test_a_result_is_the_one_that_the_model_gives_unwatched(name: str) -> None:
    model = Changed(CHANGES[name])
    with torch.inference_mode():
        torch.manual_seed(0)
        expected = model(torch.ones(2, 2))
        torch.manual_seed(0)
        with shapetrace.attach(model):
            assert model(torch.ones(2, 2)).equal(expected)
