"""Ports of one's own against the models of transformers, and bugs in them: each is named at its tensor or the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from shapetrace import ValuesDiff, compare_values
from shapetrace.renderers.words import span

Port = Callable[..., ModuleType]

LAYERS = 2
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]])
SEGMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1]]).repeat(2, 1)
EAGER: dict[str, Any] = {"attn_implementation": "eager", "bos_token_id": 0, "eos_token_id": 0, "use_cache": False}


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=LAYERS, intermediate_size=40,
        vocab_size=32, max_position_embeddings=64, rms_norm_eps=1e-6, **EAGER,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(n_embd=16, n_head=4, n_layer=LAYERS, vocab_size=32, n_positions=24, **EAGER)
    return transformers.GPT2LMHeadModel(config)


def bert() -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=16, num_attention_heads=4, num_hidden_layers=LAYERS, intermediate_size=40, vocab_size=32,
        max_position_embeddings=24, attn_implementation="eager",
    )  # fmt: skip
    return transformers.BertModel(config, add_pooling_layer=False)


MODELS: dict[str, Callable[[], nn.Module]] = {"llama": llama, "gpt2": gpt2, "bert": bert}

INPUTS: dict[str, dict[str, torch.Tensor]] = {
    "bert": {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": SEGMENTS}
}


@pytest.fixture
def port(tmp_path: Path) -> Port:
    """Gives a port in which each (old, new) has replaced a text."""

    def ported(name: str, *edits: tuple[str, str]) -> ModuleType:
        text = (Path(__file__).parent / "ports" / f"{name}.py").read_text(encoding="utf-8")
        for old, new in edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        module = ModuleType(name)
        exec(compile(text, str(path), "exec"), module.__dict__)
        return module

    return ported


def original(name: str) -> nn.Module:
    """A model whose attention is not flat, and whose norms do something."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter * 8 if parameter.dim() > 1 else parameter + torch.randn_like(parameter) * 0.3)
    return model


def parted(name: str, before: nn.Module, after: nn.Module) -> ValuesDiff:
    if name in INPUTS:
        return compare_values(before, after, **INPUTS[name], weights="copy")
    return compare_values(before, after, IDS, weights="copy")


@pytest.mark.parametrize(("name", "count"), [("llama", (17, 21)), ("gpt2", (36, 28)), ("bert", (37, 37))])
def test_a_port_with_the_weights_of_the_original_is_the_same_and_the_other_way_round(
    port: Port, name: str, count: tuple[int, int]
) -> None:
    theirs, own, fresh = original(name), port(name).Model(LAYERS).eval(), MODELS[name]().eval()
    for before, after, number in ((theirs, own, count[0]), (theirs, fresh, 0), (own, theirs, count[1])):
        found = parted(name, before, after)
        assert not found
        assert number == 0 or found.weights == f"{number} copied, all by what is made with them"


@pytest.mark.parametrize("name", MODELS)
def test_what_corresponds_in_a_port_without_a_bug_is_the_same_everywhere(port: Port, name: str) -> None:
    found = parted(name, original(name), port(name).Model(LAYERS).eval())
    assert [each for each in found.within if each.apart is None or each.apart.absolute.difference > 1e-4] == []


BUGS: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "norm epsilon": ("llama", [("var + 1e-6", "var + 1e-2")], "add n1 norm"),
    "a sum for a mean": ("llama", [("(x * x).mean(", "(x * x).sum(")], "add n1 norm"),
    "interleaved halves": ("llama", [("x[..., : D // 2], x[..., D // 2 :]", "x[..., ::2], x[..., 1::2]")], "x1 q"),
    "rotated the other way": (
        "llama",
        [("x1 * cos - x2 * sin, x2 * cos + x1 * sin", "x1 * cos + x2 * sin, x2 * cos - x1 * sin")],
        "q",
    ),
    "keys not rotated": (
        "llama",
        [("self.turn(q, cos, sin), self.turn(k, cos, sin)", "self.turn(q, cos, sin), k")],
        "k",
    ),
    "keys repeated in the wrong order": (
        "llama",
        [("k = k.repeat_interleave(H // G, dim=1)", "k = k.repeat(1, H // G, 1, 1)")],
        "k matmul mul scores",
    ),
    "no scale": ("llama", [(" * D**-0.5", "")], "scores"),
    "mask off by one": ("llama", [("triu(diagonal=1)", "triu(diagonal=2)")], "mask"),
    "softmax over the queries": ("llama", [("+ mask, dim=-1)", "+ mask, dim=-2)")], "weights head_output"),
    "heads joined without a transpose": ("llama", [("(att @ v).transpose(1, 2)", "(att @ v)")], "concat"),
    "another activation": ("llama", [("functional.silu(g)", "functional.gelu(g)")], "gelu ffn_hidden"),
    "no residual of attention": ("llama", [("x = x + self.att(", "x = self.att(")], "x residual attn_out n2"),
    "no last norm": ("llama", [("        x = self.final(x)\n", "")], "logits"),
    "mask turned": ("gpt2", [("[:, None] >= torch", "[:, None] <= torch")], "scores"),
    "masked with zero": ("gpt2", [("torch.finfo(logits.dtype).min", "0.0")], "scores"),
    "exact for tanh": ("gpt2", [(', approximate="tanh"', "")], "ffn_hidden"),
    "positions from one": ("gpt2", [("[: ids.shape[1]]", "[1 : ids.shape[1] + 1]")], "position_embedding residual"),
    "heads split without a transpose": (
        "gpt2",
        [("query = self.query(x).view(n, t, H, C // H)", "query = self.query(x).view(n, H, t, -1).transpose(1, 2)")],
        "q scores",
    ),
    "norm after attention": (
        "gpt2",
        [("stream + self.attend(self.norm_a(stream))", "self.norm_a(stream + self.attend(stream))")],
        "query key value q k v residual",
    ),
    "padding taken for what is not": ("bert", [("attention_mask.eq(0)", "attention_mask.eq(1)")], "scores"),
    "padding ignored": ("bert", [("        scores = scores.masked_fill(padding, -1e9)\n", "")], "scores"),
    "scale of the model": ("bert", [("math.sqrt(C // H)", "math.sqrt(C)")], "scores"),
    "tanh for exact": ("bert", [("fn.gelu(self.fc1(x))", 'fn.gelu(self.fc1(x), approximate="tanh")')], "ffn_hidden"),
    "no segments": ("bert", [(" + self.seg_embed(token_type_ids)", "")], "embedding residual norm add"),
    "no norm of the embeddings": ("bert", [("self.norm(embedding)", "embedding")], "embedding output residual x"),
    "norms in each other's place": ("bert", [("x = self.norm1(x + self.", "x = self.norm2(x + self.")], "residual x"),
}
"""What is wrong -> the port, the edit, and by which role, name or maker the first tensor that diverges may go in it."""


@pytest.mark.parametrize(("name", "edits", "where"), BUGS.values(), ids=BUGS)
def test_a_bug_in_a_port_is_named_at_its_tensor_or_the_next(
    port: Port, name: str, edits: list[tuple[str, str]], where: str
) -> None:
    own = port(name, *edits).Model(LAYERS).eval()
    found = parted(name, original(name), own)
    assert found.first is not None
    record = found.first.after
    said = {record.role, record.name, record.call.name, record.call.path.rpartition(".")[2]}
    assert said & set(where.split()), record


@pytest.mark.parametrize(
    ("name", "edits", "pair"),
    [
        (
            "gpt2",
            [("key = self.key(", "key = self.value("), ("value = self.value(", "value = self.key(")],
            ("transformer.h.0.attn.c_attn.weight", "stack.0.attend.key.weight", ("16:32", None)),
        ),
        (
            "bert",
            [("Q, K, V = self.split(", "Q, V, K = self.split(")],
            ("encoder.layer.0.attention.self.key.weight", "layers.0.self_attn.W_K.weight", (None, None)),
        ),
        (
            "llama",
            [("functional.silu(g) * u", "functional.silu(u) * g")],
            ("model.layers.0.mlp.gate_proj.weight", "layers.0.ffn.gate.weight", (None, None)),
        ),
    ],
    ids=["keys and values of one weight", "keys and values", "gate and up"],
)
def test_weights_that_are_used_in_each_others_place_go_by_their_names_so_that_the_bug_shows(
    port: Port, name: str, edits: list[tuple[str, str]], pair: tuple[str, str, tuple[str | None, str | None]]
) -> None:
    found = parted(name, original(name), port(name, *edits).Model(LAYERS).eval())
    assert found.first is not None
    assert found.first.before.path.startswith(pair[0].rpartition(".")[0].rpartition(".")[0])
    against = [each for each in found.copied if each.against == "use"]
    assert pair in [
        (each.before, each.after, tuple(None if rows is None else span(rows) for rows in each.rows)) for each in against
    ]
    assert "copied by what they are called, but used otherwise: " in " ".join(str(found).split())
