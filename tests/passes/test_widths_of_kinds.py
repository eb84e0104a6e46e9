"""Widths in models of some kinds: heads that share keys, latents that are learned, layers that scale what they add."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Trace


def made(trace: Trace, name: str) -> tuple[str | int, ...]:
    """The axes of what the first function of a name makes."""
    call = next(call for call in trace.calls if call.kind == "function" and call.name.strip("_") == name)
    return call.outputs[""].axes or call.outputs[""].shape


class Grouped(nn.Module):
    """Four heads, of which two share keys and values, in tensors of five dims."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, C) for C in (16, 8, 8, 16))

    def forward(self, x: Tensor) -> Tensor:
        B, T, _ = x.shape
        q, k, v = self.q(x).view(B, T, 2, 2, 4), self.k(x).view(B, T, 2, 4), self.v(x).view(B, T, 2, 4)
        return self.out(self.attend(q, k, v).reshape(B, T, 16))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.permute(0, 2, 3, 1, 4), k.transpose(1, 2)[:, :, None], v.transpose(1, 2)[:, :, None]
        return ((q @ k.mT).softmax(-1) @ v).permute(0, 3, 1, 2, 4)


class GroupedByEinsum(Grouped):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = torch.einsum("btgrd,bsgd->bgrts", q, k).softmax(-1)
        return torch.einsum("bgrts,bsgd->btgrd", weights, v)


@pytest.mark.parametrize("kind", [Grouped, GroupedByEinsum])
def test_heads_that_share_keys_are_groups_and_the_heads_of_each(kind: type[Grouped]) -> None:
    trace = shapetrace.trace(kind(), torch.zeros(2, 5, 16))
    assert [record.axes for record in trace.roles("weights")] == [("B", "G", "H/G", "T", "T")]
    assert made(trace, "view") == ("B", "T", "G", "H/G", "D")
    assert made(trace, "reshape") == ("B", "T", "C")
    assert trace["k"]["output"].axes == ("B", "T", "G·D")
    assert trace.sizes == {"B": 2, "T": 5, "C": 16, "H": 4, "D": 4, "G": 2}


class Windows(nn.Module):
    """Weights of five dims, of which one is windows."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).view(-1, 3, 2, 2, 4).transpose(2, 3) for part in (self.q, self.k, self.v))
        return ((q @ k.mT).softmax(-1) @ v).transpose(2, 3).reshape(x.shape)


def test_windows_are_no_groups_of_heads() -> None:
    trace = shapetrace.trace(Windows(), torch.zeros(2, 6, 8))
    (weights,) = trace.roles("weights")
    assert not {"G", "H/G"} & {*(weights.axes or ())}


class Latents(nn.Module):
    """Learned queries, which attend to what the model is given and then to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.zeros(6, 8))
        self.cross, self.own = (nn.ModuleList(nn.Linear(8, 8) for _ in range(4)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        latents = self.latents.expand(len(x), -1, -1)
        latents = latents + attend(self.cross, latents, x)
        return latents + attend(self.own, latents, latents)


def attend(parts: nn.ModuleList, x: Tensor, source: Tensor) -> Tensor:
    q, k, v = (
        part(given).unflatten(-1, (2, 4)).transpose(1, 2)
        for part, given in zip(parts, (x, source, source), strict=False)
    )
    return parts[3](((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("length", [5, 6])
def test_latents_are_no_length(length: int) -> None:
    trace = shapetrace.trace(Latents(), torch.zeros(2, length, 8))
    assert [record.axes for record in trace.roles("weights")] == [("B", "H", 6, length), ("B", "H", 6, 6)]


class Patches(nn.Module):
    """An image, with a learned position for each of its patches."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.positions = nn.Conv2d(3, 8, 4, 4), nn.Parameter(torch.zeros(1, 6, 8))
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, image: Tensor) -> Tensor:
        x = self.conv(image).flatten(2).mT + self.positions
        return x + attend(self.parts, x, x)


def test_patches_are_a_length_though_each_has_a_learned_position() -> None:
    trace = shapetrace.trace(Patches(), torch.zeros(2, 3, 8, 12))
    assert [record.axes for record in trace.roles("weights")] == [("B", "H", "T", "T")]


class Scaled(nn.Module):
    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation
        self.scale, self.norm = nn.Parameter(torch.ones(8)), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        attended = self.out((self.q(h) @ self.k(h).mT).softmax(-1) @ self.v(h))
        x = x + torch.einsum(self.equation, attended, self.scale)
        return x + torch.einsum(self.equation, self.down(F.gelu(self.up(self.norm(x)))), self.scale)


@pytest.mark.parametrize("equation", ["btc,c->btc", "...c,c->...c"])
def test_what_an_einsum_scales_is_added_to_the_stream(equation: str) -> None:
    trace = shapetrace.trace(Scaled(equation), torch.zeros(2, 5, 8))
    assert [record.axes for record in trace.roles("residual")] == [("B", "T", "C")] * 2
    assert trace["up"]["output"].axes == ("B", "T", "F")


class Unadded(nn.Module):
    """A stream to which nothing is added at first."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.ModuleList(nn.Linear(8, 8) for _ in range(4)) for _ in range(2))
        self.between = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.between(attend(self.first, x, x))
        return x + attend(self.second, x, x)


def test_what_attends_and_is_added_to_nothing_is_as_wide_as_what_is() -> None:
    trace = shapetrace.trace(Unadded(), torch.zeros(2, 5, 8))
    assert [record.axes for record in trace.roles("attn_out")] == [("B", "T", "C")] * 2
