"""Statements of several steps, of which one inside has a row of its own: the head output, by its role."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.renderers.rows import rows

Function = Callable[[Tensor], Tensor]


class Attention(nn.Module):
    """Attention of 2 heads whose head output, (2, 2, T, 4), is given to `finish` unnamed."""

    def __init__(self, finish: Function) -> None:
        super().__init__()
        self.finish = finish

    def forward(self, q: Tensor, v: Tensor) -> Tensor:
        w = (q @ v.mT).softmax(-1)
        result = self.finish(w @ v)
        return result


def after_weights(finish: Function, *, T: int, all: bool = False) -> list[str]:
    """The rows below the weights."""
    q, v = torch.zeros(2, 2, T, 4), torch.zeros(2, 2, T, 4)
    trace = shapetrace.trace(Attention(finish), q, v)
    found = [f"{row.name or row.role}  {row.maker}  {row.memory}" for row in rows(trace, all=all)]
    return found[found.index("head_output  @  new") :]


def test_a_view_of_the_step_in_it_that_has_a_row() -> None:
    def finish(head_output: Tensor) -> Tensor:
        return head_output.transpose(1, 2).reshape(2, 1, 8)

    assert after_weights(finish, T=1) == ["head_output  @  new", "result  reshape  view of w @ v"]
    assert after_weights(finish, T=1, all=True) == [
        "head_output  @  new",
        "  transpose  view of w @ v",
        "result  reshape  view of w @ v",
    ]


def test_a_copy_of_the_step_in_it_that_has_a_row() -> None:
    def finish(head_output: Tensor) -> Tensor:
        return head_output.transpose(1, 2).contiguous().view(2, 3, 8)

    assert after_weights(finish, T=3) == [  # 2 · 3 · 8 elements of 4 bytes
        "head_output  @  new",
        "result  contiguous  copy of (w @ v).transpose(1, 2), 192 B: (w @ v).transpose(1, 2) was not contiguous",
    ]


def test_what_was_computed_after_the_step_that_has_a_row_is_new() -> None:
    def finish(head_output: Tensor) -> Tensor:
        return (head_output * 2).transpose(1, 2)

    assert after_weights(finish, T=3) == ["head_output  @  new", "result  *  new"]


def test_a_change_in_place_of_the_step_in_it_that_has_a_row() -> None:
    def finish(head_output: Tensor) -> Tensor:
        return head_output.relu_()

    assert after_weights(finish, T=3) == ["head_output  @  new", "result  relu_  in place on w @ v"]
