"""Builders whose options have the names of the paper: `h` heads, `N` layers, a `d_model`; and one with heads of no
name.
What its options say of a model is never worse than what the model says itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapetrace import Trace
from shapetrace.targets import Request, record

MODEL = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.h, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = (q @ k.mT).softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).flatten(2))

class Model(nn.Module):
    def __init__(self, N, h, d_model):
        super().__init__()
        self.table = nn.Embedding(9, d_model)
        self.layers = nn.ModuleList(Layer(h, d_model) for _ in range(N))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return x

def paper(N=1, h=2, d_model=8):
    return Model(N, h, d_model), (torch.arange(8).view(2, 4),)

def nameless(d_model=8, split=2):
    return Model(1, split, d_model), (torch.arange(8).view(2, 4),)

def picture(h=4, w=4):
    return nn.Conv2d(3, 8, 3), (torch.zeros(2, 3, h, w),)
"""


def traced(builder: str, tmp_path: Path, *options: str) -> Trace:
    (tmp_path / "paper.py").write_text(MODEL)
    return record(Request(f"{tmp_path / 'paper.py'}:{builder}", options=options))


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("heads", [2, 4])
def test_h_is_heads_beside_a_d_model_and_n_the_layers_that_there_are(heads: int, layers: int, tmp_path: Path) -> None:
    trace = traced("paper", tmp_path, "--h", str(heads), "--N", str(layers))
    assert (trace.sizes["H"], trace.sizes["L"], trace.notes) == (heads, layers, ())
    assert "N" not in trace.sizes
    assert {tensor.axes for tensor in trace.roles("q")} == {("B", "H", "T", "D")}
    assert {tensor.axes for tensor in trace.roles("weights")} == {("B", "H", "T", "T")}


@pytest.mark.parametrize("heads", [2, 4])
def test_heads_that_no_option_is_known_to_give_are_told_by_what_the_model_does(heads: int, tmp_path: Path) -> None:
    trace = traced("nameless", tmp_path, "--split", str(heads))
    assert trace.roles("q")[0].axes == ("B", "H", "T", "D")
    assert trace.roles("weights")[0].axes == ("B", "H", "T", "T")
    assert trace.roles("attn_out")[0].axes == ("B", "T", "C")


def test_the_height_of_a_picture_is_no_heads(tmp_path: Path) -> None:
    assert "H" not in traced("picture", tmp_path).sizes
