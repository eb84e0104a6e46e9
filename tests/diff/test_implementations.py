"""Different implementations of one model: what corresponds where paths and names differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import nn

import shapetrace
from shapetrace.diff import compare, pairs
from shapetrace.models.attention import MultiHeadAttention
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer
from shapetrace.models.variants import llama
from shapetrace.schema import Trace

IDS = {"bos_token_id": 0, "eos_token_id": 0, "attn_implementation": "eager"}


def ours(build: Callable[..., Any]) -> Trace:
    model, args, kwargs = build()
    return shapetrace.trace(model, *args, **kwargs)


def hugging_gpt2() -> Trace:
    config = transformers.GPT2Config(n_embd=8, n_head=2, n_layer=2, vocab_size=16, n_positions=16, **IDS)
    ids = torch.zeros(2, 4, dtype=torch.int64)
    return shapetrace.trace(transformers.GPT2LMHeadModel(config).eval(), input_ids=ids, labels=ids)


def hugging_llama() -> Trace:
    config = transformers.LlamaConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=64,
        vocab_size=16, **IDS,
    )  # fmt: skip
    ids = torch.zeros(2, 4, dtype=torch.int64)
    return shapetrace.trace(transformers.LlamaForCausalLM(config).eval(), input_ids=ids, labels=ids)


def hugging_bert() -> Trace:
    config = transformers.BertConfig(
        hidden_size=8, num_attention_heads=2, num_hidden_layers=2, intermediate_size=32, vocab_size=16,
        max_position_embeddings=16, attn_implementation="eager",
    )  # fmt: skip
    ids = torch.zeros(2, 4, dtype=torch.int64)
    return shapetrace.trace(transformers.BertForMaskedLM(config).eval(), input_ids=ids)


def hugging_bart() -> Trace:
    sizes = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 32)
    counts = dict.fromkeys(
        (f"{side}_{what}" for side in ("encoder", "decoder") for what in ("layers", "attention_heads")), 2
    )
    config = transformers.BartConfig(
        d_model=8,
        **sizes,
        **counts,
        vocab_size=16,
        max_position_embeddings=16,
        pad_token_id=0,
        forced_eos_token_id=None,
        **IDS,
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    source, target = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 4, dtype=torch.int64)
    return shapetrace.trace(model, input_ids=source, decoder_input_ids=target)


def torch_transformer() -> Trace:
    model = nn.Transformer(8, 2, 2, 2, 32, batch_first=True).eval()
    return shapetrace.trace(model, torch.zeros(2, 3, 8), torch.zeros(2, 4, 8))


def torch_attention() -> Trace:
    x = torch.zeros(2, 4, 8)
    return shapetrace.trace(nn.MultiheadAttention(8, 2, batch_first=True).eval(), x, x, x)


class Case(NamedTuple):
    """`modules` and `tensors` (the role, and the path that it has) that correspond: before -> after."""

    before: Callable[[], Trace]
    after: Callable[[], Trace]
    modules: dict[str, str]
    roles: str


CASES = {
    "GPT-2": Case(
        hugging_gpt2,
        lambda: ours(gpt),
        {
            "transformer.wte": "token_embedding",
            "transformer.wpe": "position_embedding",
            "transformer.h.1.ln_1": "blocks.1.norm_1",
            "transformer.h.1.attn.c_attn": "blocks.1.attention.w_qkv",
            "transformer.h.1.attn.c_proj": "blocks.1.attention.w_o",
            "transformer.h.1.mlp.c_fc": "blocks.1.feed_forward.w_up",
            "transformer.h.1.mlp.act": "blocks.1.feed_forward.activation",
            "transformer.h.1.mlp.c_proj": "blocks.1.feed_forward.w_down",
            "transformer.ln_f": "norm_f",
            "lm_head": "head",
        },
        "q k v scores weights head_output concat attn_out residual norm ffn_hidden ffn_out logits loss",
    ),
    "Llama": Case(
        hugging_llama,
        lambda: ours(llama),
        {
            "model.embed_tokens": "token_embedding",
            "model.layers.1.input_layernorm": "blocks.1.norm_1",
            "model.layers.1.self_attn.q_proj": "blocks.1.attention.w_q",
            "model.layers.1.self_attn.k_proj": "blocks.1.attention.w_k",
            "model.layers.1.self_attn.v_proj": "blocks.1.attention.w_v",
            "model.layers.1.self_attn.o_proj": "blocks.1.attention.w_o",
            "model.layers.1.mlp.gate_proj": "blocks.1.feed_forward.w_gate",
            "model.layers.1.mlp.up_proj": "blocks.1.feed_forward.w_up",
            "model.layers.1.mlp.down_proj": "blocks.1.feed_forward.w_down",
            "model.norm": "norm_f",
            "lm_head": "head",
        },
        "q k scores weights head_output concat attn_out residual norm ffn_hidden ffn_out logits loss",
    ),
    "BERT": Case(
        hugging_bert,
        lambda: ours(encoder),
        {
            "bert.embeddings.word_embeddings": "token_embedding",
            "bert.encoder.layer.1": "blocks.1",
            "bert.encoder.layer.1.attention.self": "blocks.1.attention",
            "bert.encoder.layer.1.attention.self.key": "blocks.1.attention.w_k",
            "bert.encoder.layer.1.attention.output.LayerNorm": "blocks.1.norm_1",
            "bert.encoder.layer.1.intermediate.dense": "blocks.1.feed_forward.w_up",
            "bert.encoder.layer.1.intermediate.intermediate_act_fn": "blocks.1.feed_forward.activation",
            "bert.encoder.layer.1.output.dense": "blocks.1.feed_forward.w_down",
            "bert.encoder.layer.1.output.LayerNorm": "blocks.1.norm_2",
        },
        "q k v scores weights head_output concat ffn_hidden ffn_out",
    ),
    "BART": Case(
        hugging_bart,
        lambda: ours(transformer),
        {
            "model.encoder": "encoder",
            "model.encoder.layers.1.self_attn": "encoder.blocks.1.attention",
            "model.encoder.layers.1.fc1": "encoder.blocks.1.feed_forward.w_up",
            "model.decoder": "decoder",
            "model.decoder.layers.1.self_attn": "decoder.blocks.1.self_attention",
            "model.decoder.layers.1.encoder_attn": "decoder.blocks.1.cross_attention",
            "model.decoder.layers.1.encoder_attn_layer_norm": "decoder.blocks.1.norm_2",
            "model.decoder.layers.1.fc2": "decoder.blocks.1.feed_forward.w_down",
        },
        "q k v scores weights head_output concat attn_out ffn_hidden ffn_out",
    ),
    "nn.Transformer": Case(
        torch_transformer,
        lambda: ours(transformer),
        {
            "encoder.layers.0.norm1": "encoder.blocks.0.norm_1",
            "encoder.layers.1.linear1": "encoder.blocks.1.feed_forward.w_up",
            "encoder.layers.1.linear2": "encoder.blocks.1.feed_forward.w_down",
            "decoder.layers.1.norm1": "decoder.blocks.1.norm_1",
            "decoder.layers.1.norm3": "decoder.blocks.1.norm_3",
            "decoder.layers.1.multihead_attn": "decoder.blocks.1.cross_attention",
            "decoder.layers.1.self_attn": "decoder.blocks.1.self_attention",
        },
        "q k v scores weights head_output concat attn_out ffn_hidden ffn_out",
    ),
    "nn.MultiheadAttention": Case(
        torch_attention,
        lambda: shapetrace.trace(MultiHeadAttention(8, 2), torch.zeros(2, 4, 8)),
        {},
        "k v scores head_output concat attn_out",
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Case, Trace, Trace]:
    found = CASES[request.param]
    return found, found.before(), found.after()


def test_modules_of_other_names_correspond(case: tuple[Case, Trace, Trace]) -> None:
    expected, before, after = case
    found: dict[str, set[str]] = {}
    for one, other in pairs(before, after):
        if one is not None and other is not None and {one.call.kind, other.call.kind} == {"module"}:
            found.setdefault(one.call.path, set()).add(other.call.path)
    assert {path: found.get(path) for path in expected.modules} == {
        path: {other} for path, other in expected.modules.items()
    }


def test_what_has_a_role_corresponds_to_what_has_it_on_the_other_side(case: tuple[Case, Trace, Trace]) -> None:
    expected, before, after = case
    for role in expected.roles.split():
        left, right = before.roles(role), after.roles(role)
        both = {
            (id(one.call), id(other.call))
            for one, other in pairs(before, after)
            if one is not None and other is not None
        }
        alone = [one for one in right if not any(id(one.call) == b for _, b in both)]
        assert left, role
        assert not alone, role


def test_a_layer_corresponds_to_a_function_that_does_what_it_does_and_to_no_step_without_weights() -> None:
    ours = shapetrace.trace(MultiHeadAttention(8, 2, qkv="fused"), torch.zeros(2, 4, 8))
    found = {(one.name, other.name) for one, other in pairs(torch_attention(), ours) if one and other}
    assert ("proj", "w_qkv") in found or ("proj", "qkv") in found
    separate = shapetrace.trace(MultiHeadAttention(8, 2, qkv="separate"), torch.zeros(2, 4, 8))
    layers = {"w_q", "w_k", "w_v"}
    assert not [one for one, other in pairs(torch_attention(), separate) if one and other and other.name in layers]


def test_there_is_little_that_stands_on_one_side_only(case: tuple[Case, Trace, Trace]) -> None:
    _, before, after = case
    diff = compare(before, after)
    assert diff
    assert not compare(before, before)
    assert sum(change.kind == "added" for change in diff.changes) < 40
