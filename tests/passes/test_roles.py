"""Who is who, told from the data flow: in the reference models and in those of torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.models.gpt import gpt
from shapetrace.passes.roles import name_roles
from shapetrace.targets import Request, record
from tests.passes.parts import HEADS, SOURCE, Einsum, Gated, Heads, X, counts, kinds, one, reference, said, traced


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
    assert len(trace.roles("norm")) == 4
    assert {record.role for record in trace.roles("norm")} == {"residual"}


def test_in_post_ln_what_ends_a_sublayer_is_found_as_a_norm_too() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    trace = shapetrace.trace(encoder, torch.zeros(2, 4, 8), axes="B=2")
    norms, stream = trace.roles("norm"), trace.roles("residual")
    assert [(record.path, record.name, record.role) for record in norms] == [
        (f"layers.{block}", "x", "residual") for block in (0, 0, 1, 1)
    ]
    assert all(norm in stream for norm in norms)
    assert trace.portable().roles("norm") == []  # without numbers nothing is known of what flows where


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
    assert [record.role for record in trace.roles("norm")] == ["norm" if norm_first else "residual"] * 2


def test_two_layers_in_one_module_are_no_block_unless_there_are_others_like_it() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.ModuleList(Einsum() for _ in range(2))
            self.feed = nn.ModuleList(Gated() for _ in range(2))
            self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            for layer in (0, 1):
                x = x + self.attend[layer](self.norms[layer](x))
                x = x + self.feed[layer](self.norms[2 + layer](x))
            return x

    assert "Both: pre-LN block" not in kinds(traced(Both(), X))
    two = kinds(traced(nn.Sequential(Both(), Both()), X))
    assert [kind for kind in two if "block" in kind] == ["0: pre-LN block", "1: pre-LN block"]


def test_ops_alone_are_enough() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    assert kinds(traced(model, X, functions=False, ops=True))[:2] == [
        "TransformerEncoderLayer: post-LN block",
        "self_attn: self-attention",
    ]
