"""Steps of implementations that share no name and are written in other functions: which is which."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.diff import compare, pairs
from shapetrace.schema import Call, TensorMeta, Trace

B, T, C, H, G, D = 2, 5, 16, 4, 2, 4
X = torch.linspace(-1, 1, B * T * C).view(B, T, C)


def by_expanding(states: Tensor) -> Tensor:
    b, g, t, d = states.shape
    more = states[:, :, None].expand(b, g, H // G, t, d)
    return more.reshape(b, H, t, d)


def by_repeating(k: Tensor) -> Tensor:
    return k.repeat_interleave(H // G, dim=1)


class Block(nn.Module):
    """Grouped attention and what it is added to. `is_port` has other names, and sizes that no letter is known for."""

    def __init__(self, repeat: Callable[[Tensor], Tensor], *, is_port: bool, is_split: bool = True) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(C, H * D), nn.Linear(C, G * D), nn.Linear(C, G * D)
        self.o_proj, self.norm = nn.Linear(H * D, C), nn.LayerNorm(C)
        self.repeat, self.is_port, self.is_split = repeat, is_port, is_split

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q = self.q_proj(self.norm(x))
        qs = q.view(b, t, H, D).transpose(1, 2) if self.is_split else q.view(b, H, t, D)
        ks = self.k_proj(self.norm(x)).view(b, t, G, D).transpose(1, 2)
        vs = self.v_proj(self.norm(x)).view(b, t, G, D).transpose(1, 2)
        angle = torch.outer(torch.arange(t).float(), 1 / 10000.0 ** (torch.arange(0, D, 2).float() / D))
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        qs, ks = turned(qs, cos, sin), turned(ks, cos, sin)
        keys, values = self.repeat(ks), self.repeat(vs)
        weights = (qs @ keys.transpose(2, 3) / math.sqrt(D)).softmax(-1)
        y = (weights @ values).transpose(1, 2).reshape(b, t, -1)
        if self.is_port:
            return x + self.o_proj(y)
        hidden = x + self.o_proj(y)
        return hidden


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


class Model(nn.Module):
    def __init__(self, *blocks: Block) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def traced(repeat: Callable[[Tensor], Tensor], *, is_port: bool, is_split: bool = True) -> Trace:
    torch.manual_seed(0)
    model = Model(*(Block(repeat, is_port=is_port, is_split=is_split) for _ in range(2)))
    return shapetrace.trace(model, X)


def paired(before: Trace, after: Trace) -> set[tuple[str, str]]:
    return {
        (one.call.name, other.call.name)
        for one, other in pairs(before, after)
        if one is not None and other is not None and one.path == other.path == "blocks.0"
    }


def test_repeated_keys_and_values_correspond_however_they_are_repeated() -> None:
    found = paired(traced(by_expanding, is_port=False), traced(by_repeating, is_port=True))
    assert ("reshape", "repeat_interleave") in found


def test_heads_that_a_view_alone_makes_correspond_to_those_of_view_and_transpose() -> None:
    found = paired(traced(by_repeating, is_port=False), traced(by_repeating, is_port=True, is_split=False))
    assert ("transpose", "view") in found


def test_a_sum_that_is_returned_is_the_one_that_is_assigned() -> None:
    assert not compare(traced(by_repeating, is_port=False), traced(by_repeating, is_port=True))


def test_numbers_of_positions_are_none_of_widths() -> None:
    def source(size: int, axis: str | int) -> Call:
        return Call("function", "", "arange", 0, outputs={"": TensorMeta((size,), axes=(axis,))})

    residual = Call("function", "", "add", 0, outputs={"": TensorMeta((5, 16), axes=("T", "C"))})
    before = Trace("net", calls=(source(5, "T"), residual))
    after = Trace("net", calls=(source(8, 8), source(5, "T"), residual))
    diff = compare(before, after)
    assert [(change.kind, change.after.tensor.shape) for change in diff.changes if change.after] == [("added", (8,))]
