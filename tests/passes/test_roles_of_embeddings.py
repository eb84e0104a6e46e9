"""Embeddings of tokens, and of positions that the model is given with them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from shapetrace import trace
from tests.passes.parts import IDS, Block, Gated, said


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
