"""Which stage of the scores is compared with which: those that softmax is given, whatever lies in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.diff import compare

B, T, C = 2, 5, 4
MASK = torch.zeros(T, T).masked_fill(torch.ones(T, T).triu(diagonal=1).bool(), -1e9)

Masked = Callable[[Tensor], Tensor]


class Attention(nn.Module):
    def __init__(self, masked: Masked) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(C, C) for _ in range(3))
        self.masked = masked

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        weights = self.masked(scores).softmax(dim=-1).to(x.dtype)
        return weights @ self.v(x)


WAYS: dict[str, tuple[Masked, str]] = {
    "no cast": (lambda scores: scores + MASK, "add"),
    "a cast that changes nothing": (lambda scores: (scores + MASK).float(), "add"),
    "a cast": (lambda scores: (scores + MASK).double(), "add"),
    "two": (lambda scores: (scores + MASK).double().float(), "add"),
    "in place": (lambda scores: scores.add_(MASK), "add_"),
    "in place, and a cast that changes nothing": (lambda scores: scores.add_(MASK).float(), "add_"),
}


@pytest.mark.parametrize(("masked", "by"), WAYS.values(), ids=WAYS)
def test_what_is_masked_is_the_scores_whether_it_is_cast_before_softmax_or_not(masked: Masked, by: str) -> None:
    sides = [shapetrace.trace(Attention(way).eval(), torch.randn(B, T, C)) for way in (WAYS["no cast"][0], masked)]
    pairs = [(line.before, line.after) for line in compare(*sides).lines]
    scores = [(one, other) for one, other in pairs if "scores" in {item.role for item in (one, other) if item}]
    assert [(one and one.call.name, other and other.call.name) for one, other in scores] == [("add", by)]
