"""Layers of one form are probed once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import shapetrace
from shapetrace.capture import naming
from shapetrace.passes.depth import Layers, layers_of, stretched
from shapetrace.schema import Call, TensorMeta, Trace


class Config:
    def __init__(self, layers: int) -> None:
        self.hidden_size = 8
        self.intermediate_size = 24
        self.num_hidden_layers = layers


class Block(nn.Module):
    def __init__(self, config: Config, wide: int) -> None:
        super().__init__()
        self.up = nn.Linear(config.hidden_size, wide * config.intermediate_size)
        self.down = nn.Linear(wide * config.intermediate_size, config.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


class Deep(nn.Module):
    """Its first two layers are twice as wide, and something is done between any two."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Block(config, 2 if n < 2 else 1) for n in range(config.num_hidden_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def test_so_many_of_the_first_layers_run_that_each_kind_is_among_them() -> None:
    found = shapetrace.trace(Deep(Config(9)), torch.zeros(2, 5, 8))
    assert layers_of(found) == Layers(9, 3, {"layers": (0, 0, 2, 2, 2, 2, 2, 2, 2)})


def test_the_axes_are_those_of_a_run_of_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Deep(Config(9)), torch.zeros(2, 5, 8)
    fast = shapetrace.trace(model, x, axes="B=2 T=5")
    monkeypatch.setattr(naming, "layers_of", lambda _: None)
    assert shapetrace.trace(model, x, axes="B=2 T=5") == fast
    assert fast["layers.0"]["up"].axes == ("B", "T", "2·F")
    assert fast["layers.8"]["up"].axes == ("B", "T", "F")


def layer(number: int, size: int = 4) -> list[Call]:
    path, x = f"h.{number}", {"0": TensorMeta((size,))}
    return [Call("module", path, "Block", 1, inputs=x), Call("function", path, "relu", 2, inputs=x)]


def trace_of(*calls: Call) -> Trace:
    return Trace("net", sizes={"L": 4}, calls=(Call("module", "", "Net", 0), *calls))


def between(name: str = "add") -> Call:
    return Call("function", "", name, 1)


def test_what_the_other_layers_do_is_what_the_first_of_their_form_does() -> None:
    whole = trace_of(*layer(0), between(), *layer(1), between(), *layer(2), between(), *layer(3))
    layers = layers_of(whole)
    assert layers == Layers(4, 2, {"h": (0, 0, 0, 0)})
    first = trace_of(*layer(0, 7), between(), *layer(1, 7))
    assert stretched(first, whole, layers) == trace_of(
        *layer(0, 7), between(), *layer(1, 7), between(), *layer(2, 7), between(), *layer(3, 7)
    )


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([*layer(0), *layer(1), *layer(2)], id="fewer than there are layers"),
        pytest.param([*layer(0), *layer(1), *layer(1), *layer(2)], id="one runs twice"),
        pytest.param([*layer(1), *layer(0), *layer(2), *layer(3)], id="in another order"),
        pytest.param([*layer(0), *layer(1), *layer(2), *layer(3, 5)], id="the last is another"),
    ],
)
def test_all_layers_run_where_nothing_is_saved(calls: list[Call]) -> None:
    assert layers_of(trace_of(*calls)) is None


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([*layer(0)], id="another number of layers"),
        pytest.param([*layer(0), *layer(1), between()], id="more is done"),
    ],
)
def test_a_run_of_the_first_layers_that_does_something_else_is_none(calls: list[Call]) -> None:
    whole = trace_of(*layer(0), *layer(1), *layer(2), *layer(3))
    layers = layers_of(whole)
    assert layers is not None
    assert stretched(trace_of(*calls), whole, layers) is None
