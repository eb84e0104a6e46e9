"""What is said of two tensors that differ: a multiple of the other, another order, keys that one side hides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shapetrace import ValuesDiff, compare_values
from shapetrace.diff.divergence import Relation

B, T, C, H, D = 2, 5, 16, 4, 4

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Attention(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(C, C) for _ in range(4))
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (H, D)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        later = torch.ones(T, T).triu(diagonal=1).bool()
        out: Tensor = self.o(self.attend(q, k, v, later).transpose(1, 2).flatten(2))
        return out


def fused(q: Tensor, k: Tensor, v: Tensor, later: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~later)


def written_out(q: Tensor, k: Tensor, v: Tensor, later: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / D**0.5
    scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(dim=-1) @ v


def masked_too_late(q: Tensor, k: Tensor, v: Tensor, later: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / D**0.5
    weights = scores.softmax(dim=-1)
    weights = weights.masked_fill(later, 0)
    return weights @ v


def masked_by_another_number(q: Tensor, k: Tensor, v: Tensor, later: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / D**0.5
    scores = scores.masked_fill(later, -1e9)
    return scores.softmax(dim=-1) @ v


def never_scaled(q: Tensor, k: Tensor, v: Tensor, later: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1)
    scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(dim=-1) @ v


def said(found: ValuesDiff) -> tuple[str | None, Relation | None]:
    first = found.first
    assert first is not None
    assert first.apart is not None
    return first.before.role, first.apart.relation


def parted(one: nn.Module, other: nn.Module) -> tuple[str | None, Relation | None]:
    return said(compare_values(one, other, torch.randn(B, T, C)))


@pytest.mark.parametrize("right", [fused, written_out])
def test_a_mask_that_comes_after_softmax_is_told_at_the_scores_that_it_should_have_hidden(right: Attend) -> None:
    one, other = Attention(right), Attention(masked_too_late)
    assert parted(one, other) == ("scores", Relation("hidden", side="before"))
    assert parted(other, one) == ("scores", Relation("hidden", side="after"))
    text = str(compare_values(one, other, torch.randn(B, T, C)))
    assert "      the same but for keys that a mask hides only before\n" in text


@pytest.mark.parametrize("right", [fused, written_out, masked_by_another_number])
def test_a_scale_that_is_missing_is_told_as_a_factor(right: Attend) -> None:
    _, found = parted(Attention(right), Attention(never_scaled))
    assert found is not None
    assert (found.kind, round(found.number, 5)) == ("factor", 2)  # √4
    assert "      after is before times 2\n" in str(
        compare_values(Attention(right), Attention(never_scaled), torch.randn(B, T, C))
    )


def test_rows_of_a_weight_in_another_order_are_told_at_what_it_makes() -> None:
    """As of rotations whose halves lie side by side, or every other one."""
    one, other = Attention(written_out), Attention(written_out)
    with torch.no_grad():
        other.q.weight.copy_(one.q.weight.view(H, 2, D // 2, C).transpose(1, 2).reshape(C, C))
        other.q.bias.copy_(one.q.bias.view(H, 2, D // 2).transpose(1, 2).reshape(C))
    found = compare_values(one, other, torch.randn(B, T, C))
    assert found.first is not None
    assert found.first.before.name == "q"
    assert said(found)[1] == Relation("order", dim=2)
    assert "      the same but for the order: what lies along C, in other places\n" in str(found)


class Step(nn.Module):
    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        y = self.step(x)
        return y + 0


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda x: x * -3, Relation("factor", number=-3.0)),
        (lambda x: x + 2, Relation("sum", number=2.0)),
        (lambda x: x.flip(0) + 0, Relation("order", dim=0)),
        (lambda x: x[:, [2, 0, 1]] + 0, Relation("order", dim=1)),
        (lambda x: x.flatten().roll(1).view_as(x), Relation("order")),
        (lambda x: x**2, None),
        (lambda x: x * torch.tensor([1.0, 2.0, 1.0]), None),
    ],
    ids=["multiple", "more", "rows", "columns", "elsewhere", "squares", "one column"],
)
def test_what_can_be_told_of_one_step(step: Callable[[Tensor], Tensor], expected: Relation | None) -> None:
    x = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.5]])  # no sum of two is a third
    assert said(compare_values(Step(lambda x: x + 0), Step(step), x))[1] == expected


def test_of_what_is_the_same_number_everywhere_no_relation_is_told() -> None:
    assert said(compare_values(Step(lambda x: x * 1), Step(lambda x: x * 2), torch.ones(4)))[1] is None
