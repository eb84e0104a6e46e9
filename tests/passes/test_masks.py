"""Attention is called causal where its mask is, however that was made."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.roles.masks import last_seen
from shapetrace.schema import Trace
from tests.passes.parts import Heads, kinds

X = torch.randn(2, 6, 8)
PADDING = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


class Masked(Heads):
    """`mask` gives what enters softmax: of scores [B, H, T, T], their length, a padding, and the model."""

    def __init__(self, mask: Callable[[Tensor, int, Tensor, Masked], Tensor]) -> None:
        super().__init__()
        self.mask = mask
        self.triangle: Tensor
        self.band: Tensor
        self.register_buffer("triangle", torch.ones(1, 1, 9, 9).tril())
        self.register_buffer("band", torch.ones(9, 9).tril(1).triu(-1).bool())
        self.sink = nn.Parameter(torch.zeros(1, self.H, 1, 1))

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        weights = self.mask(q @ k.mT / 2, x.shape[1], padding, self).softmax(-1)
        return self.out((weights[..., : x.shape[1]] @ v).transpose(1, 2).flatten(2))


def sees(T: int) -> Tensor:
    return torch.ones(T, T).tril().bool()


def behind(T: int) -> Tensor:
    """How far a key lies behind its query."""
    places = torch.arange(T)
    return places[:, None] - places[None]


def with_prefix(T: int) -> Tensor:
    mask = sees(T)
    mask[:, :3] = True
    return mask


CAUSAL: dict[str, Callable[[Tensor, int, Tensor, Masked], Tensor]] = {
    "masked_fill": lambda s, T, *_: s.masked_fill(torch.ones(T, T).triu(1).bool(), -1e9),
    "in place": lambda s, T, *_: s.masked_fill_(torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1), -math.inf),
    "where": lambda s, T, *_: torch.where(sees(T), s, -math.inf),
    "where of the scores": lambda s, T, *_: s.where(sees(T), torch.tensor(-1e4)),
    "added": lambda s, T, *_: s + torch.triu(torch.full((T, T), -math.inf), 1),
    "one less the mask": lambda s, T, *_: s + (1.0 - sees(T).float()) * torch.finfo(torch.float32).min,
    "multiplied": lambda s, T, _, model: s * model.triangle[0, 0, :T, :T] - 1e4 * (1 - model.triangle[0, 0, :T, :T]),
    "a buffer": lambda s, T, _, model: s.masked_fill(model.triangle[:, :, :T, :T] == 0, -math.inf),
    "distances": lambda s, T, *_: s.masked_fill(behind(T) < 0, -1e9),
    "ALiBi": lambda s, T, *_: s + torch.where(behind(T) >= 0, behind(T) * -0.5, -1e9),
    "a window": lambda s, T, *_: s.masked_fill(~((behind(T) >= 0) & (behind(T) < 3)), -1e9),
    "chunks": lambda s, T, *_: s.masked_fill(
        (behind(T) < 0) | (torch.arange(T)[:, None] // 3 != torch.arange(T) // 3), -1e9
    ),
    "dilated": lambda s, T, *_: s.masked_fill((behind(T) < 0) | (behind(T) % 2 != 0), -1e9),
    "and padding": lambda s, T, padding, _: s.masked_fill(~(sees(T) & (padding > 0)[:, None, None]), -1e9),
    "and a sink": lambda s, T, _, model: torch.cat(
        [s.masked_fill(~sees(T), -1e9), model.sink.expand(*s.shape[:3], 1)], -1
    ),
    "row by row": lambda s, T, *_: torch.stack(
        [torch.cat([s[:, :, i, : i + 1], s.new_full((2, 2, T - i - 1), -1e9)], -1) for i in range(T)], 2
    ),
}

OTHERS: dict[str, Callable[[Tensor, int, Tensor, Masked], Tensor]] = {
    "none": lambda s, *_: s,
    "padding": lambda s, T, padding, _: s.masked_fill((padding == 0)[:, None, None], -1e9),
    "a prefix": lambda s, T, *_: s.masked_fill(~with_prefix(T), -1e9),
    "a prefix by its length": lambda s, T, padding, _: s.masked_fill(
        ~(sees(T) | (torch.arange(T) < padding.sum(1)[:, None])[:, None, None]), -1e9
    ),
    "the other way round": lambda s, T, *_: s.masked_fill(~sees(T).T, -1e9),
    "flipped": lambda s, T, *_: s.masked_fill(~sees(T).flip(0), -1e9),
    "a triangle that is whole": lambda s, T, *_: s.masked_fill(~torch.ones(T, T).tril(T).bool(), -1e9),
    "a band": lambda s, T, *_: s.masked_fill(torch.ones(T, T).tril(1).triu(-1) == 0, -1e9),
    "a band that is a buffer": lambda s, T, _, model: s.masked_fill(~model.band[:T, :T], -1e9),
    "itself alone": lambda s, T, *_: s.masked_fill(~torch.eye(T).bool(), -1e9),
    "chunks that see themselves": lambda s, T, *_: s.masked_fill(
        torch.arange(T)[:, None] // 3 < torch.arange(T) // 3, -1e9
    ),
    "of some heads": lambda s, T, *_: torch.cat([s[:, :1].masked_fill(~sees(T), -1e9), s[:, 1:]], 1),
    "hardly": lambda s, T, *_: s - torch.ones(T, T).triu(1) * 5,
    "undone": lambda s, T, *_: torch.tanh(s.masked_fill(~sees(T), -1e9)),
    "distances that are symmetric": lambda s, T, *_: s - behind(T).abs() * 2000,
    "with keys that all see": lambda s, T, *_: torch.cat([s.masked_fill(~sees(T), -1e9), s], -1),
}


def renormalised(weights: Tensor) -> Tensor:
    return weights / (weights.sum(-1, keepdim=True) + 1e-9)


AFTER: dict[str, tuple[Callable[[Tensor, int], Tensor], str]] = {
    "by a product": (lambda w, T: renormalised(w * sees(T)), "causal "),
    "filled with 0": (lambda w, T: renormalised(w.masked_fill(~sees(T), 0)), "causal "),
    "tril": (lambda w, T: renormalised(w.tril()), "causal "),
    "the other way round": (lambda w, T: renormalised(w * sees(T).T), ""),
    "one ahead": (lambda w, T: renormalised(w.tril(1)), ""),
    "not renormalised": (lambda w, T: w * sees(T), ""),  # of what comes later it still depends how much is left
}


def watched(model: nn.Module, *inputs: Tensor, **keywords: object) -> Trace:
    """Nothing runs again for it: roles are there in a training loop, too."""
    found: list[Trace] = []
    handle = shapetrace.attach(model, on_trace=found.append)
    model(*inputs, **keywords)
    handle.detach()
    return found[0]


@pytest.mark.parametrize("name", CAUSAL)
def test_a_mask_that_hides_what_comes_later_is_causal(name: str) -> None:
    assert kinds(watched(Masked(CAUSAL[name]), X, PADDING)) == ["Masked: causal self-attention"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_mask_that_lets_see_ahead_is_none(name: str) -> None:
    assert kinds(watched(Masked(OTHERS[name]), X, PADDING)) == ["Masked: self-attention"]


@pytest.mark.parametrize("name", AFTER)
def test_weights_may_be_masked_if_they_add_up_to_1_again(name: str) -> None:
    mask, kind = AFTER[name]

    class After(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            weights = mask((q @ k.mT).softmax(-1), x.shape[1])
            return self.out((weights @ v).transpose(1, 2).flatten(2))

    assert kinds(watched(After(), X)) == [f"After: {kind}self-attention"]


def test_a_long_mask_is_looked_at_in_places() -> None:
    long, padding = torch.randn(1, 70, 8), torch.ones(1, 70)
    for name in ("distances", "dilated"):
        assert kinds(watched(Masked(CAUSAL[name]), long, padding)) == ["Masked: causal self-attention"]
    assert kinds(watched(Masked(OTHERS["a prefix"]), long, padding)) == ["Masked: self-attention"]


class Fused(Heads):
    """With `past` keys before those of the queries, and `later` after them."""

    def __init__(self, mask: Callable[[int, int], Tensor | None], past: int = 0, later: int = 0) -> None:
        super().__init__()
        self.mask, self.past, self.later = mask, past, later

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k, v = (F.pad(heads, (0, 0, self.past, self.later)) for heads in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(q.shape[2], k.shape[2]))
        return self.out(out.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("model", "is_causal"),
    [
        (Fused(lambda T, S: torch.ones(T, S).tril(S - T).bool(), past=3), True),
        (Fused(lambda T, S: torch.full((T, S), -math.inf).triu(S - T + 1), past=3), True),
        (Fused(lambda T, S: torch.arange(S)[None] <= torch.arange(2, T + 2)[:, None], past=2, later=5), True),
        (Fused(lambda T, S: torch.ones(T, S).tril(1).triu(-1) > 0), False),
        (Fused(lambda T, S: (torch.arange(S) - torch.arange(T)[:, None] - 6).abs() < 6, past=6, later=6), False),
        (Fused(lambda T, S: None), False),
    ],
)  # fmt: skip
def test_of_more_keys_than_queries_the_first_may_be_a_past(model: nn.Module, is_causal: bool) -> None:
    assert kinds(watched(model, X)) == [f"Fused: {'causal ' * is_causal}self-attention"]


def test_a_mask_that_the_model_was_given_is_looked_at() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    for given, kind in ((mask, "causal self-attention"), (mask.T.contiguous(), "self-attention")):
        trace = shapetrace.trace(model, X, X, X, attn_mask=given)
        assert kinds(trace) == [f"MultiheadAttention: {kind}"]


def test_padding_that_the_model_was_given_takes_nothing_away() -> None:
    added = (1.0 - PADDING.float())[:, None, None] * -1e9
    padded = torch.full((6, 6), -torch.inf).triu(1) + added
    for given in (added, padded):
        model = Masked(lambda s, T, given, model: s.masked_fill(~sees(T), -1e9) + given)
        assert kinds(shapetrace.trace(model, X, given)) == ["Masked: causal self-attention"]
    model = Masked(lambda s, T, given, model: s + given)
    assert kinds(shapetrace.trace(model, X, padded)) == ["Masked: causal self-attention"]
    assert kinds(shapetrace.trace(model, X, added)) == ["Masked: self-attention"]


def test_what_a_block_makes_before_the_model_is_data_that_the_model_is_given() -> None:
    model = Masked(CAUSAL["where"])
    with shapetrace.attach(model) as tap:
        x = torch.randn(2, 6, 8)
        model(x, torch.ones(2, 6))
    assert kinds(tap.traces[0]) == ["Masked: causal self-attention"]


def test_a_model_without_weights_has_no_buffers_to_look_at_but_masks_that_it_makes() -> None:
    for name, kind in (("distances", "causal self-attention"), ("a buffer", "self-attention")):
        with torch.device("meta"):
            model = Masked(CAUSAL[name])
        assert kinds(shapetrace.trace(model, X, PADDING)) == [f"Masked: {kind}"]


@pytest.mark.parametrize("seen", [-1, 0, 17, 2**20, 2**40 - 1])
def test_of_many_keys_few_are_looked_at(seen: int) -> None:
    looked: list[int] = []

    def hides(query: int, key: int) -> bool:
        looked.append(key)
        return key > seen

    assert last_seen(hides, 2**40) == seen
    assert len(looked) < 150
