"""What the header says would help, helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.letters import sizes_in


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def attend(x: Tensor) -> Tensor:
    """[T, B, H, D], so that the weights are [T, T, B, H]."""
    weights = torch.einsum("ibnd,jbnd->ijbn", x, x).softmax(1)
    return torch.einsum("ijbn,jbnd->ibnd", weights, x)


def multiply(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


X = torch.randn(5, 2, 3, 4)

HINTS = {
    "a batch and heads beside two lengths": (
        attend,
        (X,),
        "axes: nothing tells which of the input's axes (2, 3) is which; axes='B=2 H=3' or axes='B=3 H=2' says so",
    ),
    "a product": (
        multiply,
        (torch.randn(2, 5, 8), torch.randn(2, 4, 8)),
        "axes: nothing tells which of the input's axes (2, 5, 4) is which; axes='B=2 T=5 S=4', "
        "or so in another order, says so",
    ),
    "a product of lengths that are equal by chance": (
        multiply,
        (torch.randn(2, 5, 8), torch.randn(2, 5, 8)),
        "axes: nothing tells which of the input's axes (5, 5, 2) is which; "
        "where their sizes differ axes='B=… T=… S=…' says so",
    ),
    "vectors": (
        lambda x: x + 1,
        (torch.randn(4, 4, 8),),
        "axes: nothing tells which of the input's axes (4, 4) is which; "
        "where their sizes differ axes='B=… T=…' says so",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "args", "note"), HINTS.values(), ids=HINTS)
def test_each_way_that_is_said_names_what_was_left(
    function: Callable[..., Any], args: tuple[Tensor, ...], note: str
) -> None:
    assert shapetrace.trace(Model(function), *args).notes == (note,)
    for way in re.findall(r"axes='([^'…]+)'", note):
        trace = shapetrace.trace(Model(function), *args, axes=way)
        assert trace.notes == ()
        assert sizes_in(way).items() <= trace.sizes.items()


def test_where_sizes_differ_what_was_said_of_equal_ones_helps() -> None:
    trace = shapetrace.trace(Model(multiply), torch.randn(2, 5, 8), torch.randn(2, 4, 8), axes="B=2 T=5 S=4")
    assert trace.calls[0].outputs[""].axes == ("B", "T", "S")
    assert trace.notes == ()


def refuse(x: Tensor) -> Tensor:
    if x.shape != (2, 3, 8):
        raise ValueError("no other sizes")
    return x.flatten(0, 1) @ torch.ones(8, 16)


def test_a_model_that_runs_at_no_other_sizes_has_the_axes_that_are_declared_and_what_follows_from_them() -> None:
    x = torch.randn(2, 3, 8)
    reason = "the model does not run at other sizes (ValueError: no other sizes)"
    assert shapetrace.trace(Model(refuse), x).notes == (
        f"axes are not named: {reason}; axes='B=… T=…' names what has these sizes",
    )
    trace = shapetrace.trace(Model(refuse), x, axes="B=2 T=3 C=8")
    assert trace.notes == (f"axes are named only as declared: {reason}",)
    assert trace.calls[0].inputs["0"].axes == ("B", "T", "C")
    assert trace.calls[0].outputs[""].axes == ("B·T", 16)


def test_of_dims_of_one_size_none_is_what_is_declared() -> None:
    def refuse(x: Tensor) -> Tensor:
        if x.shape != (3, 3):
            raise ValueError("no other sizes")
        return x * 2

    (note,) = shapetrace.trace(Model(refuse), torch.randn(3, 3)).notes
    assert note == "axes are not named: the model does not run at other sizes (ValueError: no other sizes)"
    assert shapetrace.trace(Model(refuse), torch.randn(3, 3), axes="B=3").calls[0].outputs[""].axes is None
