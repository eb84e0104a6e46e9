"""Ports whose names say nothing, or mislead: what is which goes by what it does and where it stands in the flow."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.diff import compare
from shapetrace.schema import Trace

from .nodes import told

B, T, C, H, D, WIDTH = 2, 6, 8, 2, 4, 24
X = torch.linspace(-1, 1, B * T * C).view(B, T, C)


def traced(model: nn.Module) -> Trace:
    return shapetrace.trace(model.eval(), X)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(C, C) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (layer(x).view(b, t, H, D).transpose(1, 2) for layer in (self.q, self.k, self.v))
        w = q @ k.transpose(-1, -2) / 2
        return self.o((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, C))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(C, WIDTH), nn.Linear(C, WIDTH)
        self.down_proj = nn.Linear(WIDTH, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Fused(nn.Module):
    """The same, with gate and up as one layer `f`, and a layer `g` that is the down projection."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = nn.Linear(C, 2 * WIDTH), nn.Linear(WIDTH, C)

    def forward(self, x: Tensor) -> Tensor:
        p, q = self.f(x).chunk(2, dim=-1)
        return self.g(F.silu(p) * q)


class Net(nn.Module):
    def __init__(self, ffn: nn.Module) -> None:
        super().__init__()
        self.norm_1, self.norm_2, self.attention, self.ffn = nn.LayerNorm(C), nn.LayerNorm(C), Attention(), ffn

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.ffn(self.norm_2(x))


def test_a_letter_in_common_does_not_outweigh_the_role_that_a_layer_has() -> None:
    lines = compare(traced(Net(Gated())), traced(Net(Fused()))).lines
    names = {(line.before.name, line.after.name) for line in lines if line.before and line.after}
    assert ("down_proj", "g") in names
    assert not any("gate_proj" in pair for pair in names)


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query_key_value, self.dense = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.query_key_value(x).view(b, t, H, 3 * D).transpose(1, 2).chunk(3, dim=-1)
        return self.dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, C))


class Misnamed(nn.Module):
    """The same of four layers, of which `k` is the last."""

    def __init__(self) -> None:
        super().__init__()
        self.d, self.e, self.f, self.k = (nn.Linear(C, C) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (layer(x).view(b, t, H, D).transpose(1, 2) for layer in (self.d, self.e, self.f))
        return self.k(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, C))


@pytest.mark.parametrize("is_swapped", [False, True])
def test_nor_does_a_letter_where_the_layer_with_that_role_is_called_as_a_variable_of_the_other_side(
    is_swapped: bool,
) -> None:
    sides = [traced(Joined()), traced(Misnamed())]
    lines = compare(*(reversed(sides) if is_swapped else sides)).lines
    pairs = [(line.before, line.after) for line in lines if line.before and line.after]
    assert {one.name for pair in pairs if pair[0].role == "attn_out" for one in pair} == {"dense", "k"}


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.m = nn.MultiheadAttention(C, H, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.m(x, x, x, need_weights=False)[0]


def test_steps_of_other_dims_at_other_places_in_the_flow_are_not_one_that_moved() -> None:
    """A packed projection and the keys are both transposed; the keys inside fused attention are not told."""
    before, after = traced(Wrapped()), traced(Attention())
    assert [line for line in told(compare(before, after)) if line.startswith("moved")] == []
    assert [line for line in told(compare(after, before)) if line.startswith("moved")] == []
