"""B is the batch and T a length, whichever way round a model is given them; else neither is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace


class Model(nn.Module):
    """`forward` of whatever is given, with modules to be used in it."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *args: Any) -> Any:
        return self.function(*self.parts, *args)


def axes(model: nn.Module, *args: Any) -> list[tuple[str | int, ...]]:
    """Of each tensor that the model is given."""
    call = shapetrace.trace(model, *args).calls[0]
    return [tensor.axes or tensor.shape for tensor in call.inputs.values()]


def ids(*shape: int) -> Tensor:
    return torch.randint(9, shape)


def embedded(function: Callable[..., Any], *parts: nn.Module) -> Model:
    return Model(function, nn.Embedding(9, 8), *parts)


def weighted(history: Tensor, one: Tensor) -> Tensor:
    """The weights of each history are [B, T]."""
    weights = torch.einsum("btd,bd->bt", history, one).softmax(-1)
    return torch.einsum("bt,btd->bd", weights, history)


def one_attends(table: nn.Module, history: Tensor, one: Tensor) -> Tensor:
    return weighted(table(history), table(one))


def batch_second(q: nn.Module, x: Tensor, *memory: Tensor) -> Tensor:
    """Weights [T, T, B, H], or with what is kept of before [T, P+T, B, H]."""
    q, k = (q(row).unflatten(-1, (2, 4)) for row in (x, torch.cat([*memory, x])))
    weights = torch.einsum("ibnd,jbnd->ijbn", q, k).softmax(1)
    return torch.einsum("ijbn,jbnd->ibnd", weights, k).flatten(2)


def masked(q: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    return (q(x) @ x.mT + mask).softmax(-1) @ x


def crossed(x: Tensor, source: Tensor) -> Tensor:
    return (x @ source.mT).softmax(-1) @ source


def fused(w: nn.Module, *rows: Tensor) -> Tensor:
    """Four dims go another way through torch than three."""
    q, k, v = (w(row).unflatten(-1, (2, 4)).transpose(1, 2) for row in rows)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


X = torch.zeros(4, 2, 8)
"""Four of something, two of something else, of width 8."""

CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], list[tuple[str | int, ...]]]] = {
    "attention, batch first": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (X, X, X), [("B", "T", "C")] * 3),
    "attention, batch second": (lambda: nn.MultiheadAttention(8, 2), (X, X, X), [("T", "B", "C")] * 3),
    "attention, a batch of one second": (
        lambda: nn.MultiheadAttention(8, 2),
        (torch.zeros(5, 1, 8),) * 3,
        [("T", "B", "C")] * 3,
    ),
    "attention, no batch": (lambda: nn.MultiheadAttention(8, 2), (X[:, 0].clone(),) * 3, [("T", "C")] * 3),
    "attention, as many sequences as words": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        (torch.zeros(4, 4, 8),) * 3,
        [("B", "T", "C")] * 3,
    ),
    "attention to another source of the same length": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        (torch.zeros(2, 4, 8), *[torch.zeros(2, 4, 8)] * 2),
        [("B", "T", "C"), ("B", "S", "C"), ("B", "S", "C")],
    ),
    "encoder and decoder, equal lengths": (
        lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        (torch.zeros(2, 4, 8), torch.zeros(2, 4, 8)),
        [("B", "S", "C"), ("B", "T", "C")],
    ),
    "attention along each of two axes": (
        lambda: Model(
            lambda a, b, x: b(*[a(x, x, x)[0]] * 3)[0],
            nn.MultiheadAttention(8, 2, batch_first=True),
            nn.MultiheadAttention(8, 2),
        ),
        (X,),
        [(4, 2, "C")],
    ),
    "attention in windows, batch second": (
        lambda: Model(
            lambda a, x: a(*[x.transpose(0, 1).reshape(-1, 2, 8)] * 3)[0], nn.MultiheadAttention(8, 2, batch_first=True)
        ),
        (X,),
        [(4, 2, 8)],
    ),
    "recurrent, batch second": (lambda: nn.LSTM(8, 8), (X,), [("T", "B", 8)]),
    "recurrent, batch first": (lambda: nn.GRU(8, 8, batch_first=True), (X,), [("B", "T", 8)]),
    "recurrent, ids, batch second": (
        lambda: embedded(lambda e, r, x: r(e(x))[0], nn.RNN(8, 8)),
        (ids(4, 2),),
        [("T", "B")],
    ),
    "ids": (lambda: nn.Embedding(9, 8), (ids(2, 4),), [("B", "T")]),
    "ids, as many sequences as words": (lambda: nn.Embedding(9, 8), (ids(4, 4),), [("B", "T")]),
    "ids of bags": (lambda: nn.EmbeddingBag(9, 8), (ids(2, 4),), [("B", "T")]),
    "ids, summed over the first axis": (lambda: embedded(lambda e, x: e(x).sum(0)), (ids(4, 2),), [("T", "B")]),
    "ids, summed over the second axis": (lambda: embedded(lambda e, x: e(x).sum(1)), (ids(2, 4),), [("B", "T")]),
    "ids without a batch": (lambda: nn.Embedding(9, 8), (ids(4),), [(4,)]),
    "integers that are not looked up": (lambda: Model(lambda x: x @ x.T), (ids(2, 4),), [(2, 4)]),
    "features": (lambda: nn.Linear(8, 8), (torch.zeros(2, 8),), [("B", 8)]),
    "vectors, batch or length first": (lambda: nn.Linear(8, 8), (X,), [(4, 2, 8)]),
    "images": (lambda: nn.Conv2d(3, 8, 3), (torch.zeros(2, 3, 8, 8),), [("B", 3, 8, 8)]),
    "an image without a batch": (lambda: nn.Conv2d(3, 8, 3), (torch.zeros(3, 8, 8),), [(3, 8, 8)]),
    "sound": (lambda: nn.Conv1d(3, 8, 3), (torch.zeros(2, 3, 16),), [("B", 3, 16)]),
    "ids of which neighbours are joined": (
        lambda: embedded(lambda e, c, x: c(e(x).permute(1, 2, 0)), nn.Conv1d(8, 8, 1)),
        (ids(4, 2),),
        [("T", "B")],
    ),
    "a board of ids": (
        lambda: embedded(lambda e, c, x: c(e(x).permute(2, 0, 1)[None]), nn.Conv2d(8, 8, 3)),
        (ids(8, 8),),
        [(8, 8)],
    ),
    "ids and a mask of floats": (
        lambda: embedded(lambda e, x, mask: (e(x) @ e(x).mT + mask[:, 0]).relu()),
        (ids(2, 4), torch.ones(2, 1, 4, 4)),
        [("B", "T"), ("B", 1, "T", "T")],
    ),
    "a history of ids that one id attends to": (
        lambda: embedded(one_attends),
        (ids(3, 5), ids(3)),
        [("B", "T"), ("B",)],
    ),
    "a history of vectors that one vector attends to": (
        lambda: Model(lambda h, x: weighted(h, x)),
        (torch.zeros(3, 5, 8), torch.zeros(3, 8)),
        [(3, 5, 8), (3, 8)],
    ),
    "attention of batches that come second": (lambda: Model(batch_second, nn.Linear(8, 8)), (X,), [("T", "B", "C")]),
    "ids that come length first, as their attention tells": (
        lambda: embedded(lambda e, q, x: batch_second(q, e(x)), nn.Linear(8, 8)),
        (ids(4, 2),),
        [("T", "B")],
    ),
    "batches that come second, and as long a past": (
        lambda: Model(batch_second, nn.Linear(8, 8)),
        (X, X.clone()),
        [("T", "B", "C"), ("P", "B", "C")],
    ),
    "a source of the same length, without a projection": (
        lambda: Model(crossed),
        (torch.zeros(2, 4, 8), torch.zeros(2, 4, 8)),
        [("B", "T", 8), ("B", "S", 8)],
    ),
    "a source as long as the batch is large": (
        lambda: Model(F.scaled_dot_product_attention),
        (torch.zeros(4, 4, 8), *[torch.zeros(4, 4, 8)] * 2),
        [("B", "T", 8), ("B", "S", 8), ("B", "S", 8)],
    ),
    "a source of the same length, in heads": (
        lambda: Model(fused, nn.Linear(8, 8)),
        (torch.zeros(2, 4, 8), *[torch.zeros(2, 4, 8)] * 2),
        [("B", "T", "C"), ("B", "S", "C"), ("B", "S", "C")],
    ),
    "a source of the same length, given before and after": (
        lambda: Model(lambda w, v, q, k: fused(w, q, k, v), nn.Linear(8, 8)),
        (SOURCE := torch.zeros(2, 4, 8), torch.zeros(2, 4, 8), SOURCE),
        [("B", "S", "C"), ("B", "T", "C"), ("B", "S", "C")],
    ),
    "ids that look each other up, of the same length": (
        lambda: embedded(lambda e, x, y: crossed(e(x), e(y))),
        (ids(2, 4), ids(2, 4)),
        [("B", "T"), ("B", "S")],
    ),
    "two sequences one after the other, of the same length": (
        lambda: embedded(lambda e, x, y: torch.cat([e(x), e(y)], 1)),
        (ids(2, 4), ids(2, 4)),
        [("B", 4), ("B", 4)],
    ),
    "pairs, each of two sequences alone": (
        lambda: embedded(lambda e, x, y: e(x).mean(1) @ e(y).mean(1).T),
        (ids(2, 4), ids(2, 4)),
        [("B", 4), ("B", 4)],
    ),
    "a mask of floats, as long as the batch is large": (
        lambda: Model(masked, nn.Linear(8, 8)),
        (torch.zeros(4, 4, 8), torch.zeros(4, 4)),
        [("B", "T", 8), ("T", "T")],
    ),
    "ids and a mask of floats for each": (
        lambda: embedded(lambda e, x, mask: e(x) * mask[..., None]),
        (ids(2, 4), torch.ones(2, 4)),
        [("B", "T"), ("B", "T")],
    ),
    "one number": (lambda: Model(lambda x: x + 1), (torch.zeros(()),), [()]),
}  # fmt: skip


@pytest.mark.parametrize(("make", "args", "expected"), CASES.values(), ids=CASES)
def test_batch_and_length_are_told_by_what_is_done_with_them(
    make: Callable[[], nn.Module], args: tuple[Any, ...], expected: list[tuple[str | int, ...]]
) -> None:
    assert axes(make().eval(), *args) == expected


def test_what_is_given_twice_is_two_lengths_where_one_attends_to_the_other() -> None:
    x = torch.zeros(2, 4, 8)
    assert axes(nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(), x, x) == [("B", "S", "C"), ("B", "T", "C")]


def test_where_nothing_tells_the_header_says_which_axes_and_what_would_help() -> None:
    trace = shapetrace.trace(nn.Linear(8, 8), X)
    assert trace.notes == (
        "axes: nothing tells which of the input's axes (4, 2) is which; axes='B=4 T=2' or axes='B=2 T=4' says so",
    )  # fmt: skip
    assert shapetrace.trace(nn.Linear(8, 8), X, axes="B=2 T=4").calls[0].inputs["input"].axes == ("T", "B", 8)


def test_only_what_is_left_is_in_the_note() -> None:
    trace = shapetrace.trace(nn.Linear(8, 8), X, axes="B=2")
    assert trace.notes == ("axes: nothing tells which of the input's axes (4) is which; axes='B=2 T=4' says so",)
    assert trace.sizes == {"B": 2}


def test_the_past_is_what_keys_have_beside_the_length() -> None:
    def forward(x: Tensor, past: dict[str, Tensor]) -> Tensor:
        q = x.unflatten(-1, (2, 4)).transpose(1, 2)
        k = torch.cat([past["k"], q], dim=2)
        return F.softmax(q @ k.mT, -1) @ torch.cat([past["v"], q], dim=2)

    past = {"k": torch.zeros(2, 2, 5, 4), "v": torch.zeros(2, 2, 5, 4)}
    trace = shapetrace.trace(Model(forward), torch.zeros(2, 3, 8), past)
    assert [tensor.axes for tensor in trace.calls[0].inputs.values()] == [
        ("B", "T", "H·D"),
        ("B", "H", "P", "D"),
        ("B", "H", "P", "D"),
    ]
    assert [record.axes for record in trace.roles("weights")] == [("B", "H", "T", "P+T")]
    assert trace.sizes == {"B": 2, "T": 3, "H": 2, "D": 4, "P": 5}


class Recording(nn.Module):
    """An encoder of sound, of which every second frame is left, and a decoder of ids that attends to these."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.table = nn.Conv1d(8, 8, 3, padding=1), nn.Embedding(9, 8)
        self.own, self.crossed = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

    def forward(self, sound: Tensor, ids: Tensor) -> Tensor:
        frames = self.conv(sound.mT).mT
        frames = (frames + self.own(frames, frames, frames)[0])[:, ::2]
        x = self.table(ids)
        return x + self.crossed(x, frames, frames)[0]


def test_of_sound_and_ids_the_ids_are_t_and_what_they_attend_to_is_s() -> None:
    assert axes(Recording(), torch.zeros(2, 6, 8), ids(2, 5)) == [("B", "S", 8), ("B", "T")]


def test_a_cache_of_several_arguments_has_a_past_also_where_heads_are_as_many_as_tokens() -> None:
    def attend(x: Tensor, keys: Tensor, values: Tensor, query: nn.Module) -> Tensor:
        q = query(x).unflatten(-1, (2, 4)).transpose(1, 2)
        k, v = (torch.cat([past, q], 2) for past in (keys, values))
        return (q @ k.mT).softmax(-1) @ v

    model = embedded(lambda table, query, ids, k, v: attend(table(ids), k, v, query), nn.Linear(8, 8))
    past = torch.zeros(3, 2, 5, 4)
    assert axes(model, ids(3, 2), past, past.clone()) == [("B", "T"), ("B", "H", "P", "D"), ("B", "H", "P", "D")]
