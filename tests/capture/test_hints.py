"""What the header says would help, helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.letters import sizes_in
from shapetrace.targets import Request, record


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


class Fixed(nn.Module):
    """Positions are a parameter of four rows, and so is what is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.asked = nn.Parameter(torch.zeros(4, 8)), nn.Parameter(torch.zeros(3, 8))
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x + self.place).chunk(3, -1)
        y: Tensor = (q @ k.mT).softmax(-1) @ v
        return (self.asked @ y.mT).softmax(-1) @ y


def test_of_a_length_that_no_run_changed_the_header_says_so_and_what_would_name_it() -> None:
    trace = shapetrace.trace(Fixed(), torch.zeros(2, 4, 8))
    assert trace.notes[0] == (
        "axes: the model was not run at another size of 4, a length that weights have; axes='T=4' names it"
    )
    trace = shapetrace.trace(Fixed(), torch.zeros(2, 4, 8), axes="T=4")
    assert trace.roles("weights")[0].axes == ("B", "T", "T")


def test_a_letter_that_names_nothing_is_said() -> None:
    trace = shapetrace.trace(Fixed(), torch.zeros(2, 4, 8), axes="T=4 foo=7")
    assert "axes: foo=7 names nothing in this model" in trace.notes


def test_what_is_offered_is_no_past_and_no_source_where_nothing_attends_to_one() -> None:
    for x in (torch.zeros(2, 3, 4, 5, 6), torch.zeros(8, 8, 8)):
        (note,) = shapetrace.trace(Model(lambda x: x + 1), x, axes="B=8").notes[:1]
        assert "P=" not in note


def test_a_batch_that_comes_second_and_is_declared_first_is_said(tmp_path: Path) -> None:
    (tmp_path / "second.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.attention = nn.MultiheadAttention(8, 2)\n"
        "    def forward(self, x):\n"
        "        return self.attention(x, x, x)[0]\n"
    )
    trace = record(Request(f"{tmp_path / 'second.py'}:Net", inputs=("x: float32[B=2, T=4, 8]",)))
    assert trace.notes == (
        "axes: attention goes along B, and T is its batch; where the batch comes second an input is [T, B, …]",
    )
    trace = record(Request(f"{tmp_path / 'second.py'}:Net", inputs=("x: float32[T=2, B=4, 8]",)))
    assert trace.notes == ()
