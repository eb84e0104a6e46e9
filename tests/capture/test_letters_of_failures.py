"""The axes of what went into the call that failed: told by what a mended forward would have made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Trace
from shapetrace.passes.failure import failing

B, T, C, H, V = 2, 6, 32, 4, 50
IDS = torch.arange(B * T).view(B, T)

Step = Callable[..., Tensor]


class Parts(nn.Module):
    """A small Transformer, each step of which may be another: they are attributes, and a test says which."""

    def __init__(self, **others: Any) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(V, C), nn.Embedding(64, C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V)
        for name, other in others.items():
            setattr(self, name, other)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], H, C // H).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)

    def masked(self, scores: Tensor) -> Tensor:
        T = scores.shape[-1]
        return scores.masked_fill(torch.ones(T, T).tril() == 0, float("-inf"))

    def applied(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def joined(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def added(self, x: Tensor, branch: Tensor) -> Tensor:
        return x + branch

    def embedded(self, ids: Tensor) -> Tensor:
        return self.token(ids) + self.position(torch.arange(ids.shape[1]))

    def attention(self, x: Tensor) -> Tensor:
        q, k, v = map(self.split, self.qkv(self.norm(x)).chunk(3, -1))
        weights = self.masked(self.scores(q, k)).softmax(-1)
        return self.proj(self.joined(self.applied(weights, v)))

    def said(self, x: Tensor, ids: Tensor) -> Tensor:
        return self.head(self.norm(x))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedded(ids)
        x = self.added(x, self.attention(x))
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.said(x, ids)


class Blocks(nn.Module):
    """torch's own layers, behind an embedding."""

    def __init__(self, *, batch_first: bool, **masks: Tensor) -> None:
        super().__init__()
        self.token, self.masks = nn.Embedding(V, C), masks
        layer = nn.TransformerEncoderLayer(C, H, 64, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.encoder(self.token(ids), **self.masks)


def axes(model: nn.Module, *args: Any) -> list[str]:
    """Of each tensor of the call that failed."""
    trace = failed(model, *args)
    index = failing(trace)
    assert index is not None
    inputs = trace.calls[index].inputs.values()
    return [" ".join(map(str, tensor.axes or tensor.shape)) for tensor in inputs]


def failed(model: nn.Module, *args: Any) -> Trace:
    with pytest.raises(Exception) as raised:
        shapetrace.trace(model, *args)
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    return trace


def past_the_end(ids: Tensor) -> Tensor:
    return ids + V


MISTAKES: dict[str, tuple[Callable[[], nn.Module], Any, list[str]]] = {
    "a view of what is not contiguous": (
        lambda: Parts(joined=lambda y: y.transpose(1, 2).view(len(y), -1, C)), IDS, ["B T H D"],
    ),
    "a view into another number of heads": (
        lambda: Parts(split=lambda x: x.view(*x.shape[:2], H + 1, C // H).transpose(1, 2)), IDS, ["B T C"],
    ),
    "keys that are not turned": (lambda: Parts(scores=lambda q, k: q @ k), IDS, ["B H T D", "B H T D"]),
    "keys turned the wrong way": (
        lambda: Parts(scores=lambda q, k: q @ k.transpose(1, 2)), IDS, ["B H T D", "B T H D"],
    ),
    "fewer heads of keys": (
        lambda: Parts(scores=lambda q, k: q @ k[:, :2].transpose(-2, -1)), IDS, ["B H T D", "B 2 D T"],
    ),
    "values that are not turned": (
        lambda: Parts(applied=lambda weights, v: weights @ v.transpose(1, 2)), IDS, ["B H T T", "B T H D"],
    ),
    "a mask that is too short": (
        lambda: Parts(masked=lambda scores: scores.masked_fill(torch.ones(5, 5) == 0, 0.0)), IDS, ["B H T T", "5 5"],
    ),
    "a mask of padding that is not widened": (
        lambda: Parts(masked=lambda scores: scores + torch.zeros(scores.shape[0], scores.shape[-1])),
        IDS,
        ["B H T T", "B T"],
    ),
    "a mask of floats": (
        lambda: Parts(masked=lambda scores: scores.masked_fill(torch.ones(scores.shape[-2:]).tril(), 0.0)),
        IDS,
        ["B H T T", "T T"],
    ),
    "heads that are not joined": (
        lambda: Parts(joined=lambda y: y.transpose(1, 2)), IDS, ["B T H D", "C 32", "C"],
    ),
    "another width in between": (lambda: Parts(down=nn.Linear(2 * C, C)), IDS, ["B T F", "C 64", "C"]),
    "a norm of another width": (lambda: Parts(norm=nn.LayerNorm(C // 2)), IDS, ["B T C", "16", "16"]),
    "a branch that is batch second": (
        lambda: Parts(added=lambda x, branch: x + branch.transpose(0, 1)), IDS, ["B T C", "T B C"],
    ),
    "positions of another width": (lambda: Parts(position=nn.Embedding(64, C // 2)), IDS, ["B T C", "T 16"]),
    "positions past the table": (lambda: Parts(position=nn.Embedding(4, C)), IDS, ["T", "4 C"]),
    "ids past the table": (lambda: Parts(), past_the_end(IDS), ["B T", "V C"]),
    "ids that are floats": (lambda: Parts(), IDS.float(), ["B T", "V C"]),
    "a class token that is not widened": (
        lambda: Parts(said=lambda x, ids: torch.cat([torch.zeros(1, 1, C), x], 1)), IDS, ["1 1 C", "B T C"],
    ),
    "cat of what is turned": (
        lambda: Parts(said=lambda x, ids: torch.cat([x, x.transpose(1, 2)], -1)), IDS, ["B T C", "B C T"],
    ),
    "another dtype": (lambda: Parts(head=nn.Linear(C, V).double()), IDS, ["B T C", "V C", "V"]),
    "labels that are shifted": (
        lambda: Parts(said=lambda x, ids: F.cross_entropy((x @ torch.ones(C, V)).flatten(0, 1), ids[:, 1:].flatten())),
        IDS,
        ["B·T V", "B·(T-1)"],
    ),
    "a mask of padding where the batch comes second": (
        lambda: Blocks(batch_first=False, src_key_padding_mask=IDS == 0),
        IDS,
        ["B T C", "B T C", "B T C", "96 C", "96", "C 32", "32", "2 6"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_what_went_into_the_call_that_failed_has_its_letters(name: str) -> None:
    model, given, expected = MISTAKES[name]
    assert axes(model(), given) == expected


def test_a_failure_stays_one_and_the_letters_of_what_was_not_reached_are_none_of_it() -> None:
    trace = failed(Parts(joined=lambda y: y.transpose(1, 2).view(len(y), -1, C)), IDS)
    assert trace.calls[-1].error == trace.error is not None
    assert trace.sizes == {"B": 2, "T": 6, "C": 32, "H": 4, "D": 8, "V": 50}  # the 4·C behind it are not reached


def test_what_may_have_been_meant_in_two_ways_is_not_mended() -> None:
    """[B, T, 32] as [B, T, 4, 16] or as [B, T, 16, 4]: nothing tells."""
    trace = failed(Parts(embedded=lambda ids: torch.zeros(B, T, 32).view(B, T, 8, 8)), IDS)
    assert [call.name for call in trace.calls if call.error] == ["Parts", "view"]
    assert trace.sizes == {}


def test_where_sizes_are_equal_by_chance_what_failed_joins_no_axes() -> None:
    """Four tokens and four heads: keys that are turned the wrong way have T where queries have H."""
    assert axes(Parts(scores=lambda q, k: q @ k.transpose(1, 2)), IDS[:, :H]) == ["B H T D", "B T H D"]
    wide = Parts(joined=lambda y: y.reshape(len(y), -1, C + 1))
    assert axes(wide, IDS[:, :H]) == ["B H T D"]


def test_a_failure_of_the_code_between_calls_is_not_mended() -> None:
    def said(x: Tensor, ids: Tensor) -> Tensor:
        raise ValueError("too long")

    trace = failed(Parts(said=said), IDS)
    assert (trace.error, trace.sizes["C"], trace.sizes["H"]) == ("ValueError: too long", 32, 4)


def test_the_model_and_random_numbers_are_as_they_were() -> None:
    model = Parts(down=nn.Linear(2 * C, C))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    failed(model, IDS)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert not [module for module in model.modules() if "forward" in vars(module)]
