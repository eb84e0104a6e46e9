"""A model for mistakes, and what is said of them."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.diagnosis import diagnosis

B, T, C, H, V = 2, 6, 16, 4, 20

Step = Callable[["Net", Tensor, Tensor], Any]


class Net(nn.Module):
    """Embeds ids, and does with them what a test says; with what it holds for that."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step
        self.token = nn.Embedding(V, C)
        self.qkv = nn.Linear(C, 3 * C)
        self.head = nn.Linear(C, V)
        self.cls = nn.Parameter(torch.zeros(1, 1, C))
        self.table = nn.Parameter(torch.zeros(T - 1, C))
        self.register_buffer("places", torch.arange(64)[None])
        self.scale = nn.Parameter(torch.ones(T))
        self.turned = nn.Parameter(torch.zeros(C, 2 * C))
        self.norm = nn.LayerNorm([T - 1, C])
        self.attention = nn.MultiheadAttention(C, H, batch_first=True)
        self.lstm = nn.LSTM(C, 8, batch_first=True)
        self.gru = nn.GRU(C, 8, batch_first=True)

    def heads(self, x: Tensor, part: int) -> Tensor:
        y = self.qkv(x)[..., part * C : (part + 1) * C].reshape(*x.shape[:2], H, C // H)
        return y.transpose(1, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)
        result: Tensor = self.step(self, x, ids)
        return result


class Mistake(NamedTuple):
    """`mended` is what was advised; None where there is nothing to write."""

    step: Step
    said: str
    mended: Step | None = None


def said(step: Step) -> str | None:
    """The sentence for a forward that takes this step, and fails; without the numbers of lines."""
    with pytest.raises(Exception) as raised:
        shapetrace.trace(Net(step), torch.zeros(B, T, dtype=torch.long), axes="B=2 T=6")
    trace = shapetrace.trace_of(raised.value)
    sentence = None if trace is None else diagnosis(trace)
    return sentence and re.sub(r"(\.py):\d+", r"\1", sentence)


def runs(step: Step) -> None:
    """Whether a step, as it was advised, raises nothing."""
    Net(step)(torch.zeros(B, T, dtype=torch.long))
