"""Attention of late years, which weighs, joins or projects in other ways."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import shapetrace
from tests.passes.parts import HEADS, Gated, Heads, X, counts, kinds, one, said, traced


class Joined(Heads):
    def joined(self, y: Tensor) -> Tensor:
        return self.out(y.transpose(1, 2).flatten(2))


def test_the_difference_of_two_weights_is_what_multiplies_the_values() -> None:
    class Differential(Joined):
        """Ye et al., 2024: twice as many heads of queries and keys."""

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            q, k = (each.unflatten(-1, (2, -1)).transpose(2, 3).flatten(1, 2) for each in (q, k))
            both = (q @ k.mT).softmax(-1).unflatten(1, (2, 2))
            weights = both[:, :, 0] - 0.8 * both[:, :, 1]
            return self.joined(weights @ v)

    trace = traced(Differential(), X)
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert one(trace, "weights").name == "weights"
    assert one(trace, "scores").shape == (2, 4, 4, 4)


def test_what_each_head_projects_by_itself_is_not_what_all_are_projected_to() -> None:
    class Absorbed(nn.Module):
        """Latent attention (DeepSeek-V2) whose keys and values stay as they are stored: [B, T, 6]."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.latent, self.out = nn.Linear(8, 8), nn.Linear(8, 6), nn.Linear(8, 8)
            self.to_keys, self.to_values = nn.Parameter(torch.randn(2, 4, 6)), nn.Parameter(torch.randn(2, 6, 4))

        def forward(self, x: Tensor) -> Tensor:
            q = torch.einsum("bthd,hdc->bthc", self.q(x).unflatten(-1, (2, 4)), self.to_keys)
            latent = self.latent(x)
            weights = torch.einsum("bthc,bsc->bths", q, latent).softmax(-1)
            mixed = torch.einsum("bths,bsc->bthc", weights, latent)
            y = torch.einsum("bthc,hcd->bthd", mixed, self.to_values)
            return self.out(y.flatten(2))

    found = said(traced(Absorbed(), X))
    assert found[-4:] == ["weights: weights", "mixed: head_output", "flatten: concat", "out: attn_out"]


def test_softmax_may_have_one_more_below_than_above() -> None:
    class Quiet(Joined):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            exps = (q @ k.mT).exp()
            weights = exps / (1 + exps.sum(-1, keepdim=True))
            return self.joined(weights @ v)

    assert counts(traced(Quiet(), X)) == dict.fromkeys(HEADS, 1)


def test_of_several_attentions_that_are_added_up_the_sum_is_joined_and_projected() -> None:
    class Native(Joined):
        """Yuan et al., 2025: keys that are means of two, and all of them."""

        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            coarse = self.attend(q, k.unflatten(2, (2, 2)).mean(3), v.unflatten(2, (2, 2)).mean(3))
            fine = self.attend(q, k, v)
            gates = self.gate(x).sigmoid().unsqueeze(1)
            y = coarse * gates[..., :1] + fine * gates[..., 1:]
            return self.joined(y)

        def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return (q @ k.mT).softmax(-1) @ v

    trace = traced(Native(), X)
    assert counts(trace) == {"q": 1, "k": 2, "v": 2, "scores": 2, "weights": 2, "head_output": 2} | dict.fromkeys(
        ("concat", "attn_out"), 1
    )
    assert one(trace, "attn_out").name == "out"


def test_what_is_added_to_an_attention_is_no_part_of_it_if_it_is_none() -> None:
    class Added(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            y = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)
            return self.out(y + x)

    assert "attn_out" not in counts(traced(Added(), X))


def test_heads_may_stand_behind_the_length() -> None:
    class Behind(nn.Module):
        """Four heads of queries, two of keys and values."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(16, width) for width in (16, 8, 8, 16))

        def forward(self, x: Tensor, source: Tensor) -> Tensor:
            q = self.q(x).unflatten(-1, (4, 4))
            k, v = (layer(source).unflatten(-1, (2, 4)).repeat_interleave(2, 2) for layer in (self.k, self.v))
            weights = torch.einsum("bthd,bshd->bths", q, k).softmax(-1)
            return self.out(torch.einsum("bths,bshd->bthd", weights, v).flatten(2))

    x, source = torch.randn(4, 4, 16), torch.randn(4, 4, 16)
    trace = shapetrace.trace(Behind(), x, source)
    assert one(trace, "q").axes == ("B", "T", "H", "D")
    assert one(trace, "weights").axes == ("B", "T", "H", "S")
    assert one(trace, "head_output").axes == ("B", "T", "H", "D")
    assert trace.roles("k")[0].axes == ("B", "S", "G", "D")
    assert kinds(trace) == ["Behind: cross-attention"]


def test_a_few_learned_keys_tell_the_length_of_the_others() -> None:
    class Registers(Joined):
        def __init__(self) -> None:
            super().__init__()
            self.learned = nn.Parameter(torch.randn(1, 2, 3, 4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            k, v = (torch.cat([self.learned.expand(len(x), -1, -1, -1), each], 2) for each in (k, v))
            return self.joined((q @ k.mT).softmax(-1) @ v)

    trace = shapetrace.trace(Registers(), X)
    assert one(trace, "weights").axes == ("B", "H", "T", "T+3")
    assert one(trace, "attn_out").axes == ("B", "T", "C")


class NormEach(Heads):
    """Queries, keys and values have a norm each, and the feed-forward, too."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.feed_forward = nn.ModuleList(nn.LayerNorm(8) for _ in range(4)), Gated()

    def forward(self, x: Tensor) -> Tensor:
        layers = zip((self.q, self.k, self.v), self.norms, strict=False)
        q, k, v = (self.split(layer(norm(x))) for layer, norm in layers)
        x = x + self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.feed_forward(self.norms[3](x))


def test_a_norm_for_queries_and_one_for_keys_is_pre_ln() -> None:
    assert kinds(traced(NormEach(), X)) == ["NormEach: pre-LN block", "feed_forward: feed-forward"]


def test_a_model_of_several_blocks_is_none_itself() -> None:
    class Inline(nn.Module):
        """Two attentions, one after another, in one forward."""

        def __init__(self) -> None:
            super().__init__()
            self.one, self.other, self.norm = Heads(), Heads(), nn.LayerNorm(8)

        def forward(self, x: Tensor) -> Tensor:
            for heads in (self.one, self.other):
                q, k, v = heads.qkv(self.norm(x))
                x = x + heads.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
            return x

    assert kinds(traced(Inline(), X)) == []


def test_what_a_feed_forward_reads_may_be_a_multiple_of_a_norm() -> None:
    class Block(nn.Module):
        """A factor before the feed-forward, as depth-dependent scaling has."""

        def __init__(self, *, is_scaled: bool) -> None:
            super().__init__()
            self.norm_1, self.attention, self.norm_2 = nn.LayerNorm(8), nn.MultiheadAttention(8, 2), nn.LayerNorm(8)
            self.ffn = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
            self.is_scaled = is_scaled

        def forward(self, x: Tensor) -> Tensor:
            normed = self.norm_1(x)
            x = x + self.attention(normed, normed, normed, need_weights=False)[0]
            h = self.norm_2(x)
            if self.is_scaled:
                h = h * 2.0
            out: Tensor = self.ffn(h)
            return x + out

    for is_scaled in (False, True):
        found = kinds(traced(nn.Sequential(Block(is_scaled=is_scaled)), X))
        assert found == ["0: pre-LN block", "0.attention: self-attention", "0.ffn: feed-forward"]
