"""Widths that are equal by chance: what would be called otherwise at other sizes has no letter."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import shapetrace

IDS = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])


def made(trace: shapetrace.Trace, path: str) -> tuple[str | int, ...] | None:
    return next(call for call in trace.calls if call.path == path).outputs[""].axes


class Heads(nn.Module):
    """Two heads of a width of their own, and nothing that is added to what they read."""

    def __init__(self, width: int, head: int) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(width), head
        self.qkv, self.out = nn.Linear(width, 6 * head, bias=False), nn.Linear(2 * head, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (2, self.head)).transpose(1, 2) for part in qkv)
        concat = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)
        y: Tensor = self.out(concat)
        return y


def test_heads_are_the_width_of_the_model_only_where_what_they_are_made_of_is_known_to_be_that() -> None:
    for head in (4, 8):
        trace = shapetrace.trace(Heads(8, head), torch.zeros(2, 5, 8))
        assert made(trace, "qkv") == ("B", "T", "3·H·D")
        assert trace.roles("concat")[0].axes == ("B", "T", "H·D")


class Read(nn.Module):
    """Reads a source, and says something."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.source, self.table = nn.Embedding(words, 8), nn.Embedding(words, 8)
        self.out = nn.Linear(16, words)

    def forward(self, source: Tensor, ids: Tensor) -> Tensor:
        s, x = self.source(source), self.table(ids)
        y: Tensor = self.out(torch.cat([x, (x @ s.mT).softmax(-1) @ s], -1))
        return y


def test_what_is_as_wide_as_a_table_is_long_is_not_the_width_of_the_model_by_chance() -> None:
    for words in (8, 11):
        trace = shapetrace.trace(Read(words), IDS.repeat(1, 2)[:, :5], IDS)
        assert made(trace, "out") == ("B", "T", words)


class Steps(nn.Module):
    """Three tokens make a step."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.attention = nn.Embedding(9, 8), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x = torch.stack([x, x + 1, x * 2], 2).flatten(1, 2)
        y: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return y


def test_heads_of_several_tokens_a_step_are_not_groups() -> None:
    trace = shapetrace.trace(Steps(), IDS)
    assert trace.roles("weights")[0].axes == ("B", "H", "3·T", "3·T")
    assert trace.roles("q")[0].axes == ("B", "H", "3·T", "D")
