"""What the one forward that ran says of the dims of what it was given: which go together, and which are a weight's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.bonds import Bonds, bonds_of


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(8, 8))
        self.table = nn.Parameter(torch.zeros(4, 8))
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def found(function: Callable[..., Any], *args: Tensor) -> tuple[Bonds, list[tuple[int, ...]]]:
    """The bonds, and of each tensor in turn those of its dims."""
    bonds = bonds_of(shapetrace.trace(Model(function), *args, axes=False), {"w", "table"})
    return bonds, [row for rows in bonds.rows.values() for row in rows]


X, Y, MASK = torch.zeros(2, 4, 8), torch.zeros(2, 4, 8), torch.zeros(2, 1, 4)


def test_what_is_added_or_multiplied_goes_together() -> None:
    _, (x, y, mask) = found(lambda m, x, y, mask: ((x @ m.w) @ y.mT + mask).softmax(-1) @ y, X, Y, MASK)
    assert x[0] == y[0]
    assert x[1] != y[1]
    assert mask[2] == y[1]
    assert mask[0] == x[0]


def test_lengths_of_vectors_meet_where_they_are_dims_of_one_tensor() -> None:
    bonds, (x, y) = found(lambda m, x, y: torch.tanh((x @ m.w).unsqueeze(2) + (y @ m.w).unsqueeze(1)), X, Y)
    assert {x[1], y[1]} <= bonds.carried
    assert frozenset({x[1], y[1]}) in bonds.meeting


def test_what_is_as_long_as_a_parameter_is_fixed_and_what_a_slice_leaves_is_not() -> None:
    bonds, (x,) = found(lambda m, x: x + m.table, X)
    assert {x[1], x[2]} <= bonds.fixed
    assert x[0] not in bonds.fixed
    bonds, (x,) = found(lambda m, x: x + m.table[: x.shape[1]], X)
    assert x[1] not in bonds.fixed


def test_of_what_is_given_twice_nothing_is_said() -> None:
    assert found(lambda m, x, y: x @ y.mT, X, X)[1] == [(), ()]


def test_a_mask_goes_with_what_it_is_laid_on() -> None:
    def hide(m: Model, x: Tensor, mask: Tensor) -> Tensor:
        y = (x @ m.w).transpose(0, 1)
        y[mask] = 0
        return y

    _, (x, mask) = found(hide, torch.zeros(4, 4, 8), torch.ones(4, 4) > 0)
    assert mask == (x[1], x[0])
    _, (x, mask) = found(lambda m, x, mask: x[:, mask], X, torch.ones(4) > 0)
    assert mask == x[1:2]


def test_indices_that_are_taken_together_go_together() -> None:
    def place(m: Model, x: Tensor, ids: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[torch.arange(len(ids))[:, None], ids] = x
        return y

    _, (x, ids) = found(place, X, torch.zeros(2, 4).long())
    assert ids[1] == x[1]
    _, (x, rows, ids) = found(lambda m, x, rows, ids: x[rows, ids], X, *torch.zeros(2, 2, 4).long().unbind())
    assert rows == ids


def test_what_is_selected_is_as_long_as_its_index() -> None:
    _, (x, ids, y) = found(lambda m, x, ids, y: x.index_select(1, ids) + y, X, torch.zeros(3).long(), X[:, :3] + 1)
    assert y == (x[0], *ids, x[2])


@pytest.mark.parametrize("kind", ["gru", "lstm", "rnn"])
def test_a_recurrent_net_goes_on_at_the_length_and_the_batch_that_it_is_given(kind: str) -> None:
    cell: nn.Module = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}[kind](8, 8, batch_first=True)

    class Read(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            h: Tensor = self.cell(x)[0]
            return h * mask[:, :, None]

    trace = shapetrace.trace(Read(), X, torch.ones(2, 4), axes=False)
    rows = bonds_of(trace, ()).rows
    assert rows["x"][0][:2] == rows["mask"][0]


def test_labels_go_with_what_their_loss_is_of() -> None:
    def loss(m: Model, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy((x @ m.w).mT, labels)

    _, (x, labels) = found(loss, X, torch.zeros(2, 4).long())
    assert labels == x[:2]


def test_what_a_weights_width_is_cut_into_is_as_fixed_and_a_past_is_a_length() -> None:
    def attend(m: Model, x: Tensor, *both: Tensor) -> Tensor:
        new = (x @ m.w).unflatten(-1, (2, 4)).transpose(1, 2)
        k, v = (torch.cat([past, new], 2) for past in both)
        return (new @ k.mT).softmax(-1) @ v

    bonds, (x, past, values) = found(attend, X, torch.zeros(2, 2, 4, 4), torch.zeros(2, 2, 4, 4))
    assert past == values
    assert past[0] == x[0]
    assert {past[1], past[3]} <= bonds.fixed
    assert past[2] != x[1]
    assert {past[2], x[1]} <= bonds.carried - bonds.fixed
