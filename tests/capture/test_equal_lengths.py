"""A law: which sizes are equal by chance makes no difference to what axes are called."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn

import shapetrace

SIZES = list(product((2, 4), repeat=3))
"""Of B, T and S; heads are two, of width four."""


class Crossed(nn.Module):
    def __init__(self, *, is_batch_second: bool = False) -> None:
        super().__init__()
        self.is_batch_second = is_batch_second
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = [self.q(x), self.k(source), self.v(source)]
        if self.is_batch_second:
            rows = [row.transpose(0, 1) for row in rows]
        q, k, v = (row.unflatten(-1, (2, 4)).transpose(1, 2) for row in rows)
        scores = q @ k.mT if mask is None else q @ k.mT + mask
        out = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return out.transpose(0, 1) if self.is_batch_second else out


class ByEinsum(nn.Module):
    """Weights are [T, S, B, H], after an attention of each to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others, self.crossed = (nn.Linear(8, 16) for _ in range(3))

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        x, source = x + self.attend(self.own, x, x), source + self.attend(self.others, source, source)
        return x + self.attend(self.crossed, x, source)

    def attend(self, kv: nn.Module, x: Tensor, source: Tensor) -> Tensor:
        q, (k, v) = x.unflatten(-1, (2, 4)), (part.unflatten(-1, (2, 4)) for part in kv(source).chunk(2, -1))
        weights = torch.einsum("ibnd,jbnd->ijbn", q, k).softmax(1)
        return torch.einsum("ijbn,jbnd->ibnd", weights, v).flatten(2)


def named(model: nn.Module, *args: Tensor) -> tuple[list[tuple[str | int, ...]], tuple[str | int, ...]]:
    """The axes of what the model is given, and of its last weights."""
    trace = shapetrace.trace(model, *args)
    given = [tensor.axes or tensor.shape for tensor in trace.calls[0].inputs.values()]
    return given, trace.roles("weights")[-1].axes or ()


@pytest.mark.parametrize(("B", "T", "S"), SIZES)
def test_of_a_batch_and_two_lengths(B: int, T: int, S: int) -> None:
    x, source = torch.randn(B, T, 8), torch.randn(B, S, 8)
    assert named(Crossed(), x, source) == ([("B", "T", "C"), ("B", "S", 8)], ("B", "H", "T", "S"))


@pytest.mark.parametrize(("B", "T", "S"), SIZES)
def test_of_a_batch_that_comes_second(B: int, T: int, S: int) -> None:
    x, source = torch.randn(T, B, 8), torch.randn(S, B, 8)
    given = [("T", "B", "C"), ("S", "B", 8)]
    assert named(Crossed(is_batch_second=True), x, source) == (given, ("B", "H", "T", "S"))
    assert named(ByEinsum(), x, source) == ([("T", "B", "H·D"), ("S", "B", "H·D")], ("T", "S", "B", "H"))


@pytest.mark.parametrize(("B", "T", "S"), SIZES)
def test_of_a_mask_for_both_lengths(B: int, T: int, S: int) -> None:
    x, source, mask = torch.randn(B, T, 8), torch.randn(B, S, 8), torch.randn(T, S)
    given = [("B", "T", "C"), ("B", "S", 8), ("T", "S")]
    assert named(Crossed(), x, source, mask) == (given, ("B", "H", "T", "S"))


@pytest.mark.parametrize("size", [2, 3])
def test_of_rows_that_are_flattened_both_ways(size: int) -> None:
    class Flattened(nn.Module):
        """One layer sees B·T rows, and attention, the batch second, T·B."""

        def __init__(self) -> None:
            super().__init__()
            self.up, self.attention = nn.Linear(8, 8), nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.up(x.view(-1, 8)).view_as(x)
            out: Tensor = self.attention(x, x, x)[0]
            return x + out

    trace = shapetrace.trace(Flattened(), torch.zeros(size, size, 8))
    assert trace.calls[0].inputs["x"].axes == ("B", "T", "C")
    assert trace.notes == ()
