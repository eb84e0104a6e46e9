"""Twelve bugs that porting a model makes, each of which must be named at the tensor where it is."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from shapetrace import Divergence, ValuesDiff, compare_values, trace
from shapetrace.models.gpt import gpt
from shapetrace.models.variants import gpt2
from shapetrace.records import Record
from shapetrace.values.weights import copy_weights

Plant = Callable[..., ModuleType]

Edit = tuple[str, str, str]

SIZES = {"B": 2, "T": 5, "C": 16, "H": 4, "V": 32, "L": 2}

SEED_EXAMPLE = {"B": 2, "T": 4, "C": 8, "H": 2, "V": 16, "L": 2}
"""B = H and T = D."""


def first(found: ValuesDiff) -> str:
    """The path, name, role and axes of the first tensor that diverges, on the side of the port; or what made it."""
    each: Divergence | None = found.first
    assert each is not None
    record = each.after
    role = f" · {record.role}" if record.role else ""
    return f"{record.path}.{record.name or record.call.name}{role} [{', '.join(map(str, record.axes))}]".lstrip(".")


BUGS: dict[str, tuple[dict[str, Any], list[Edit], str]] = {
    "head split without transpose": (
        {},
        [("attention.py", "q = q.view(B, T, H, D).transpose(1, 2)", "q = q.reshape(B, H, T, D)")],
        "blocks.0.attention.q · q [B, H, T, D]",
    ),
    "interleaved against half-split RoPE": (
        {"positions": "rope"},
        [
            ("positions.py", "torch.cat([angles, angles], dim=-1)", "angles.repeat_interleave(2, dim=-1)"),
            ("positions.py", "x.chunk(2, dim=-1)", "x[..., ::2], x[..., 1::2]"),
            (
                "positions.py",
                "torch.cat([-second, first], dim=-1)",
                "torch.stack([-second, first], dim=-1).flatten(-2)",
            ),
        ],
        "blocks.0.attention.rotary.first [B, H, T, D/2]",
    ),
    "repeat against repeat_interleave": (
        {"G": 2, "H": 4, "C": 16},
        [("attention.py", "k = k.repeat_interleave(H // G, dim=1)", "k = k.repeat(1, H // G, 1, 1)")],
        "blocks.0.attention.k [B, H, T, D]",
    ),
    "missing scale": (
        {},
        [("attention.py", "scores = q @ k.transpose(-2, -1) / math.sqrt(D)", "scores = q @ k.transpose(-2, -1)")],
        "blocks.0.attention.scores [B, H, T, T]",
    ),
    "mask after softmax": (
        {},
        [
            ("attention.py", "    if mask is not None:\n        scores = scores.masked_fill(mask, -math.inf)\n", ""),
            (
                "attention.py",
                "weights = scores.softmax(dim=-1)",
                "weights = scores.softmax(dim=-1).masked_fill(torch.zeros(()).bool() if mask is None else mask, 0)",
            ),
            (
                "attention.py",
                "from torch import Tensor, nn\n",
                "import torch\nfrom torch import Tensor, nn\n",
            ),
        ],
        "blocks.0.attention.scores · scores [B, H, T, T]",
    ),
    "swapped K and V": (
        {},
        [("attention.py", "q, k, v = qkv.split", "q, v, k = qkv.split")],
        "blocks.0.attention.k [B, T, C]",
    ),
    "norm epsilon": (
        {},
        [("block.py", "nn.LayerNorm(config.C)", "nn.LayerNorm(config.C, eps=1e-6)")],
        "blocks.0.normed · norm [B, T, C]",
    ),
    "pre against post norm": (
        {},
        [
            (
                "block.py",
                "            normed = self.norm_1(x)\n            x = x + self.attention(normed, mask=mask)\n",
                "            x = x + self.attention(x, mask=mask)\n            x = self.norm_1(x)\n",
            )
        ],
        "blocks.0.x · residual [B, T, C]",
    ),
    "tanh against exact GELU": (
        {},
        [("feed_forward.py", 'approximate = "tanh" if activation == "gelu_tanh" else "none"', 'approximate = "tanh"')],
        "blocks.0.feed_forward.hidden · ffn_hidden [B, T, F]",
    ),
    "wrong position offset": (
        {},
        [("positions.py", "torch.arange(T, device", "torch.arange(1, T + 1, device")],
        "index [T]",
    ),
    "causal mask off by one": (
        {},
        [("masks.py", "triu(diagonal=1)", "triu(diagonal=2)")],
        "mask [T, T]",
    ),
}


@pytest.mark.parametrize("sizes", [SIZES, SEED_EXAMPLE], ids=["sizes apart", "seed example"])
@pytest.mark.parametrize(("choices", "edits", "expected"), BUGS.values(), ids=BUGS)
def test_a_bug_is_named_at_its_tensor(
    plant: Plant, sizes: dict[str, int], choices: dict[str, Any], edits: list[Edit], expected: str
) -> None:
    torch.manual_seed(0)
    ours, _, batch = gpt(**{**sizes, **choices})
    theirs, _, _ = plant(*edits).gpt(**{**sizes, **choices})
    assert first(compare_values(ours, theirs, **batch, weights="copy")) == expected


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_is_named_at_the_same_pair_of_tensors_whichever_side_comes_first(plant: Plant, bug: str) -> None:
    choices, edits, _ = BUGS[bug]
    torch.manual_seed(0)
    ours, _, batch = gpt(**{**SIZES, **choices})
    theirs, _, _ = plant(*edits).gpt(**{**SIZES, **choices})
    one = compare_values(ours, theirs, **batch, weights="copy").first
    other = compare_values(theirs, ours, **batch, weights="copy").first
    assert one is not None
    assert other is not None
    assert (named(one.before), named(one.after)) == (named(other.after), named(other.before))
    assert (kind_of(one), kind_of(other)) == (SAID.get(bug),) * 2


SAID = {
    "head split without transpose": "order",
    "repeat against repeat_interleave": "order",
    "missing scale": "factor",
    "mask after softmax": "hidden",
    "wrong position offset": "sum",
}
"""How the tensor of the port is made of the other, where that can be told."""


def kind_of(each: Divergence) -> str | None:
    return each.apart.relation.kind if each.apart and each.apart.relation else None


def named(record: Record) -> tuple[str, str, str]:
    return record.path, record.name, record.call.name


@pytest.mark.parametrize("choices", [{}, {"positions": "rope"}, {"G": 2}], ids=["plain", "rope", "gqa"])
def test_without_a_bug_nothing_diverges(plant: Plant, choices: dict[str, Any]) -> None:
    ours, _, batch = gpt(**{**SIZES, **choices})
    theirs, _, _ = plant().gpt(**{**SIZES, **choices})
    found = compare_values(ours, theirs, **batch, weights="copy")
    assert (bool(found), found.first, found.within, found.uncompared) == (False, None, (), 0)


# --- another implementation -------------------------------------------------------------------------------------------


def hugging_face() -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(n_embd=16, n_head=4, n_layer=2, vocab_size=32, n_positions=1024, bos_token_id=0, eos_token_id=0)
    ).eval()


def test_gpt2_with_the_weights_of_hugging_faces_is_the_same() -> None:
    torch.manual_seed(0)
    ours, _, batch = gpt2(**SIZES)
    for before, after in ((hugging_face(), ours), (ours, hugging_face())):
        found = compare_values(before, after, batch["ids"], weights="copy")
        assert (bool(found), found.weights) == (False, "28 copied, all by what is made with them")


def test_a_conv1d_weight_that_was_not_transposed_is_named_at_what_it_makes() -> None:
    def ported(before: nn.Module, after: nn.Module) -> None:
        copy_weights(before, after, trace(before, batch["ids"]), trace(after, batch["ids"]))
        w_o: nn.Linear = after.get_submodule("blocks.0.attention.w_o")
        w_o.weight.data = before.get_submodule("transformer.h.0.attn.c_proj").weight.data.clone()

    torch.manual_seed(0)
    ours, _, batch = gpt2(**SIZES)
    theirs = hugging_face()
    found = compare_values(theirs, ours, batch["ids"], weights=ported)
    assert first(found) == "blocks.0.attention.w_o.linear [B, T, C]"
    assert found.weights == "put in by ported"
