"""Hooks on a model that are the user's: they are not run again for its axes, and a letter is never wrong for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace import Trace
from shapetrace.models.gpt import gpt

Hook = Callable[[nn.Module, Any, Tensor], Any]


class Looked(nn.Module):
    """A lookup and a head; batch and length are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 12), nn.Linear(12, 50)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.table(ids))


def traced(hook: Hook) -> Trace:
    model = Looked()
    model.table.register_forward_hook(hook)
    return shapetrace.trace(model, torch.zeros(4, 4, dtype=torch.long))


def seen(trace: Trace) -> tuple[str | int, ...] | None:
    return trace["head"]["output"].axes


HOOKS: dict[str, Hook] = {
    "looks": lambda module, args, result: result.mean() and None,
    "scales": lambda module, args, result: result * 2,
    "steers": lambda module, args, result: result.relu() + torch.ones(12),
}


@pytest.mark.parametrize("hook", HOOKS.values(), ids=list(HOOKS))
def test_a_hook_that_leaves_each_dim_where_it_is_costs_no_axes(hook: Hook) -> None:
    trace = traced(hook)
    assert seen(trace) == ("B", "T", "V")
    assert trace.notes == ()


TURNING: dict[str, Hook] = {
    "a view": lambda module, args, result: result.transpose(0, 1),
    "a copy": lambda module, args, result: result.transpose(0, 1).contiguous(),
    "another": lambda module, args, result: torch.zeros(4, 4, 12),
}


@pytest.mark.parametrize("hook", TURNING.values(), ids=list(TURNING))
def test_of_a_hook_that_turns_what_it_is_given_no_axis_of_the_input_is_told(hook: Hook) -> None:
    trace = traced(hook)
    assert seen(trace) == (4, 4, "V")
    assert trace.notes == (
        "axes are not named: hooks on the model change what it computes, and hooks are not run again, "
        "for what else they may do",
    )


def test_a_model_that_does_not_run_without_its_hooks_says_that() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.attention = nn.Embedding(50, 12), nn.MultiheadAttention(12, 3, batch_first=True)
            self.attention.register_forward_hook(lambda module, args, result: result[0])

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids)
            return self.attention(x, x, x).relu()

    (note,) = shapetrace.trace(Attending(), torch.zeros(2, 4, dtype=torch.long)).notes
    assert note.startswith(
        "axes are not named: without the hooks on it the model does not run, and hooks are not run again, "
        "for what else they may do (AttributeError: "
    )


def test_hooks_run_once_with_the_forward() -> None:
    model, args, kwargs = gpt(L=6)
    runs: list[str] = []
    for path, module in model.named_modules():
        module.register_forward_hook(lambda module, args, result, path=path: runs.append(path))
    trace = shapetrace.trace(model, *args, **kwargs)
    assert sorted(runs) == sorted(path for path, _ in model.named_modules() if path != "blocks")
    assert trace["blocks.5.attention"]["weights"].axes == ("B", "H", "T", "T")
    assert trace.notes == ()
