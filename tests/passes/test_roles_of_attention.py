"""Attention is found however it is written, and what is none is not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.passes.parts import HEADS, SOURCE, Einsum, Heads, Scan, X, counts, kinds, one, said, traced


class Baddbmm(Heads):
    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (heads.reshape(B * self.H, T, self.D) for heads in self.qkv(x))
        bias = torch.triu(torch.full((T, T), -1e9), 1)
        weights = torch.softmax(torch.baddbmm(bias, q, k.mT, beta=1, alpha=0.5), 2)
        return self.out(torch.bmm(weights, v).view(B, self.H, T, self.D).permute(0, 2, 1, 3).reshape(B, T, C))


class SoftmaxByHand(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = (q @ k.transpose(-1, -2)).div_(math.sqrt(self.D))
        scores = scores - scores.amax(-1, keepdim=True)
        raised = scores.exp()
        weights = raised / raised.sum(-1, keepdim=True)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class LogSoftmax(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = q @ k.mT
        weights = scores.log_softmax(-1).exp()
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Turned(Heads):
    """Keys times queries, softmax down the columns, values first."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = k @ q.transpose(-1, -2) / self.D**0.5
        weights = scores.softmax(-2)
        return self.out((v.transpose(-1, -2) @ weights).permute(0, 3, 1, 2).flatten(2))


class Broadcast(Heads):
    """No product at all: element by element, and summed."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1)
        weights = scores.softmax(-1)
        head_output = (weights.unsqueeze(-1) * v.unsqueeze(2)).sum(3)
        return self.out(head_output.transpose(1, 2).reshape(x.shape))


class InPlace(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = torch.zeros(2, self.H, 4, 4)
        scores += q @ k.transpose(2, 3)
        scores *= 0.5
        scores.masked_fill_(torch.ones(4, 4).tril() == 0, -torch.inf)
        weights = F.dropout(torch.softmax(scores, -1), 0.5, True)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(x.shape))


class NoNames(Heads):
    def forward(self, x: Tensor) -> Tensor:
        return self.out(
            F.dropout(
                (self.split(self.q(x)) @ self.split(self.k(x)).mT / 2).softmax(-1, dtype=torch.float64).float(), 0.1
            )
            .matmul(self.split(self.v(x)))
            .transpose(1, 2)
            .flatten(2)
        )


class Fused(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


CAUSAL = (Baddbmm, InPlace, Fused)


@pytest.mark.parametrize(
    "model",
    [Einsum, Baddbmm, SoftmaxByHand, LogSoftmax, Turned, Broadcast, InPlace, NoNames, Fused],
    ids=lambda model: model.__name__,
)
def test_attention_is_found_in_any_style(model: type[nn.Module]) -> None:
    with torch.no_grad():
        trace = traced(model(), X)
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert kinds(trace) == [f"{model.__name__}: {'causal ' if model in CAUSAL else ''}self-attention"]
    assert math.prod(one(trace, "weights").shape) == 2 * 2 * 4 * 4
    assert one(trace, "concat").shape == one(trace, "attn_out").shape == (2, 4, 8)
    for name in ("scores", "weights", "head_output"):
        if name in trace[""]:
            assert trace[""][name].role == name


def test_queries_are_those_that_softmax_gives_each_a_distribution() -> None:
    class Sizes(Turned):
        def forward(self, x: Tensor, source: Tensor) -> Tensor:
            q, k, v = self.split(self.q(x)), self.split(self.k(source)), self.split(self.v(source))
            weights = (k @ q.transpose(-1, -2)).softmax(-2)
            return (v.transpose(-1, -2) @ weights).permute(0, 3, 1, 2).flatten(2)

    trace = traced(Sizes(), X, SOURCE)
    assert (one(trace, "q").shape, one(trace, "k").shape) == ((2, 2, 4, 4), (2, 2, 3, 4))
    assert kinds(trace) == ["Sizes: cross-attention"]


def test_heads_that_attend_one_by_one_are_joined_by_what_puts_them_side_by_side() -> None:
    class Loop(Heads):
        def forward(self, x: Tensor) -> Tensor:
            outputs = []
            for part in (slice(0, 4), slice(4, 8)):
                q, k, v = self.q(x)[..., part], self.k(x)[..., part], self.v(x)[..., part]
                outputs.append((q @ k.mT / 2).softmax(-1) @ v)
            return self.out(torch.cat(outputs, -1))

    trace = traced(Loop(), X)
    assert counts(trace) == dict.fromkeys(HEADS, 2) | {"concat": 1, "attn_out": 1}
    assert one(trace, "concat").call.name == "cat"
    assert kinds(trace) == ["Loop: self-attention"]


def test_of_one_head_there_is_no_concat() -> None:
    class Single(Heads):
        def forward(self, x: Tensor) -> Tensor:
            weights = (self.q(x) @ self.k(x).mT).softmax(-1)
            return self.out(weights @ self.v(x))

    assert counts(traced(Single(), X)) == {name: 1 for name in HEADS if name != "concat"}


@pytest.mark.parametrize("T", [1, 4])
def test_a_single_head_that_was_split_is_joined(T: int) -> None:
    class Single(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (part.unsqueeze(1) for part in (self.q(x), self.k(x), self.v(x)))
            weights = (q @ k.mT).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).flatten(2))

    trace = traced(Single(), X[:, :T])
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert (one(trace, "concat").call.name, one(trace, "concat").shape) == ("flatten", (2, T, 8))


@pytest.mark.parametrize("H", [2, 4])
def test_heads_of_a_single_token_are_not_taken_for_one_head(H: int) -> None:
    class Squeezed(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in (self.q(x), self.k(x), self.v(x)))
            y = (q @ k.mT).softmax(-1) @ v
            return self.out(y.squeeze(2).flatten(1).unsqueeze(1))

    assert one(traced(Squeezed(), X[:, :1]), "concat").shape[-1] == 8


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Grouped(nn.Module):
    """Rotary positions, four query heads, two key/value heads, a cap on the scores, and a sink."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 16), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out = nn.Linear(16, 8)
        self.sink = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        angle = torch.arange(T)[:, None] / torch.tensor([1.0, 9.0, 1.0, 9.0])
        cos, sin = angle.cos(), angle.sin()
        q = rotated(self.q(x).view(B, T, 4, 4).transpose(1, 2), cos, sin)
        k = rotated(self.k(x).view(B, T, 2, 4).transpose(1, 2), cos, sin)
        v = self.v(x).view(B, T, 2, 4).transpose(1, 2)
        all_k = k[:, :, None].expand(B, 2, 2, T, 4).reshape(B, 4, T, 4)
        all_v = v.repeat_interleave(2, dim=1)
        scores = q @ all_k.transpose(2, 3) * 0.5
        scores = torch.tanh(scores / 50) * 50
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -1e9)
        both = torch.cat([scores, self.sink[None, :, None, None].expand(B, 4, T, 1)], -1)
        weights = both.softmax(-1)[..., :-1]
        return self.out((weights @ all_v).transpose(1, 2).reshape(B, T, 16))


def test_k_and_v_are_those_before_they_are_repeated_and_q_and_k_those_after_rotation() -> None:
    trace = traced(Grouped(), X)
    assert {name: one(trace, name).name for name in ("q", "k", "v", "scores", "weights")} == {
        name: name for name in ("q", "k", "v", "scores", "weights")
    }
    assert one(trace, "k").shape == (2, 2, 4, 4)
    assert [found.name for found in trace.roles("rotation")] == ["cos", "sin"]
    assert kinds(trace) == ["Grouped: causal self-attention"]


def test_scores_and_weights_of_a_fused_attention_are_there_as_what_they_would_be() -> None:
    class Cross(Heads):
        def forward(self, x: Tensor, source: Tensor) -> Tensor:
            q, k, v = self.split(self.q(x)), self.split(self.k(source)), self.split(self.v(source))
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    trace = traced(Cross(), X, SOURCE)
    weights = one(trace, "weights")
    assert (weights.shape, weights.materialised, weights.stride) == ((2, 2, 4, 3), False, None)
    assert [one(trace, name).materialised for name in HEADS] == [True] * 3 + [False] * 2 + [True] * 3
    assert kinds(trace) == ["Cross: cross-attention"]


def test_two_attentions_in_one_forward_have_their_role_at_the_fused_calls() -> None:
    class Twice(Heads):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(2):
                q, k, v = self.qkv(x)
                x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            return x

    trace = traced(Twice(), X)
    assert [(call.name, call.role) for call in trace.calls if call.role] == [
        ("scaled_dot_product_attention", "self-attention")
    ] * 2


def test_dropout_in_training_is_part_of_the_weights_and_not_of_the_output() -> None:
    class Dropped(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            weights = (q @ k.mT).softmax(-1)
            dropped = F.dropout(weights, 0.5, self.training)
            out = self.out((dropped @ v).transpose(1, 2).flatten(2))
            return x + F.dropout(out, 0.5, self.training)

    model = Dropped()
    training, at_rest = traced(model.train(), X), traced(model.eval(), X)
    assert [one(trace, "weights").name for trace in (training, at_rest)] == ["dropped", "dropped"]
    assert one(training, "attn_out").name == one(at_rest, "attn_out").name == "out"
    assert one(training, "residual").call.name == "Dropped"  # the sum has no name in there, but it is the result


def test_one_query_without_a_batch_attends_too() -> None:
    class Vector(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            scores = k @ q
            weights = scores.softmax(-1)
            head_output = weights @ v
            return head_output

    trace = traced(Vector(), torch.randn(2), torch.randn(3, 2), torch.randn(3, 2))
    assert said(trace) == ["scores: scores", "weights: weights", "head_output: head_output"]


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).softmax(1)
        return (weights * x).sum(1)


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.router(x).softmax(-1)
        return torch.einsum("bte,btec->btc", weights, torch.stack([expert(x) for expert in self.experts], -2))


class LinearAttention(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.out((q.softmax(-1) @ (k.softmax(-2).mT @ v)).transpose(1, 2).flatten(2))


class Codebook(nn.Module):
    """A soft choice of the rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.table.T).softmax(-1) @ self.table


class Contrast(nn.Module):
    """The loss of CLIP: a product of activations, softmax, and nothing behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.image(x[0]) @ self.text(x[1]).T
        return scores.softmax(-1), F.cross_entropy(scores, torch.arange(4))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0]).softmax(-1)


def image_classifier() -> nn.Module:
    return nn.Sequential(nn.Unflatten(-1, (2, 4)), nn.Conv2d(4, 3, 1), nn.Flatten(), nn.Linear(24, 5), nn.Softmax(-1))


@pytest.mark.parametrize(
    "build",
    [Pooling, Router, LinearAttention, Codebook, Scan, Recurrent, image_classifier],
    ids=lambda build: build.__name__,
)
def test_what_is_no_attention_is_given_no_roles(build: Callable[[], nn.Module]) -> None:
    trace = traced(build(), X)
    assert (said(trace), kinds(trace)) == ([], [])


def test_what_cross_entropy_is_given_are_logits_where_nothing_attends() -> None:
    assert said(traced(Contrast(), X)) == ["scores: logits", "output[1]: loss"]


def test_softmax_over_logits_beside_attention_is_none() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.attention, self.head = nn.Embedding(9, 8), Einsum(), nn.Linear(8, 9)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids)
            logits = self.head(x + self.attention(x))
            return logits.softmax(-1) @ self.table.weight

    trace = traced(Chosen(), torch.randint(9, (2, 4)))
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert [line for line in said(trace) if line.startswith(("x", "logits"))] == ["x: token_embedding"]
