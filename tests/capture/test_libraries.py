"""What a library does for a model has the names that the model gives its results."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from einops import einsum, rearrange
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import shapetrace
from shapetrace import Trace

LIBRARY = """
def split(tensor, heads):
    tensor = tensor.unflatten(-1, (heads, -1))
    if heads > 1:
        tensor = turn(tensor)
    return tensor

def turn(x):
    out = x.transpose(1, 2)
    return out

def scaled(x):
    factor = x.mean(-1, keepdim=True)
    out = x / factor
    return out

def both(x):
    one, other = x.chunk(2, -1)
    return one, other
"""

X = torch.randn(2, 4, 8)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package that is installed."""
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / "heads_of_others.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(home)
    yield importlib.import_module("heads_of_others")
    del sys.modules["heads_of_others"]


def named(trace: Trace) -> list[str]:
    """Each function, and what its results are called."""
    return [
        f"{call.name}: {', '.join(call.variables.values())}".removesuffix(": ")
        for call in trace.calls
        if call.kind == "function"
    ]


def lines(trace: Trace) -> set[str]:
    """The files of its functions."""
    return {call.source[0] for call in trace.calls if call.kind == "function" and call.source}


def test_a_result_is_named_where_the_library_is_called_and_a_step_to_it_is_not(library: ModuleType) -> None:
    class Split(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = library.split(x, 2)
            k = library.split(x, 1)
            return q.sum() + k.sum()

    trace = shapetrace.trace(Split(), X, axes=False)
    assert named(trace)[:3] == ["unflatten", "transpose: q", "unflatten: k"]
    assert lines(trace) == {__file__}


def test_what_a_library_does_not_hand_on_keeps_its_name_there(library: ModuleType) -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = library.scaled(x)
            left, right = library.both(y)
            return left + right

    assert named(shapetrace.trace(Scaled(), X, axes=False)) == ["mean: factor", "div: y", "chunk: one, other", "add"]


def test_a_result_without_a_name_where_the_library_is_called_has_none(library: ModuleType) -> None:
    class Nameless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return library.split(x, 2).softmax(-1)

    assert named(shapetrace.trace(Nameless(), X, axes=False)) == ["unflatten", "transpose", "softmax"]


def test_functions_of_the_users_own_keep_their_names() -> None:
    def scaled(x: Tensor) -> Tensor:
        out = x / 2
        return out

    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            half = scaled(x)
            return half

    assert named(shapetrace.trace(Own(), X, axes=False)) == ["div: out"]


def test_functions_of_one_library_keep_their_names(library: ModuleType) -> None:
    """As in a model that is installed with the functions it is made of."""
    source = "class Model(nn.Module):\n    def forward(self, x):\n        y = scaled(x)\n        return y\n"
    scope = {**vars(library), "nn": nn}
    exec(compile(source, str(library.__file__), "exec"), scope)
    assert named(shapetrace.trace(scope["Model"](), X, axes=False)) == ["mean: factor", "div: out"]


def test_the_same_library_twice_in_a_row_gives_two_results(library: ModuleType) -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = library.turn(x)
            x = library.turn(x)
            return x + 1

    assert named(shapetrace.trace(Twice(), X, axes=False))[:2] == ["transpose: x", "transpose: x"]


def test_einops_gives_what_it_makes_the_names_of_the_model() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b h t d", three=3, h=2)
            scores = einsum(q, k, "b h t d, b h s d -> b h t s")
            y = scores.softmax(-1) @ v
            y = rearrange(y, "b h t d -> b t (h d)")
            return self.out(y)

    trace = shapetrace.trace(Attention(), X)
    names = {role: trace.roles(role)[0].name for role in ("q", "k", "v", "scores", "head_output", "concat")}
    assert names == {"q": "q", "k": "k", "v": "v", "scores": "scores", "head_output": "y", "concat": "y"}
    assert lines(trace) == {__file__, torch.nn.modules.linear.__file__}


def test_what_is_run_again_in_the_backward_is_named_where_it_was_called() -> None:
    class Saved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = checkpoint(lambda x: x.exp(), x, use_reentrant=False)
            return y + 1

    trace = shapetrace.trace(Saved(), X, axes=False)
    assert named(trace) == ["exp: y", "add"]
    assert lines(trace) == {__file__}
