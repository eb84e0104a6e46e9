"""`nn.MultiheadAttention` in a wrapper, which keeps its rows by time and not by batch, against attention of layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from shapetrace import ValuesDiff, compare_values

B, T, C, H, D = 2, 6, 8, 2, 4


class Wrapped(nn.Module):
    def __init__(self, *, is_batch_first: bool) -> None:
        super().__init__()
        self.m, self.is_batch_first = nn.MultiheadAttention(C, H, batch_first=is_batch_first), is_batch_first
        nn.init.normal_(self.m.in_proj_bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_batch_first:
            return self.m(x, x, x, need_weights=False)[0]
        x = x.transpose(0, 1)
        return self.m(x, x, x, need_weights=False)[0].transpose(0, 1)


class Layers(nn.Module):
    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = factor
        self.q, self.k, self.v, self.o = (nn.Linear(C, C) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (layer(x).view(b, t, H, D).transpose(1, 2) for layer in (self.q, self.k, self.v))
        w = q @ k.transpose(-1, -2) / self.factor
        return self.o((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, C))


def compared(*, is_batch_first: bool, is_swapped: bool = False, factor: float = 2.0) -> ValuesDiff:
    torch.manual_seed(0)
    wrapped, layers = Wrapped(is_batch_first=is_batch_first).eval(), Layers(factor).eval()
    layers.o.load_state_dict(wrapped.m.out_proj.state_dict())
    ways = wrapped.m.in_proj_weight.chunk(3), wrapped.m.in_proj_bias.chunk(3)
    for layer, weight, bias in zip((layers.q, layers.k, layers.v), *ways, strict=True):
        layer.load_state_dict({"weight": weight, "bias": bias})
    models = (layers, wrapped) if is_swapped else (wrapped, layers)
    return compare_values(*models, torch.randn(B, T, C))


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("is_batch_first", [False, True])
def test_the_one_tensor_that_either_model_returns_is_compared_whatever_steps_made_it(
    is_batch_first: bool, is_swapped: bool
) -> None:
    found = compared(is_batch_first=is_batch_first, is_swapped=is_swapped)
    assert not found
    assert found.lone == ((), ())


def test_so_it_is_where_it_differs() -> None:
    found = compared(is_batch_first=False, factor=1.0)
    last = found.diverging[-1]
    assert (last.before.call.path, last.after.call.path) == ("", "")
    assert found.first is not None
    assert found.first.before.role == "scores"


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("is_batch_first", [False, True])
def test_rows_that_run_through_time_first_are_compared_with_those_that_run_through_the_batch_first(
    is_batch_first: bool, is_swapped: bool
) -> None:
    assert compared(is_batch_first=is_batch_first, is_swapped=is_swapped).within == ()
