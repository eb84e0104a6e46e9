"""The halves of a rotation, whichever a port takes first: what is negated corresponds to what is negated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace import compare_values
from shapetrace.diff import compare, pairs
from shapetrace.schema import Trace

B, T, C, H, D = 2, 6, 16, 2, 8
X = torch.linspace(-1, 1, B * T * C).view(B, T, C)
Half = Callable[[Tensor], Tensor]


def named(x: Tensor) -> Tensor:
    x1 = x[..., : D // 2]
    x2 = x[..., D // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def at_once(x: Tensor) -> Tensor:
    return torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1)


class Attention(nn.Module):
    def __init__(self, half: Half) -> None:
        super().__init__()
        self.half = half
        self.q, self.k, self.v, self.o = (nn.Linear(C, C) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (layer(x).view(b, t, H, D).transpose(1, 2) for layer in (self.q, self.k, self.v))
        angle = torch.outer(torch.arange(t).float(), 1 / 100 ** (torch.arange(0, D, 2).float() / D)).repeat(1, 2)
        q, k = (part * angle.cos() + self.half(part) * angle.sin() for part in (q, k))
        return self.o(((q @ k.mT / D**0.5).softmax(-1) @ v).transpose(1, 2).reshape(b, t, C))


def model(half: Half) -> nn.Module:
    torch.manual_seed(0)
    return Attention(half).eval()


def traced(half: Half) -> Trace:
    return shapetrace.trace(model(half), X)


WAYS = pytest.mark.parametrize(("one", "other"), [(named, at_once), (at_once, named)])


@WAYS
def test_what_is_negated_corresponds_to_what_is_negated(one: Half, other: Half) -> None:
    found = [(a and a.call.name, b and b.call.name) for a, b in pairs(traced(one), traced(other))]
    assert [pair for pair in found if "neg" in pair] == [("neg", "neg")] * 2
    assert not compare_values(model(one), model(other), X).within


@WAYS
def test_the_half_that_another_takes_first_has_moved_and_nothing_else(one: Half, other: Half) -> None:
    assert [change.kind for change in compare(traced(one), traced(other)).changes] == ["moved"] * 2
