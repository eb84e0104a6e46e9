"""What is added to the residual stream: feed-forwards, of one kind and another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.passes.parts import HEADS, IDS, Block, Gated, Language, X, counts, kinds, said, traced


class Mixture(nn.Module):
    """One of three experts for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weight, choice = self.router(x).softmax(-1).topk(1)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mixed = mixed + expert(x) * (choice == index) * weight
        return mixed


def test_a_gated_feed_forward_is_one() -> None:
    trace = traced(Block(Gated()), X)
    assert [line for line in said(trace) if "feed_forward" in line] == [
        "> feed_forward.x: x",
        "feed_forward.hidden: ffn_hidden",
        "feed_forward.down: ffn_out",
    ]
    assert kinds(trace) == [
        "Block: pre-LN block",
        "attention: self-attention",
        "feed_forward: feed-forward",
    ]


def test_a_mixture_of_experts_is_one_feed_forward_and_its_router_no_attention() -> None:
    trace = traced(Block(Mixture()), X)
    assert [line for line in said(trace) if "feed_forward" in line] == [
        "> feed_forward.x: x",
        "feed_forward.mixed: ffn_out",
    ]
    assert kinds(trace)[-1] == "feed_forward: feed-forward"
    assert counts(trace) == dict.fromkeys(HEADS, 1)


class Curved(nn.Module):
    """An activation written by hand, with a threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.rate = nn.Linear(8, 16), nn.Linear(16, 8), nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        hidden = torch.where(x > 0, x * x, torch.expm1(x.clamp(max=0)) * self.rate)
        return self.down(hidden)


class TwoChoices(Mixture):
    """The largest of what the router says, and then the largest of the others."""

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x)
        first = scores.max(-1, keepdim=True)
        second = scores.scatter(-1, first.indices, -torch.inf).max(-1, keepdim=True)
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            chosen = (first.indices == index) | (second.indices == index)
            mixed = mixed + expert(x) * chosen
        return mixed


@pytest.mark.parametrize(
    ("feed_forward", "roles"),
    [
        (Curved, ["> feed_forward.x: x", "feed_forward.hidden: ffn_hidden", "feed_forward.down: ffn_out"]),
        (TwoChoices, ["> feed_forward.x: x", "feed_forward.mixed: ffn_out"]),
    ],
)
def test_a_feed_forward_is_one_whatever_its_activation_or_its_router(
    feed_forward: type[nn.Module], roles: list[str]
) -> None:
    trace = traced(Block(feed_forward()), X)
    assert [line for line in said(trace) if "feed_forward" in line] == roles
    assert kinds(trace)[-1] == "feed_forward: feed-forward"


def test_a_branch_that_is_scaled_by_einsum_is_one_as_any() -> None:
    class Scaled(Block):
        """Touvron et al., 2021."""

        def __init__(self) -> None:
            super().__init__(Gated())
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            x = x + torch.einsum("btc,c->btc", self.attention(self.norm_1(x)), self.scale)
            x = x + torch.einsum("...c, c -> ...c", self.feed_forward(self.norm_2(x)), self.scale)
            return x

    trace = traced(Scaled(), X)
    assert [line.partition(": ")[2] for line in said(trace)][-6:] == [
        "residual",
        "norm",
        "x",
        "ffn_hidden",
        "ffn_out",
        "residual",
    ]
    assert kinds(trace) == ["Scaled: pre-LN block", "attention: self-attention", "feed_forward: feed-forward"]


def test_a_scale_by_weights_is_no_gate() -> None:
    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.scale = nn.Linear(8, 16), nn.Linear(16, 8), nn.Parameter(torch.ones(16))

        def forward(self, x: Tensor) -> Tensor:
            return self.down(self.up(x) * self.scale)

    assert "feed_forward: feed-forward" not in kinds(traced(Block(Linear()), X))


class Plain(Block):
    """Without residual connections."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm_1(x))
        return self.feed_forward(self.norm_2(x))


class Half(Block):
    """With one around attention alone."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(self.feed_forward(x))


@pytest.mark.parametrize("before", [Block, Plain])
@pytest.mark.parametrize("after", [Block, Plain])
def test_a_feed_forward_that_is_added_to_nothing_is_one(before: type[Block], after: type[Block]) -> None:
    trace = traced(Language(before(Gated()), Plain(Gated()), after(Gated())), IDS)
    for place in range(3):
        path = f"blocks.{place}.feed_forward"
        assert f"> {path}.x: x" in said(trace)
        assert f"{path}.hidden: ffn_hidden" in said(trace)
        assert f"{path}.down: ffn_out" in said(trace)
        assert f"{path}: feed-forward" in kinds(trace)
        assert f"blocks.{place}.norm_2: norm" in said(trace)
    assert "blocks.1.norm_1: norm" in said(trace)


def test_a_hidden_layer_of_what_the_model_says_is_no_feed_forward() -> None:
    class Deep(Language):
        def __init__(self) -> None:
            super().__init__(Block(Gated()))
            self.hidden, self.classes = nn.Linear(8, 32), nn.Linear(32, 9)

        def forward(self, ids: Tensor) -> Tensor:
            return self.classes(self.hidden(self.blocks[0](self.table(ids))).tanh())

    assert not [line for line in said(traced(Deep(), IDS)) if "ffn" in line and "blocks" not in line]


def test_each_block_is_one_also_where_the_feed_forward_of_the_last_is_not_told() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = Half(Gated()), Half(nn.Identity())

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x)).mean(1)

    assert [kind for kind in kinds(traced(Odd(), X)) if "block" in kind] == [
        "first: post-LN block",
        "last: post-LN block",
    ]
