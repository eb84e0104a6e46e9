"""Two tensors that a model is given meet where what is made of one is multiplied with, or joined to, what is made of
the other; a mask meets nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.meeting import meetings


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def attend(x: Tensor, source: Tensor, mask: Tensor) -> Tensor:
    return (x @ source.mT + mask[:, None]).softmax(-1) @ source


X, Y, MASK = torch.zeros(2, 4, 8), torch.zeros(2, 4, 8), torch.zeros(2, 4)
BOTH = frozenset({"0", "1"})

CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], set[frozenset[str]]]] = {
    "a product": (lambda x, y: x @ y.mT, (X, Y), {BOTH}),
    "a product of what is made of them": (lambda x, y: torch.bmm(x + 1, y.mT.contiguous() * 2), (X, Y), {BOTH}),
    "a fused attention": (lambda x, y: F.scaled_dot_product_attention(x, y, y), (X, Y), {BOTH}),
    "one after the other": (lambda x, y: torch.cat([x, y], 1), (X, Y), {BOTH}),
    "attention of one to another, with a mask": (attend, (X, Y, MASK), {BOTH}),
    "attention of one to itself, with a mask": (lambda x, mask: attend(x, x, mask), (X, MASK), set()),
    "a sum": (lambda x, y: x + y, (X, Y), set()),
    "what is written into both": (lambda x, y: (x.add_(y), y.add_(x), x @ y.mT), (X, Y), set()),
    "rows of a batch, and columns of another": (lambda x, y: x.mean(1) @ y.mean(1).T, (X, Y), set()),
    "a single tensor": (lambda x: x @ x.mT, (X,), set()),
}


@pytest.mark.parametrize(("function", "args", "expected"), CASES.values(), ids=CASES)
def test_what_meets(function: Callable[..., Any], args: tuple[Tensor, ...], expected: set[frozenset[str]]) -> None:
    args = tuple(arg.clone() for arg in args)
    assert meetings(shapetrace.trace(Model(function), *args, axes=False)) == expected


def test_what_is_given_twice_meets_another_by_both_of_its_names() -> None:
    trace = shapetrace.trace(Three(), X, Y, Y, axes=False)
    assert meetings(trace) == {frozenset({"q", "k"}), frozenset({"q", "v"})}


class Three(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)
