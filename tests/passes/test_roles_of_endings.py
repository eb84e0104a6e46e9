"""A projection right behind attention: part of it, or what the model says. Sizes are equal by chance: of all, C."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.passes.parts import IDS, SOURCE, Einsum, X, said, traced


class Bare(nn.Module):
    """Attends with one head, and projects nothing after it."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)


class Ending(nn.Module):
    """Tokens, of 20, that attend; and what `say` makes of that."""

    def __init__(self, say: Callable[[Ending, Tensor], object], attention: nn.Module | None = None) -> None:
        super().__init__()
        self.table, self.attention = nn.Embedding(20, 8), attention or Bare()
        self.head, self.other, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)
        self.moves = nn.Parameter(torch.zeros(8, 8))
        self.say = say

    def forward(self, ids: Tensor) -> object:
        return self.say(self, self.attention(self.table(ids)))


def of_a_field(model: Ending, x: Tensor) -> Tensor:
    """The log-likelihood of all tags of a sentence together."""
    emissions = model.head(x)
    alpha = emissions[:, 0]
    for t in range(1, x.shape[1]):
        alpha = torch.logsumexp(alpha[:, :, None] + model.moves + emissions[:, t, None], 1)
    return torch.logsumexp(alpha, -1).mean()


ENDINGS: dict[str, Callable[[Ending, Tensor], object]] = {
    "tags": lambda model, x: model.head(x),
    "tags of the norm": lambda model, x: model.head(model.norm(x)),
    "classes of the first token": lambda model, x: model.head(x[:, 0]),
    "a mean of values": lambda model, x: model.head(x).mean(1),
    "a reward": lambda model, x: model.head(x)[:, -1],
    "begin and end": lambda model, x: model.head(x).chunk(2, -1),
    "two heads": lambda model, x: (model.head(x), model.other(x)),
    "a hidden layer": lambda model, x: model.other(torch.tanh(model.head(x))),
    "a choice": lambda model, x: model.head(x[:, 0]).flatten(),
    "emissions of a field": of_a_field,
}


@pytest.mark.parametrize("name", ENDINGS)
def test_what_a_model_says_of_what_attended_is_no_projection_of_attention(name: str) -> None:
    assert said(traced(Ending(ENDINGS[name]), IDS)) == [
        "table: token_embedding",
        "> attention.x: x",
        "attention.q: q",
        "attention.k: k",
        "attention.matmul: scores",
        "attention.softmax: weights",
        "attention.v: v",
        "attention: head_output",
    ]


@pytest.mark.parametrize("name", ENDINGS)
def test_the_projection_of_attention_is_one_whatever_the_model_says_of_it(name: str) -> None:
    found = said(traced(Ending(ENDINGS[name], Einsum()), IDS))
    assert [line for line in found if line.endswith(("attn_out", "logits"))] == ["attention.out: attn_out"]


def test_tokens_of_as_many_kinds_as_the_model_is_wide_are_said_where_the_table_is_used_again() -> None:
    def tied(model: Ending, x: Tensor) -> Tensor:
        logits = F.linear(x, model.table.weight)
        return logits

    model = Ending(tied)
    model.table = nn.Embedding(8, 8)
    assert said(traced(model, IDS % 8))[-1] == "logits: logits"


def test_attention_to_attention_has_its_own_queries() -> None:
    found = said(traced(nn.Sequential(Bare(), Bare()), X))
    assert found[-6:-1] == ["1.q: q", "1.k: k", "1.matmul: scores", "1.softmax: weights", "1.v: v"]
    assert "attn_out" not in str(found)


def test_what_an_input_is_embedded_for_is_said_and_not_attended() -> None:
    """No tokens: numbers, as of a series."""
    assert "attn_out" not in str(said(traced(nn.Sequential(nn.Linear(3, 8), Bare(), nn.Linear(8, 8)), SOURCE[..., :3])))


def test_a_projection_in_a_module_of_its_own_is_part_of_what_is_given_what_attends() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.inner, self.out = nn.LayerNorm(8), Bare(), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.inner(self.norm(x)))

    assert said(traced(Attention(), X))[-1] == "out: attn_out"
    model = Ending(ENDINGS["tags"], Attention())
    assert said(traced(model, IDS))[-1] == "attention.out: attn_out"


def test_a_sum_that_the_model_gives_is_the_stream_and_not_what_it_says() -> None:
    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.attention, self.norm = nn.Embedding(8, 8), Einsum(), nn.LayerNorm(8)
            self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids)
            x = self.attention(x) + x
            x = self.down(F.gelu(self.up(self.norm(x)))) + x
            return x

    assert said(traced(Parallel(), IDS % 8))[-2:] == ["down: ffn_out", "x: residual"]
