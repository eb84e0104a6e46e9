"""Queries that are learned: of objects in a picture, of latents, of what is pooled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.passes.parts import SOURCE, Einsum, Gated, Heads, X, counts, kinds, said, traced


class Cross(Heads):
    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(source)), self.split(self.v(source))
        return self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))


class Learned(nn.Module):
    """Five rows that are learned, and what is made of them and of a source."""

    def __init__(self, run: Callable[[Learned, Tensor], Tensor]) -> None:
        super().__init__()
        self.rows, self.table = nn.Parameter(torch.randn(5, 8)), nn.Embedding(5, 8)
        self.decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.cross, self.own, self.feed_forward = Cross(), Einsum(), Gated()
        self.pool = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm_1, self.norm_2, self.norm_3 = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.run = run

    def forward(self, source: Tensor) -> Tensor:
        return self.run(self, source)

    def queries(self, source: Tensor) -> Tensor:
        return self.rows.expand(source.shape[0], -1, -1)


def repeated(own: Learned, source: Tensor) -> Tensor:
    return own.decoder(own.rows.unsqueeze(0).repeat(source.shape[0], 1, 1), source)


def zeros_and_places(own: Learned, source: Tensor) -> Tensor:
    rows = own.queries(source)
    return own.decoder(torch.zeros_like(rows) + rows, source)


def looked_up(own: Learned, source: Tensor) -> Tensor:
    return own.decoder(own.table(torch.arange(5)).expand(source.shape[0], -1, -1), source)


@pytest.mark.parametrize(
    "run",
    [lambda own, source: own.decoder(own.queries(source), source), repeated, zeros_and_places, looked_up],
)
def test_a_decoder_of_learned_queries_is_one_as_any(run: Callable[[Learned, Tensor], Tensor]) -> None:
    trace = traced(Learned(run).eval(), SOURCE)
    assert kinds(trace) == [
        "decoder: post-LN block",
        "decoder.self_attn: self-attention",
        "decoder.multihead_attn: cross-attention",
    ]
    found = [line for line in said(trace) if line.startswith("decoder.")]
    assert sum("residual" in line for line in found) == 6
    assert [line.partition(": ")[2] for line in found if "ffn" in line] == ["ffn_hidden", "ffn_out"]
    assert counts(trace)["attn_out"] == 2


def test_latents_attend_to_a_source_then_to_each_other() -> None:
    def latents(own: Learned, source: Tensor) -> Tensor:
        z = own.queries(source)
        z = z + own.cross(own.norm_1(z), source)
        z = z + own.own(own.norm_2(z))
        z = z + own.feed_forward(own.norm_3(z))
        return z

    trace = traced(Learned(latents), SOURCE)
    assert kinds(trace) == [
        "Learned: pre-LN block",
        "cross: cross-attention",
        "own: self-attention",
        "feed_forward: feed-forward",
    ]
    assert [line for line in said(trace) if "." not in line] == [
        "z: residual",
        "norm_1: norm",
        "z: residual",
        "norm_2: norm",
        "z: residual",
        "norm_3: norm",
        "z: residual",
    ]


@pytest.mark.parametrize(
    "run",
    [
        lambda own, source: own.pool(own.queries(source)[:, :1], source, source)[0],
        lambda own, source: own.cross(own.queries(source), source),
        lambda own, source: own.cross(own.rows.unsqueeze(0), source),  # the same for all of the batch
    ],
)
def test_what_is_pooled_by_a_learned_query_is_cross_attention(run: Callable[[Learned, Tensor], Tensor]) -> None:
    trace = traced(Learned(run), SOURCE)
    assert [line.partition(": ")[2] for line in kinds(trace)] == ["cross-attention"]
    assert set(counts(trace).values()) == {1}
    assert counts(trace)["attn_out"] == 1


def test_a_learned_bias_of_scores_has_no_queries() -> None:
    class Relative(Heads):
        """Of the content, and of places that are learned and projected."""

        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Parameter(torch.randn(4, 8))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            place = self.k(self.places).view(4, self.H, self.D).transpose(0, 1)
            scores = q @ k.mT + q @ place.mT
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    trace = traced(Relative(), X)
    assert kinds(trace) == ["Relative: self-attention"]
    assert counts(trace) == dict.fromkeys(["q", "k", "v", "scores", "weights", "head_output", "concat", "attn_out"], 1)
