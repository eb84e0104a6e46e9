"""Who is who, told from the data flow: in models of ours, of torch, and in ones written strangely on purpose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.models.gpt import gpt
from shapetrace.passes.roles import name_roles
from shapetrace.records import Record, records
from shapetrace.schema import Trace
from shapetrace.targets import Request, record

HEADS = ["q", "k", "v", "scores", "weights", "head_output", "concat", "attn_out"]


def traced(model: nn.Module, *inputs: Tensor, **keywords: object) -> Trace:
    return name_roles(shapetrace.trace(model, *inputs, **keywords))  # type: ignore[arg-type]


def reference(name: str) -> Trace:
    return name_roles(record(Request(name)))


def said(trace: Trace) -> list[str]:
    """Each tensor that has a role, "path.name: role", with a > where it is given."""
    return [
        f"{'> ' if found.is_input else ''}{'.'.join(filter(None, (found.path, found.name or found.call.name)))}: "
        f"{found.role}"
        for found in records(trace)
        if found.role
    ]


def kinds(trace: Trace) -> list[str]:
    return [f"{call.path or call.name}: {call.role}" for call in trace.calls if call.role]


def counts(trace: Trace) -> dict[str, int]:
    return dict(Counter(found.role for found in records(trace) if found.role in HEADS))  # type: ignore[misc]


def one(trace: Trace, role: str) -> Record:
    (found,) = trace.roles(role)
    return found


X = torch.randn(2, 4, 8)
SOURCE = torch.randn(2, 3, 8)


# The reference models


def test_a_gpt_is_named_from_its_tokens_to_its_loss() -> None:
    trace = reference("gpt")
    first = [line for line in said(trace) if "blocks.1" not in line]
    assert first == [
        "tokens: token_embedding",
        "positions: position_embedding",
        "x: residual",
        "> blocks.0.x: x",
        "blocks.0.normed: norm",
        "> blocks.0.attention.x: x",
        "blocks.0.attention.q: q",
        "blocks.0.attention.k: k",
        "blocks.0.attention.v: v",
        "blocks.0.attention.scores: scores",
        "blocks.0.attention.weights: weights",
        "blocks.0.attention.head_output: head_output",
        "blocks.0.attention.concat: concat",
        "blocks.0.attention.out: attn_out",
        "blocks.0.x: residual",
        "blocks.0.normed: norm",
        "> blocks.0.feed_forward.x: x",
        "blocks.0.feed_forward.hidden: ffn_hidden",
        "blocks.0.feed_forward.out: ffn_out",
        "blocks.0.x: residual",
        "x: norm",
        "logits: logits",
        "loss: loss",
    ]
    assert kinds(trace) == [
        f"blocks.{index}{kind}"
        for index in (0, 1)
        for kind in (": pre-LN block", ".attention: causal self-attention", ".feed_forward: feed-forward")
    ]


def test_a_reader_finds_the_role_under_the_name_that_the_code_has() -> None:
    trace = reference("gpt")
    for path in ("blocks.0.attention", "blocks.1.attention"):
        assert [trace[path][name].role for name in HEADS[:-1]] == HEADS[:-1]
    assert [found.path for found in trace.roles("weights")] == ["blocks.0.attention", "blocks.1.attention"]
    assert [found.shape for found in trace.roles("q")] == [(2, 2, 4, 4)] * 2


def test_the_three_attentions_of_an_encoder_decoder_are_told_apart() -> None:
    trace = reference("transformer")
    assert [line for line in kinds(trace) if "blocks.0" in line] == [
        "encoder.blocks.0: post-LN block",
        "encoder.blocks.0.attention: self-attention",
        "encoder.blocks.0.feed_forward: feed-forward",
        "decoder.blocks.0: post-LN block",
        "decoder.blocks.0.self_attention: causal self-attention",
        "decoder.blocks.0.cross_attention: cross-attention",
        "decoder.blocks.0.feed_forward: feed-forward",
    ]
    assert counts(trace) == dict.fromkeys(HEADS, 6)
    scores = {found.path: found.shape for found in trace.roles("scores")}
    assert scores["decoder.blocks.0.cross_attention"] == (2, 2, 4, 3)
    assert [found.shape for found in trace.roles("token_embedding")] == [(2, 3, 8), (2, 4, 8)]


def test_after_post_ln_the_norm_is_the_residual_stream_in_every_block() -> None:
    trace = reference("encoder")
    assert [line for line in said(trace) if line.startswith("blocks.1.x")] == ["blocks.1.x: residual"] * 4
    assert trace.roles("norm") == []


# What the pass leaves alone


def test_the_trace_is_not_edited_and_a_second_pass_changes_nothing() -> None:
    plain = record(Request("transformer"))
    before = repr(plain.calls)
    named = name_roles(plain)
    assert repr(plain.calls) == before
    assert name_roles(named) == named


def test_roles_stay_in_a_portable_trace_and_none_are_made_up_in_one() -> None:
    model, _, batch = gpt()
    plain = shapetrace.trace(model, **batch, axes=False)
    assert said(name_roles(plain).portable()) == said(name_roles(plain))
    assert said(name_roles(plain.portable())) == []


def test_names_of_variables_do_not_matter() -> None:
    class Misnamed(Heads):
        def forward(self, x: Tensor) -> Tensor:
            v, q, k = (self.split(layer(x)) for layer in (self.v, self.q, self.k))
            loss = k @ v.transpose(-2, -1)  # what the layer named v made is the key here
            logits = loss.softmax(-1)
            weights = logits @ q
            return self.out(weights.transpose(1, 2).flatten(2))

    trace = traced(Misnamed(), X)
    assert [trace[""][name].role for name in ("loss", "logits", "weights")] == ["scores", "weights", "head_output"]
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert trace.roles("loss") == trace.roles("logits") == []


# Attention, however it is written


class Heads(nn.Module):
    def __init__(self, C: int = 8, H: int = 2) -> None:
        super().__init__()
        self.H, self.D = H, C // H
        self.q, self.k, self.v, self.out = (nn.Linear(C, C) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.H, self.D).transpose(1, 2)

    def qkv(self, x: Tensor) -> Iterator[Tensor]:
        return (self.split(layer(x)) for layer in (self.q, self.k, self.v))


class Einsum(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (self.H, self.D)) for layer in (self.q, self.k, self.v))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.D**-0.5
        weights = F.softmax(scores, -1)
        return self.out(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2))


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
    [Einsum, Baddbmm, SoftmaxByHand, Turned, Broadcast, InPlace, NoNames, Fused],
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
        def forward(self, x: Tensor, source: Tensor) -> Tensor:  # type: ignore[override]
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


# Canonical choices


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


# torch's own


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_attention_of_torch_opens_up(batch_first: bool, training: bool, need_weights: bool) -> None:
    model = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=batch_first).train(training)
    x = torch.randn(2, 4, 8) if batch_first else torch.randn(4, 2, 8)
    trace = traced(model, x, x, x, need_weights=need_weights)
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert kinds(trace) == ["MultiheadAttention: self-attention"]
    assert (one(trace, "weights").shape, one(trace, "weights").materialised) == ((2, 2, 4, 4), need_weights)
    assert said(trace)[0] == "> query: x"


def test_the_transformer_of_torch_has_three_attentions_and_two_blocks() -> None:
    trace = traced(nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(), SOURCE, X)
    assert kinds(trace) == [
        "encoder.layers.0: post-LN block",
        "encoder.layers.0.self_attn: self-attention",
        "decoder.layers.0: post-LN block",
        "decoder.layers.0.self_attn: self-attention",
        "decoder.layers.0.multihead_attn: cross-attention",
    ]
    assert counts(trace) == dict.fromkeys(HEADS, 3)
    assert [found.shape for found in trace.roles("weights")] == [(2, 2, 3, 3), (2, 2, 4, 4), (2, 2, 4, 3)]


@pytest.mark.parametrize(("norm_first", "kind"), [(True, "pre-LN block"), (False, "post-LN block")])
def test_where_the_norm_stands_is_told_from_the_flow(norm_first: bool, kind: str) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).train()
    trace = traced(model, X)
    assert kinds(trace)[0] == f"TransformerEncoderLayer: {kind}"
    assert [one(trace, role).shape for role in ("ffn_hidden", "ffn_out")] == [(2, 4, 16), (2, 4, 8)]
    assert len(trace.roles("norm")) == (2 if norm_first else 0)


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


class Block(nn.Module):
    def __init__(self, feed_forward: nn.Module) -> None:
        super().__init__()
        self.attention, self.feed_forward = Einsum(), feed_forward
        self.norm_1, self.norm_2 = nn.LayerNorm(8), nn.RMSNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        x = x + self.feed_forward(self.norm_2(x))
        return x


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.silu(self.gate(x)) * self.up(x)
        return self.down(hidden)


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


def test_ops_alone_are_enough() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    assert kinds(traced(model, X, functions=False, ops=True))[:2] == [
        "TransformerEncoderLayer: post-LN block",
        "self_attn: self-attention",
    ]


# What is no attention


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


class Scan(nn.Module):
    """A state-space layer with its gate and its residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(16, 8)
        self.conv = nn.Conv1d(16, 16, 3, groups=16, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.into(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., : x.shape[1]].mT)
        decay = torch.exp(-F.softplus(u))
        state, states = torch.zeros_like(u[:, 0]), []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + u[:, t]
            states.append(state)
        return x + self.out(torch.stack(states, 1) * F.silu(gate))


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
    [Pooling, Router, LinearAttention, Codebook, Contrast, Scan, Recurrent, image_classifier],
    ids=lambda build: build.__name__,
)
def test_a_model_without_attention_is_given_no_roles(build: Callable[[], nn.Module]) -> None:
    trace = shapetrace.trace(build(), X)
    assert name_roles(trace) == trace


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


def test_a_mask_that_the_model_was_given_does_not_tell_whether_it_is_causal() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    assert kinds(traced(model, X, X, X, attn_mask=mask)) == ["MultiheadAttention: self-attention"]


def test_one_query_without_a_batch_attends_too() -> None:
    class Vector(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            scores = k @ q
            weights = scores.softmax(-1)
            head_output = weights @ v
            return head_output

    trace = traced(Vector(), torch.randn(2), torch.randn(3, 2), torch.randn(3, 2))
    assert said(trace) == ["scores: scores", "weights: weights", "head_output: head_output"]
