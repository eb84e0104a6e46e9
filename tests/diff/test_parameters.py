"""What layers do with their parameters, where that differs: one that is shared, and a bias that one side has alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.diff import Diff, compare

from .nodes import told

B, T, C, V, WIDTH = 2, 3, 8, 12, 16


class Language(nn.Module):
    def __init__(self, *, is_tied: bool) -> None:
        super().__init__()
        self.embedding, self.between, self.head = nn.Embedding(V, C), nn.Linear(C, C), nn.Linear(C, V, bias=False)
        if is_tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.between(self.embedding(ids)))
        return logits


class OneLayerTwice(nn.Module):
    def __init__(self, *, is_shared: bool) -> None:
        super().__init__()
        self.first = nn.Linear(C, C)
        self.second = self.first if is_shared else nn.Linear(C, C)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


def of_ids(one: nn.Module, other: nn.Module, **fields: list[str]) -> Diff:
    sides = (shapetrace.trace(model, torch.zeros(B, T, dtype=torch.long), axes="V=12 C=8") for model in (one, other))
    return compare(*(trace.portable() for trace in sides), **fields)


def test_a_head_that_is_tied_on_one_side_only_is_one_change() -> None:
    tied, own = Language(is_tied=True), Language(is_tied=False)
    assert told(of_ids(tied, own)) == ["changed head tied embedding.weight → None"]
    assert told(of_ids(own, tied)) == ["changed head tied None → embedding.weight"]
    assert "tied to embedding.weight → not tied" in str(of_ids(tied, own))
    assert not of_ids(tied, own, ignore=["tied"])


def test_two_heads_that_are_tied_or_one_layer_that_runs_again_are_the_same() -> None:
    assert not of_ids(Language(is_tied=True), Language(is_tied=True))
    x = torch.randn(B, C)
    shared = shapetrace.trace(OneLayerTwice(is_shared=True), x)
    assert [line for line in told(compare(shared, shared)) if "tied" in line] == []


class Product(nn.Module):
    def __init__(self, *, has_bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(C, WIDTH))
        self.bias = nn.Parameter(torch.randn(WIDTH)) if has_bias else None


class OfAddmm(Product):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)
        return y.relu()


class OfLinear(Product):
    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight.T, self.bias)
        return y.relu()


class OfSum(Product):
    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        if self.bias is not None:
            y = y + self.bias
        return y.relu()


def biases(one: nn.Module, other: nn.Module) -> list[object]:
    x = torch.randn(B, C)
    changes = compare(shapetrace.trace(one, x), shapetrace.trace(other, x)).changes
    return [change.fields["bias"] for change in changes if "bias" in change.fields]


def test_a_bias_that_is_there_on_one_side_only_is_told_of_products_that_are_called_otherwise() -> None:
    for one, other in ((OfAddmm, OfAddmm), (OfAddmm, OfLinear), (OfLinear, OfAddmm), (OfLinear, OfSum)):
        assert biases(one(has_bias=True), other(has_bias=False)) == [((WIDTH,), None)]
        assert biases(one(has_bias=False), other(has_bias=True)) == ([(None, (WIDTH,))] if other is not OfSum else [])


def test_a_bias_on_both_sides_is_none_that_differs_also_if_one_adds_it_in_a_step_of_its_own() -> None:
    for one in (OfAddmm, OfLinear, OfSum):
        for other in (OfAddmm, OfLinear, OfSum):
            assert biases(one(has_bias=True), other(has_bias=True)) == []
            assert biases(one(has_bias=False), other(has_bias=False)) == []
