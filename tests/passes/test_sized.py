"""A size that a user declares names the dims that have it, and what follows from them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import shapetrace


class Mixed(nn.Module):
    """Heads that nothing attends with, so that no role tells what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)) for part in self.qkv(x).chunk(3, -1))
        return self.out((q + k + v).flatten(-2))


X = torch.zeros(2, 5, 8)


def axes(declared: str) -> list[tuple[str | int, ...]]:
    """Of the fused projection, and of its heads."""
    trace = shapetrace.trace(Mixed(), X, axes=f"B=2 T=5 {declared}")
    made = {call.name: next(iter(call.outputs.values())) for call in trace.calls if call.kind == "function"}
    return [made[name].axes or made[name].shape for name in ("chunk", "unflatten", "add")] + [
        next(call.inputs["0"].axes or () for call in trace.calls if call.name == "chunk")
    ]


@pytest.mark.parametrize(
    ("declared", "heads"),
    [("C=8", (2, 4)), ("C=8 H=2", ("H", "D")), ("C=8 D=4", ("H", "D"))],
)
def test_what_is_made_of_a_declared_width_is_named_by_it(declared: str, heads: tuple[str | int, ...]) -> None:
    split = ("B", "T", *heads)
    assert axes(declared) == [("B", "T", "C"), split, split, ("B", "T", "3·C")]


def test_a_batch_as_large_as_there_are_heads_is_told_from_them() -> None:
    trace = shapetrace.trace(Mixed(), X, axes="B=2 T=5 C=8 H=2")
    assert trace.sizes == {"B": 2, "T": 5, "C": 8, "H": 2, "D": 4}
    assert trace.notes == ()
