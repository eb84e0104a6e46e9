"""The constant axes of models that are not built again: of torch's own, and of such as would be easy to get wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import shapetrace
from shapetrace.letters import PART_AXES, names_in
from shapetrace.passes.widths import name_widths
from shapetrace.schema import Trace

B, T, S, C, H, D, FF = 2, 4, 3, 8, 2, 4, 32
"""B = H and T = D, on purpose."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def axes(trace: Trace, role: str) -> set[str]:
    """The axes of the tensors of a role."""
    return {" ".join(map(str, record.axes)) for record in trace.roles(role)}


def owned(trace: Trace) -> dict[str, str]:
    """The axes of parameters, by name."""
    tensors = [tensor for call in trace.calls for tensor in call.inputs.values()]
    return {tensor.name: " ".join(map(str, tensor.axes or tensor.shape)) for tensor in tensors if tensor.name}


def numbers(trace: Trace) -> dict[str, None]:
    """The axes of tensors that have a dim without a letter."""
    tensors = [tensor for call in trace.calls for tensor in call.outputs.values()]
    found = [tensor.axes or tensor.shape for tensor in tensors]
    return {" ".join(map(str, each)): None for each in found if any(type(axis) is int and axis > 1 for axis in each)}


# torch's own


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(batch_first: bool, train: bool, need_weights: bool) -> None:
    model = nn.MultiheadAttention(C, H, batch_first=batch_first).train(train)
    x = torch.rand(B, T, C) if batch_first else torch.rand(T, B, C)
    trace = shapetrace.trace(model, x, x, x, need_weights=need_weights)
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "H": 2, "D": 4}
    assert axes(trace, "q") == ({"B·H T D"} if need_weights else {"B H T D"})
    assert axes(trace, "weights") == {"B H T T"}
    assert axes(trace, "concat") == {"B·T C"}
    assert owned(trace) == {
        "in_proj_weight": "3·C C",
        "in_proj_bias": "3·C",
        "out_proj.weight": "C C",
        "out_proj.bias": "C",
    }
    assert list(numbers(trace)) == [
        "T B 3 C",
        "1 T B 3 C",
        "3 T B 1 C",
        "3 T B C",
    ]  # the three of q, k and v: no size of the model


def test_keys_and_values_of_other_widths_keep_their_numbers() -> None:
    model = nn.MultiheadAttention(C, H, batch_first=True, kdim=5, vdim=6)
    trace = shapetrace.trace(model, torch.rand(B, T, C), torch.rand(B, S, 5), torch.rand(B, S, 6))
    assert axes(trace, "k") == axes(trace, "v") == {"B·H S D"}
    assert owned(trace)["k_proj_weight"] == "C 5"
    assert owned(trace)["v_proj_weight"] == "C 6"


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer(activation: str, norm_first: bool) -> None:
    model = nn.TransformerEncoderLayer(C, H, FF, batch_first=True, norm_first=norm_first, activation=activation)
    trace = shapetrace.trace(model, torch.rand(B, T, C))
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "H": 2, "D": 4, "F": 32}
    assert axes(trace, "residual") == {"B T C"}
    assert axes(trace, "ffn_hidden") == {"B T F"}
    assert axes(trace, "scores") == {"B H T T"}  # which are never made
    assert owned(trace)["linear1.weight"] == "F C"


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_and_a_decoder(batch_first: bool) -> None:
    model = nn.Transformer(C, H, 2, 2, FF, batch_first=batch_first)
    source = torch.rand(B, S, C) if batch_first else torch.rand(S, B, C)
    target = torch.rand(B, T, C) if batch_first else torch.rand(T, B, C)
    trace = shapetrace.trace(model, source, target)
    assert trace.sizes == {"B": 2, "T": 4, "S": 3, "C": 8, "H": 2, "D": 4, "F": 32}
    assert axes(trace, "weights") == {"B H T T", "B H S S", "B H T S"}
    assert set(owned(trace).values()) == {"3·C C", "3·C", "C C", "C", "F C", "F", "C F"}


def test_widths_are_named_where_the_model_cannot_be_run_again() -> None:
    class Once(nn.TransformerEncoderLayer):
        def forward(self, *args: Any, **kwargs: Any) -> Tensor:
            if torch.is_tensor(args[0]) and args[0].shape != (B, T, C):
                raise RuntimeError("no other sizes")
            return super().forward(*args, **kwargs)

    trace = shapetrace.trace(Once(C, H, FF, batch_first=True), torch.rand(B, T, C))
    assert trace.sizes == {"T": 4, "C": 8, "H": 2, "D": 4, "F": 32}
    assert axes(trace, "q") == {"2 H T D"}
    assert trace.notes[0].startswith("axes are not named: the model does not run at other sizes")


# Easy to get wrong


class Attention(nn.Module):
    """q, k and v of `inner` each, and the way from them to the residual stream, in `mixed`."""

    def __init__(self, width: int = C, inner: int = C, given: int | None = None) -> None:
        super().__init__()
        self.q = nn.Linear(width, inner)
        self.k = nn.Linear(width, given or inner)
        self.v = nn.Linear(width, given or inner)
        self.out = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(self.mixed(self.q(x), self.k(x), self.v(x)))

    def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return weights @ v


def test_a_single_head_may_be_C_or_D_wide() -> None:
    trace = shapetrace.trace(Attention(), torch.rand(B, T, C))
    assert trace.sizes == {"B": 2, "T": 4, "C": 8}
    assert axes(trace, "q") == axes(trace, "head_output") == {"B T 8"}
    other = shapetrace.trace(Attention(inner=6), torch.rand(B, T, C))
    assert axes(other, "q") == axes(other, "head_output") == {"B T D"}


def test_rows_of_an_image_are_no_heads() -> None:
    trace = shapetrace.trace(Attention(), torch.rand(B, 3, T, C))
    assert not {"H", "D"} & trace.sizes.keys()


def test_fewer_heads_of_keys_and_values_are_G() -> None:
    class Grouped(Attention):
        def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (each.unflatten(-1, (-1, D)).transpose(1, 2) for each in (q, k, v))
            k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
            return super().mixed(q, k, v).transpose(1, 2).flatten(2)

    trace = shapetrace.trace(Grouped(16, 16, 8), torch.rand(B, T, 16))
    assert trace.sizes == {"B": 2, "T": 4, "C": 16, "H": 4, "D": 4, "G": 2}
    assert axes(trace, "k") == axes(trace, "v") == {"B G T D"}
    assert owned(trace)["k.weight"] == "G·D C"
    assert owned(trace)["q.weight"] == owned(trace)["out.weight"] == "C C"


def test_heads_wider_than_C_over_H_are_H_times_D() -> None:
    class Wide(Attention):
        def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (each.unflatten(-1, (H, -1)).transpose(1, 2) for each in (q, k, v))
            return super().mixed(q, k, v).transpose(1, 2).flatten(2)

    trace = shapetrace.trace(Wide(inner=12), torch.rand(B, T, C))
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "H": 2, "D": 6}
    assert owned(trace)["q.weight"] == "H·D C"
    assert axes(trace, "concat") == {"B T H·D"}


def test_heads_may_be_in_the_parameters() -> None:
    class Einsum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Parameter(torch.rand(C, H, D)) for _ in range(3))
            self.out = nn.Parameter(torch.rand(H, D, C))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (torch.einsum("btc,chd->bthd", x, weight) for weight in (self.q, self.k, self.v))
            weights = torch.einsum("bthd,bshd->bhts", q, k).softmax(-1)
            heads = torch.einsum("bhts,bshd->bthd", weights, v)
            return x + torch.einsum("bthd,hdc->btc", heads, self.out)

    trace = shapetrace.trace(Einsum(), torch.rand(B, T, C))
    assert owned(trace) == {"q": "C H D", "k": "C H D", "v": "C H D", "out": "H D C"}


def test_attention_among_channels_has_no_D() -> None:
    class Channels(Attention):
        def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (each.unflatten(-1, (H, -1)).permute(0, 2, 3, 1) for each in (q, k, v))
            return super().mixed(q, k, v).permute(0, 3, 1, 2).flatten(2)

    trace = shapetrace.trace(Channels(), torch.rand(B, T, C))
    assert trace.sizes == {"B": 2, "C": 8}


def test_columns_of_an_image_are_no_width() -> None:
    class Pixels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Conv2d(C, C, 1) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (each(x).flatten(2) for each in (self.q, self.k, self.v))
            weights = (q.mT @ k).softmax(-1)
            return x + self.out((v @ weights.mT).unflatten(-1, x.shape[2:]))

    trace = shapetrace.trace(Pixels(), torch.rand(B, C, 3, T))
    assert trace.sizes == {"B": 2}


def test_a_length_that_the_model_fixes_is_T() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split = nn.Conv2d(3, C, 2, 2)
            self.layer = nn.TransformerEncoderLayer(C, H, FF, batch_first=True)
            self.positions = nn.Parameter(torch.zeros(4, C))

        def forward(self, image: Tensor) -> Tensor:
            return self.layer(self.split(image).flatten(2).mT + self.positions)

    trace = shapetrace.trace(Patches(), torch.rand(B, 3, 4, 4))
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "H": 2, "D": 4, "F": 32}
    assert owned(trace)["positions"] == "T C"


def test_halves_of_D_are_rotated() -> None:
    class Rotated(Attention):
        def mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k, v = (each.unflatten(-1, (H, -1)).transpose(1, 2) for each in (q, k, v))
            angles = torch.arange(q.shape[-2])[:, None] * torch.ones(2)
            angles = torch.cat([angles, angles], dim=-1)
            q, k = (x * angles.cos() + self.turned(x) * angles.sin() for x in (q, k))
            return super().mixed(q, k, v).transpose(1, 2).flatten(2)

        def turned(self, x: Tensor) -> Tensor:
            one, other = x[..., :2], x[..., 2:]
            return torch.cat([-other, one], dim=-1)

    trace = shapetrace.trace(Rotated(), torch.rand(B, T, C))
    slices = [call.outputs[""].axes for call in trace.calls if call.outputs and call.name == "__getitem__"]
    assert slices[1:] == [("B", "H", "T", "D/2")] * 4  # the first is of the positions


def test_two_widths_have_no_letter() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.between = nn.Linear(8, 12)
            self.decoder = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.decoder(self.between(self.encoder(x)))

    trace = shapetrace.trace(Two(), torch.rand(B, T, 8))
    assert trace.sizes == {"B": 2, "T": 4, "D": 4}
    told = name_widths(trace, {"C": 12})
    assert owned(told)["between.weight"] == "C 8"


# Sizes that the user gives


class Branch(nn.Module):
    def __init__(self, inner: int = FF) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(C, inner), nn.Linear(inner, C)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(x).relu())


def test_a_declared_size_names_what_nothing_else_tells() -> None:
    trace = shapetrace.trace(Branch(), torch.rand(B, T, C), axes="B=2 T=4 C=8 F=32")
    assert owned(trace) == {"up.weight": "F C", "up.bias": "F", "down.weight": "C F", "down.bias": "C"}
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "F": 32}


def test_a_size_that_two_letters_have_names_nothing() -> None:
    trace = shapetrace.trace(Branch(inner=C), torch.rand(B, T, C), axes="C=8 F=8")
    assert owned(trace) == {"up.weight": "8 8", "up.bias": "8", "down.weight": "8 8", "down.bias": "8"}


def test_a_declared_size_is_not_that_of_what_is_told_apart() -> None:
    model = nn.TransformerEncoderLayer(C, H, C, batch_first=True)
    trace = shapetrace.trace(model, torch.rand(B, T, C), axes="C=8")
    assert owned(trace)["linear1.weight"] == "F C"


def test_a_declared_size_that_the_model_has_not_is_said() -> None:
    model = nn.TransformerEncoderLayer(C, H, FF, batch_first=True)
    trace = shapetrace.trace(model, torch.rand(B, T, C), axes="C=16")
    assert trace.sizes["C"] == 8
    assert trace.notes == ("axes: C is 8 in this model, not 16",)


# Laws


def test_naming_twice_names_no_more() -> None:
    trace = shapetrace.trace(nn.Transformer(C, H, 1, 1, FF), torch.rand(S, B, C), torch.rand(T, B, C))
    assert name_widths(trace) == trace


def test_a_portable_trace_stays_as_it_is() -> None:
    model = nn.TransformerEncoderLayer(C, H, FF)
    trace = shapetrace.trace(model, torch.rand(T, B, C)).portable()
    assert name_widths(trace) == trace


class Hidden(nn.Module):
    """A model whose configuration is not to be seen."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model

    def forward(self, **kwargs: Any) -> Any:
        return self.inner(**kwargs)


SMALL = {"vocab_size": 61, "hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 40}
CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 61, "n_embd": 12, "n_head": 3, "n_layer": 2}),
    "seed": ("GPT2LMHeadModel", "GPT2Config", {"vocab_size": 61, "n_embd": 8, "n_head": 2, "n_layer": 1}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SMALL, "num_key_value_heads": 2, "num_hidden_layers": 1}),
    "qwen3": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {**SMALL, "head_dim": 8, "num_key_value_heads": 2, "num_hidden_layers": 1},
    ),
    "bert": ("BertForMaskedLM", "BertConfig", {**SMALL, "num_hidden_layers": 1}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": 61, "hidden_size": 12, "n_head": 3, "n_layer": 1}),
    "gptj": (
        "GPTJForCausalLM",
        "GPTJConfig",
        {"vocab_size": 61, "n_embd": 24, "n_head": 3, "rotary_dim": 4, "n_layer": 1, "n_positions": 32},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 61, "d_model": 12, "num_heads": 3, "d_kv": 6, "d_ff": 20, "num_layers": 1},
    ),
}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_no_letter_contradicts_what_building_the_model_again_tells(name: str, implementation: str) -> None:
    model, config, settings = CONFIGS[name]
    built = getattr(transformers, config)(**settings, attn_implementation=implementation)
    try:
        made = getattr(transformers, model)(built).eval()
    except ValueError as error:
        assert implementation == "sdpa"
        pytest.skip(f"this transformers has none: {error}")
    kwargs: dict[str, Any] = {"input_ids": torch.arange(2 * 5).view(2, 5), "use_cache": False}
    if name == "t5":
        kwargs["decoder_input_ids"] = torch.arange(2 * 7).view(2, 7)
    if name == "bert":
        del kwargs["use_cache"]
    rebuilt = shapetrace.trace(made, **kwargs)
    hidden = shapetrace.trace(Hidden(made), **kwargs)
    told = named = 0
    for call, other in zip(rebuilt.calls, hidden.calls[1:], strict=True):
        for place in ("inputs", "outputs", "unmade"):
            for key, tensor in getattr(call, place).items():
                again = getattr(other, place)[key]
                for axis, found in zip(tensor.axes or (), again.axes or again.shape, strict=False):
                    if isinstance(axis, str) and not set(PART_AXES) & set(names_in(axis)):  # they have no role
                        told += 1
                        named += isinstance(found, str)
                        assert not isinstance(found, str) or found == axis.replace("4·C", "F"), (other.name, key)
    assert named / told > 0.98
