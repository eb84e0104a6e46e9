"""The residual stream, what is added to it, and what comes out of it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from tests.passes.parts import IDS, Block, Einsum, Gated, Language, Scan, X, kinds, said, traced


def test_a_norm_in_the_stream_makes_no_stream_of_the_norms_after_it() -> None:
    class Normed(nn.Module):
        """x = norm(x + f(x)) between two blocks that norm what they read."""

        def __init__(self) -> None:
            super().__init__()
            self.before, self.extra, self.after = Block(Gated()), nn.LayerNorm(8), Block(Gated())

        def forward(self, x: Tensor) -> Tensor:
            return self.after(self.extra(self.before(x)))

    found = said(traced(Normed(), X))
    assert "extra: residual" in found or "input: residual" in found
    assert [line for line in found if "after.norm" in line] == [
        line.replace("before.", "after.") for line in found if "before.norm" in line
    ]


def test_a_scan_beside_attention_is_part_of_the_stream_and_no_feed_forward() -> None:
    class Hybrid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scan, self.block = Scan(), Block(Gated())

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.scan(x))

    trace = traced(Hybrid(), X)
    assert [line for line in said(trace) if line.startswith("scan")] == ["scan.norm: norm", "scan: residual"]
    assert "scan: feed-forward" not in kinds(trace)


# Without attention


class Fourier(nn.Module):
    """Tokens are mixed by a transform that has no weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2, self.feed_forward = nn.LayerNorm(8), nn.LayerNorm(8), Gated()

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_1(x + torch.fft.fft2(x).real)
        return self.norm_2(x + self.feed_forward(x))


class Shifted(nn.Module):
    """Each token is mixed with the one before it, at a rate for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.rate = nn.Parameter(torch.rand(1, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        mixed = normed * self.rate + F.pad(normed, (0, 0, 1, -1)) * (1 - self.rate)
        return x + self.out(self.into(mixed).relu().square())


class Rescaled(nn.Module):
    """Stream and branch have a scale and a bias each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.feed_forward = nn.LayerNorm(8), Gated()
        self.scale, self.bias = nn.Parameter(torch.ones(2, 8)), nn.Parameter(torch.zeros(2, 8))

    def forward(self, x: Tensor) -> Tensor:
        branch = self.feed_forward(self.norm(x))
        return (x + self.bias[0]) * self.scale[0] + (branch + self.bias[1]) * self.scale[1]


FED = [
    "> blocks.0.feed_forward.x: x",
    "blocks.0.feed_forward.hidden: ffn_hidden",
    "blocks.0.feed_forward.down: ffn_out",
]


@pytest.mark.parametrize(
    ("block", "roles"),
    [
        (Scan, ["blocks.0.norm: norm", "x: residual"]),
        (Shifted, ["blocks.0.normed: norm", "x: residual"]),
        (Rescaled, ["blocks.0.norm: norm", *FED, "x: residual"]),
        (Fourier, ["blocks.0.add: residual", "blocks.0.x: residual", *FED, "blocks.0.add: residual"]),
    ],
)
def test_a_model_of_tokens_has_a_stream_also_where_nothing_attends(block: type[nn.Module], roles: list[str]) -> None:
    assert said(traced(Language(block()), IDS)) == [
        "x: token_embedding",
        *roles,
        *["blocks.0.norm_2: residual"] * (block is Fourier),  # post-LN
        "norm: norm",
        "logits: logits",
        "output[1]: loss",
    ]


def test_tokens_that_are_mixed_with_the_one_before_are_not_the_stream() -> None:
    found = said(traced(Language(Shifted(), Shifted()), IDS))
    assert [line for line in found if "residual" in line] == ["x: residual"] * 2


def test_a_recurrent_model_of_tokens_has_no_stream() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.Linear(16, 8)

        def forward(self, x: Tensor) -> Tensor:
            states = [x[:, 0]]
            for token in x.unbind(1)[1:]:
                states.append(states[-1] + self.cell(torch.cat([states[-1], token], -1)).tanh())
            return torch.stack(states, 1)

    assert said(traced(Language(Recurrent()), IDS)) == [
        "x: token_embedding",
        "norm: norm",
        "logits: logits",
        "output[1]: loss",
    ]


# What is the stream, and what is not


class Shortcut(nn.Module):
    """What the first half reads is fed forward beside the second half, and added at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.block_1, self.block_2, self.norm, self.beside = Block(Gated()), Block(Gated()), nn.LayerNorm(8), Gated()

    def forward(self, x: Tensor) -> Tensor:
        beside = self.beside(self.norm(x))
        x = self.block_2(self.block_1(x))
        x = x + beside
        return x


def test_a_shortcut_around_two_blocks_is_added_to_the_stream() -> None:
    assert said(traced(Language(Shortcut()), IDS))[-5:] == [
        "blocks.0.block_2.x: residual",
        "blocks.0.x: residual",
        "norm: norm",
        "logits: logits",
        "output[1]: loss",
    ]


def test_a_difference_from_the_stream_is_not_the_stream() -> None:
    class Interpolated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Einsum()

        def forward(self, x: Tensor) -> Tensor:
            change = self.attention(x) - x
            return x + 0.5 * change

    trace = traced(Language(Interpolated()), IDS)
    assert [line for line in said(trace) if "change" in line or "residual" in line] == ["x: residual"]


def test_several_streams_side_by_side_are_mixed_before_they_are_added_to() -> None:
    class Connected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix, self.feed_forward = nn.LayerNorm(8), nn.Linear(8, 9), Gated()

        def forward(self, x: Tensor) -> Tensor:
            mix = self.mix(x.mean(2)).view(2, 4, 3, 3)
            x = mix @ x + self.feed_forward(self.norm(x.mean(2))).unsqueeze(2).expand(2, 4, 3, 8)
            return x

    class Streams(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.one, self.two = nn.Embedding(9, 8), Connected(), Connected()

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids).unsqueeze(2).repeat(1, 1, 3, 1)
            return self.two(self.one(x))

    assert [line for line in said(traced(Streams(), IDS)) if "residual" in line] == [
        "x: residual",
        "one.x: residual",
        "two.x: residual",
    ]


class ByHand(nn.Module):
    """LayerNorm, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return self.weight * normed + self.bias


def test_weight_and_bias_of_a_norm_written_by_hand_are_part_of_it() -> None:
    class PostLN(Block):
        def __init__(self) -> None:
            super().__init__(Gated())
            self.norm_1, self.norm_2 = ByHand(), ByHand()

        def forward(self, x: Tensor) -> Tensor:
            x = self.norm_1(x + self.attention(x))
            x = self.norm_2(x + self.feed_forward(x))
            return x

    trace = traced(PostLN(), X)
    assert kinds(trace)[0] == "PostLN: post-LN block"
    assert [line for line in said(trace) if "residual" in line or "norm" in line] == [
        "add: residual",
        "x: residual",
        "add: residual",
        "x: residual",
    ]


def test_a_stream_that_is_written_to_in_part_goes_on() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Block(Gated()), Block(Gated())

        def forward(self, x: Tensor) -> Tensor:
            x = self.one(x)
            x[:, 1:] += 1.0
            return x + self.two.feed_forward(self.two.norm_2(x))

    assert said(traced(Parts(), X))[-1] == "output: residual"


# Blocks


class Renormed(Block):
    """The norm after the sublayer, inside of the residual connection."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm_1(self.attention(x))
        x = x + self.norm_2(self.feed_forward(x))
        return x


def test_a_norm_of_the_branch_alone_is_res_post_norm() -> None:
    trace = traced(Renormed(Gated()), X)
    assert kinds(trace)[0] == "Renormed: res-post-norm block"
    assert [line for line in said(trace) if "norm" in line] == ["norm_1: norm", "norm_2: norm"]


# Dropout of what the stream begins with


class Dropped(nn.Module):
    def __init__(self, *, placed: bool) -> None:
        super().__init__()
        self.tokens, self.places, self.dropout = nn.Embedding(16, 8), nn.Embedding(16, 8), nn.Dropout(0.1)
        self.blocks, self.placed = nn.ModuleList(Block(Gated()) for _ in range(3)), placed

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.placed:
            x = x + self.places(torch.arange(ids.shape[1]))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("placed", [False, True])
def test_what_is_dropped_from_at_the_start_is_the_residual_and_blocks_are_as_equal_in_training(placed: bool) -> None:
    trace = shapetrace.trace(Dropped(placed=placed).train(), IDS)
    blocks = [next(call for call in trace.calls if call.path == f"blocks.{layer}") for layer in range(3)]
    assert [[tensor.role for tensor in block.inputs.values()] for block in blocks] == [["x"]] * 3
    dropped = next(call for call in trace.calls if call.path == "dropout")
    assert next(iter(dropped.outputs.values())).role == "residual"
    assert "×3: blocks.0 … blocks.2 are identical" in str(trace)
