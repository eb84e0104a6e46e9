"""Embeddings of tokens, and of positions that the model is given with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from shapetrace import trace
from tests.passes.parts import IDS, Block, Gated, Language, X, said, traced


class Placed(nn.Module):
    """Nine tokens, two kinds of them, and 64 places."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place, self.kind = nn.Embedding(9, 8), nn.Embedding(64, 8), nn.Embedding(2, 8)
        self.block, self.head = Block(Gated()), nn.Linear(8, 9)

    def forward(self, ids: Tensor, places: Tensor, kinds: Tensor) -> Tensor:
        x = self.token(ids) + self.place(places) + self.kind(kinds)
        return self.head(self.block(x))


TEXT = torch.tensor([[3, 8, 1, 4], [7, 7, 2, 0]])
KINDS = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])


@pytest.mark.parametrize(
    "places",
    [
        [[0, 1, 2, 3], [0, 1, 2, 3]],
        [[5, 6, 7, 8], [5, 6, 7, 8]],  # behind a past of five
        [[0, 1, 2, 3], [1, 1, 0, 1]],  # padded at the left, and the padding is hidden
        [[0, 1, 2, 3], [0, 1, 0, 1]],  # two texts in a row
    ],
)
def test_a_table_of_positions_may_be_longer_than_that_of_tokens(places: list[list[int]]) -> None:
    found = trace(Placed(), TEXT, torch.tensor(places), KINDS)
    assert said(found)[:2] == ["token: token_embedding", "place: position_embedding"]
    assert found.sizes["V"] == 9


@pytest.mark.parametrize("ids", [torch.zeros(2, 4, dtype=torch.long), torch.arange(4).expand(2, 4)])
def test_tokens_that_tell_nothing_are_of_the_longest_table(ids: Tensor) -> None:
    class Typed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.kind = nn.Embedding(9, 8), nn.Embedding(2, 8)
            self.block = Block(Gated())

        def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
            return self.block(self.token(ids) + self.kind(kinds))

    found = trace(Typed(), ids, torch.zeros_like(IDS))
    assert said(found)[0] == "token: token_embedding"
    assert "position_embedding" not in str(said(found))


def test_whole_numbers_that_are_not_known_are_no_positions() -> None:
    class Picked(Placed):
        def forward(self, ids: Tensor, places: Tensor, kinds: Tensor) -> Tensor:
            x = self.token(ids) + self.kind(kinds.gather(1, places))
            return self.head(self.block(x))

    assert "position_embedding" not in str(said(trace(Picked(), TEXT, torch.arange(4).expand(2, 4), KINDS)))


# Positions that are no lookup


class Added(Language):
    """Nine tokens, and what is added to them."""

    def __init__(self, place: Callable[[Added, int], Tensor]) -> None:
        super().__init__(Block(Gated()))
        self.learned, self.one, self.kinds = (nn.Parameter(torch.randn(size, 8)) for size in (16, 4, 2))
        self.register_buffer("held", torch.randn(1, 16, 8))
        self.bias, self.long = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(16, 1, 8))
        self.place = place

    def forward(self, ids: Tensor) -> Tensor:
        placed = self.place(self, ids.shape[1])
        x = self.table(ids) + placed
        return self.head(self.blocks[0](x))


@pytest.mark.parametrize(
    "place",
    [
        lambda own, T: own.learned[:T],
        lambda own, T: own.held[:, :T],
        lambda own, T: own.held[:, 3 : 3 + T].to(torch.float64).float(),
        lambda own, T: own.learned[None, :T],
        lambda own, T: own.learned.narrow(0, 0, T).unsqueeze(0),
        lambda own, T: own.one[:T],  # all there are
        lambda own, T: own.one * 0.02,
        lambda own, T: own.learned[torch.arange(T)],
    ],
)
def test_rows_of_a_table_that_are_added_to_tokens_are_their_positions(place: Callable[[Added, int], Tensor]) -> None:
    trace = traced(Added(place), IDS)
    (found,) = trace.roles("position_embedding")
    assert found.shape[-2:] == (4, 8)
    assert len(trace.roles("token_embedding")) == 1


@pytest.mark.parametrize(
    "place",
    [
        lambda own, T: own.bias,
        lambda own, T: own.bias[0, 0],
        lambda own, T: own.kinds[1],
        lambda own, T: own.kinds[:1],
        lambda own, T: 0.1 * torch.randn(1, T, 8),
    ],
)
def test_one_row_that_is_added_to_all_tokens_is_no_position_and_no_more_is_noise(
    place: Callable[[Added, int], Tensor],
) -> None:
    assert traced(Added(place), IDS).roles("position_embedding") == []


def test_of_one_token_the_position_is_the_row_that_was_cut_from_a_table() -> None:
    found = said(traced(Added(lambda own, T: own.held[:, 5 : 5 + T]), IDS[:, :1]))
    assert found[:2] == ["placed: position_embedding", "table: token_embedding"]


def test_positions_come_first_where_the_batch_is_second() -> None:
    class LengthFirst(Added):
        def forward(self, ids: Tensor) -> Tensor:
            placed = self.long[: ids.shape[1]]
            x = self.table(ids.T) + placed
            return self.head(self.blocks[0](x.transpose(0, 1)))

    assert "placed: position_embedding" in said(traced(LengthFirst(lambda own, T: own.long), IDS))


def test_a_table_of_positions_that_is_added_as_it_is_has_its_role_where_it_is_added() -> None:
    """A picture of four patches, of which none is a token."""

    class Picture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.block = nn.Linear(12, 8), Block(Gated())
            self.first, self.pos = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))

        def forward(self, pixels: Tensor) -> Tensor:
            x = torch.cat([self.first.expand(2, -1, -1), self.patches(pixels)], 1)
            return self.block(x + self.pos)

    trace = traced(Picture(), torch.randn(2, 4, 12))
    (found,) = trace.roles("position_embedding")
    assert (found.path, found.name, found.shape) == ("", "pos", (1, 5, 8))
    assert trace[""]["x"].role is None


def test_what_is_added_to_a_stream_without_tokens_is_no_position_if_it_depends_on_the_input() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.other = Block(Gated()), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.block(x + self.other(x.mean(0)))

    assert traced(Sum(), X).roles("position_embedding") == []


class Conditioned(nn.Module):
    """Pictures of a class: it scales what is normalised."""

    def __init__(self, *, is_first: bool) -> None:
        super().__init__()
        self.is_first, self.kind, self.scale = is_first, nn.Embedding(10, 8), nn.Linear(8, 8)
        self.block = Block(Gated())

    def forward(self, x: Tensor, kind: Tensor) -> Tensor:
        label = self.kind(kind)
        x = torch.cat([label.unsqueeze(1), x], 1) if self.is_first else x * self.scale(label).unsqueeze(1)
        return self.block(x)


@pytest.mark.parametrize(("is_first", "count"), [(True, 1), (False, 0)])
def test_a_class_is_a_token_only_where_the_stream_begins_with_it(is_first: bool, count: int) -> None:
    trace = traced(Conditioned(is_first=is_first), X, torch.tensor([3, 7]))
    assert len(trace.roles("token_embedding")) == count
    assert ("V" in trace.sizes) == is_first
    assert len(trace.roles("residual")) == 3


def test_the_one_token_of_a_step_is_one() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.block = nn.Embedding(9, 8), Block(Gated())

        def forward(self, ids: Tensor) -> Tensor:
            return self.block(self.token(ids[:, -1]).unsqueeze(1))

    (found,) = traced(Step(), IDS).roles("token_embedding")
    assert found.shape == (2, 8)
