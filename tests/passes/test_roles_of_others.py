"""Checked against the truth of others: what a model returns as its attentions are the very tensors called weights."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
import transformers

import shapetrace
from shapetrace.passes.roles import name_roles
from shapetrace.records import records
from shapetrace.schema import Trace

C = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 24, "vocab_size": 32}
GPT = {"n_embd": 16, "n_head": 4, "n_layer": 2, "vocab_size": 32}
TWO = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "vocab_size": 32,
}  # fmt: skip
IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}


class Case(NamedTuple):
    """model    a class of transformers
    config   the class of its configuration, and what is set in it
    count    of attentions
    kind     of the first one
    length   of the input
    """

    model: str
    config: str
    sizes: dict[str, Any]
    count: int
    kind: str = "causal self-attention"
    length: int = 6
    has_fused: bool = True


CASES = {
    "gpt2: Conv1D, one projection for three": Case("GPT2LMHeadModel", "GPT2Config", GPT, 2),
    "llama: rotation, fewer keys": Case("LlamaForCausalLM", "LlamaConfig", C | {"num_key_value_heads": 2}, 2),
    "gemma2: capped scores, norms before and after": Case(
        "Gemma2ForCausalLM", "Gemma2Config", C | {"num_key_value_heads": 2, "head_dim": 4}, 2, has_fused=False
    ),
    "gpt_oss: sinks": Case(
        "GptOssForCausalLM",
        "GptOssConfig",
        C | {"num_key_value_heads": 2, "head_dim": 4, "num_local_experts": 2, "num_experts_per_tok": 1},
        2,
        has_fused=False,
    ),
    "bloom: ALiBi in baddbmm": Case(
        "BloomForCausalLM", "BloomConfig", {"hidden_size": 16, "n_head": 4, "n_layer": 2, "vocab_size": 32}, 2,
        has_fused=False,
    ),
    "mpt: bias": Case(
        "MptForCausalLM",
        "MptConfig",
        {"d_model": 16, "n_heads": 4, "n_layers": 2, "vocab_size": 32},
        2,
        "causal self-attention",
        has_fused=False,
    ),
    "bert: post-LN": Case("BertForMaskedLM", "BertConfig", C, 2, "self-attention"),
    "deberta-v2: positions with bmm": Case(
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        C | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        2,
        "self-attention",
        has_fused=False,
    ),
    "xlnet: einsum, length first": Case(
        "XLNetLMHeadModel", "XLNetConfig", {"d_model": 16, "n_head": 4, "n_layer": 2, "d_inner": 24, "vocab_size": 32},
        2, "self-attention", has_fused=False,
    ),
    "longformer: chunks": Case(
        "LongformerForMaskedLM",
        "LongformerConfig",
        C | {"attention_window": [4, 4]},
        2,
        "self-attention",
        8,
        has_fused=False,
    ),
    "t5: relative bias, shared between layers": Case(
        "T5ForConditionalGeneration",
        "T5Config",
        {"d_model": 16, "num_heads": 4, "d_kv": 4, "num_layers": 2, "d_ff": 24, "vocab_size": 32}
        | {"decoder_start_token_id": 0},
        6,
        "self-attention",
    ),
    "bart: encoder and decoder": Case("BartForConditionalGeneration", "BartConfig", TWO, 3, "self-attention"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What transformers warns of is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def traced(case: Case, attention: str, **options: object) -> Trace:
    config = getattr(transformers, case.config)(**case.sizes, **IDS, attn_implementation=attention)
    model = getattr(transformers, case.model)(config).eval()
    ids = torch.randint(1, 32, (2, case.length))
    given = {"input_ids": ids, "labels": ids}
    if config.is_encoder_decoder:
        given["labels"] = ids[:, :4].contiguous()
    with torch.no_grad():
        return name_roles(shapetrace.trace(model, **given, **options))


def numbers(trace: Trace, keys: str) -> list[int | None]:
    """The numbers of those results of the model."""
    return [tensor.number for key, tensor in trace.calls[0].outputs.items() if re.fullmatch(keys, key)]


ATTENTIONS = r"(encoder_|decoder_|cross_)?attentions\[\d+\]"
STATES = r"(encoder_|decoder_)?hidden_states\[\d+\]"


@pytest.mark.parametrize("name", CASES)
def test_what_a_model_returns_as_attentions_are_the_tensors_called_weights(name: str) -> None:
    case = CASES[name]
    trace = traced(case, "eager", output_attentions=True, output_hidden_states=True)
    weights = trace.roles("weights")
    assert len(weights) == case.count
    assert {found.tensor.number for found in weights} == set(numbers(trace, ATTENTIONS))
    for role in ("q", "k", "v", "scores", "head_output", "attn_out"):
        assert len(trace.roles(role)) == case.count, role
    assert next(call.role for call in trace.calls if call.role and "attention" in call.role) == case.kind

    roles = {found.tensor.number: found.role for found in records(trace) if found.role and not found.is_input}
    assert [roles.get(number) for key in ("logits", "loss") for number in numbers(trace, key)] == ["logits", "loss"]
    states = [roles.get(number) for number in numbers(trace, STATES)]
    if "xlnet" not in name:  # whose first state is the embedding before it is turned
        assert set(states) <= {"token_embedding", "residual", "norm"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.has_fused])
def test_fused_attention_has_the_same_weights_that_are_never_made(name: str) -> None:
    case = CASES[name]
    eager, fused = (traced(case, attention).roles("weights") for attention in ("eager", "sdpa"))
    assert [found.shape for found in fused] == [found.shape for found in eager]
    assert [found.path for found in fused] == [found.path for found in eager]
    assert [found.materialised for found in fused] == [False] * case.count
