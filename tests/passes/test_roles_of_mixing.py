"""What mixes tokens, heads, channels or a batch otherwise than attention does by itself."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from tests.passes.parts import HEADS, IDS, SOURCE, Heads, X, counts, kinds, one, said, traced


class ByEinsum(Heads):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Parameter(torch.eye(2)), nn.Parameter(torch.eye(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = torch.einsum("gh,bhts->bgts", self.before, q @ k.mT)
        weights = torch.einsum("bhts,hg->bgts", scores.softmax(-1), self.after)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class ByConvolution(Heads):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = self.before(q @ k.mT)
        weights = self.after(scores.softmax(-1))
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class ByLinear(Heads):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = self.before((q @ k.mT).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        weights = self.after(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("model", [ByEinsum, ByConvolution, ByLinear], ids=lambda model: model.__name__)
def test_heads_may_talk_before_softmax_and_after_it(model: type[nn.Module]) -> None:
    trace = traced(model(), X)
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert {role: one(trace, role).name for role in ("scores", "weights")} == {"scores": "scores", "weights": "weights"}
    assert one(trace, "weights").shape == (2, 2, 4, 4)
    assert kinds(trace) == [f"{model.__name__}: self-attention"]


def test_a_router_after_attention_is_no_map_of_its_heads() -> None:
    class Routed(Heads):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.experts = nn.Linear(8, 3), nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            out = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)
            shares = self.router(out).softmax(-1)
            return (shares.unsqueeze(-2) @ torch.stack([expert(out) for expert in self.experts], -2)).squeeze(-2)

    assert len(traced(Routed(), X).roles("weights")) == 1


def test_one_projection_may_be_queries_and_keys() -> None:
    class Tied(Heads):
        def forward(self, x: Tensor) -> Tensor:
            q, _, v = self.qkv(x)
            return self.out(((q @ q.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))

    trace = traced(Tied(), X)
    assert counts(trace) == {role: 1 for role in HEADS if role != "k"}
    assert kinds(trace) == ["Tied: self-attention"]


class Slots(nn.Module):
    """Softmax gives each row of the source a distribution, over those that attend to it (Locatello et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, slots: Tensor, source: Tensor) -> Tensor:
        q, k, v = self.q(slots), self.k(source), self.v(source)
        weights = (q @ k.mT).softmax(1)
        weights = weights / weights.sum(-1, keepdim=True)
        return weights @ v


class SlotsTurned(Slots):
    def forward(self, slots: Tensor, source: Tensor) -> Tensor:
        q, k, v = self.q(slots), self.k(source), self.v(source)
        weights = torch.einsum("bsd,btd->bst", k, q).softmax(-1).transpose(1, 2)
        return torch.einsum("bsd,bts->btd", v, weights)


class Turned(Slots):
    """Softmax over the source, as always."""

    def forward(self, slots: Tensor, source: Tensor) -> Tensor:
        q, k, v = self.q(slots), self.k(source), self.v(source)
        weights = torch.einsum("bsd,btd->bst", k, q).softmax(1)
        return torch.einsum("bsd,bst->btd", v, weights)


class HeadsLast(Slots):
    def forward(self, slots: Tensor, source: Tensor) -> Tensor:
        q, k, v = (layer.unflatten(-1, (2, 4)) for layer in (self.q(slots), self.k(source), self.v(source)))
        weights = torch.einsum("bthd,bshd->btsh", q, k).softmax(2)
        return torch.einsum("btsh,bshd->bthd", weights, v).flatten(2)


@pytest.mark.parametrize("model", [Slots, SlotsTurned, Turned, HeadsLast])
def test_keys_are_those_that_are_summed_over_with_the_values(model: type[nn.Module]) -> None:
    trace = traced(model(), X, SOURCE)
    assert [one(trace, role).shape[1] for role in "qkv"] == [4, 3, 3]


@pytest.mark.parametrize("model", [Slots, SlotsTurned, Turned])
def test_their_length_is_s_whichever_way_round_the_weights_are(model: type[nn.Module]) -> None:
    assert shapetrace.trace(model(), X, SOURCE).sizes == {"B": 2, "T": 4, "S": 3, "C": 8}


def test_keys_that_one_query_at_a_time_is_multiplied_with_may_stand_before_it() -> None:
    class Step(nn.Module):
        def forward(self, memory: Tensor, state: Tensor) -> Tensor:
            k, q = memory * 2.0, state + 1.0
            weights = torch.bmm(k, q.unsqueeze(2)).squeeze(2).softmax(1)
            return torch.bmm(weights.unsqueeze(1), memory).squeeze(1)

    trace = traced(Step(), SOURCE, X[:, 0])
    assert (one(trace, "q").shape, one(trace, "k").shape) == ((2, 8, 1), (2, 3, 8))


def test_keys_and_values_that_are_learned_may_stand_before_the_others() -> None:
    class Persistent(Heads):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.values = nn.Parameter(torch.randn(2, 3, 4)), nn.Parameter(torch.randn(2, 3, 4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.qkv(x)
            k, v = (torch.cat([own.expand(2, -1, -1, -1), its], 2) for own, its in ((self.keys, k), (self.values, v)))
            return self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))

    trace = traced(Persistent(), X)
    assert counts(trace) == dict.fromkeys(HEADS, 1)
    assert one(trace, "k").shape == (2, 2, 7, 4)
    assert kinds(trace) == ["Persistent: self-attention"]


class Contrast(nn.Module):
    """Which texts of a batch an image is like, and what of theirs it gets: each is one vector."""

    def __init__(self, *, is_mean: bool) -> None:
        super().__init__()
        self.image, self.text, self.is_mean = nn.Linear(8, 4), nn.Linear(8, 4), is_mean

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        image, text = (
            F.normalize(layer(given.mean(1) if self.is_mean else given[:, 0]), dim=-1)
            for layer, given in ((self.image, x), (self.text, y))
        )
        return (image @ text.T / 0.07).softmax(-1) @ text


@pytest.mark.parametrize("is_mean", [True, False])
def test_what_is_similar_in_a_batch_does_not_attend(is_mean: bool) -> None:
    trace = shapetrace.trace(Contrast(is_mean=is_mean), X, SOURCE)
    assert (said(trace), kinds(trace)) == ([], [])
    assert not {"T", "S"} & trace.sizes.keys()


class Mixer(nn.Module):
    """Tokens are mixed by one feed-forward, channels by another; both are 8, and both hidden widths 16."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(9, 8), nn.LayerNorm(8)
        self.of_tokens = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.of_channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        x = x + self.of_tokens(self.norm(x).mT).mT
        return x + self.of_channels(self.norm(x))


def test_a_feed_forward_is_one_of_channels() -> None:
    trace = shapetrace.trace(Mixer(), IDS[:, [0, 1, 2, 3, 0, 1, 2, 3]])
    assert [found.path for found in trace.roles("ffn_hidden")] == ["of_channels"]
    hidden = {path: trace[path]["1"].axes for path in ("of_tokens", "of_channels")}
    assert hidden == {"of_tokens": ("B", "C", 16), "of_channels": ("B", 8, "F")}


def test_keys_whose_heads_are_split_after_a_convolution_are_those_by_heads() -> None:
    class Compressed(Heads):
        def __init__(self) -> None:
            super().__init__()
            self.shorter = nn.Conv1d(8, 8, 2, stride=2)

        def forward(self, x: Tensor) -> Tensor:
            q, _, v = self.qkv(x)
            k = self.split(self.shorter(x.mT).mT)
            weights = torch.einsum("bhtd,bhsd->bhts", q, k).softmax(-1)
            return self.out((weights @ v[:, :, ::2]).transpose(1, 2).flatten(2))

    trace = traced(Compressed(), X)
    assert (one(trace, "k").name, one(trace, "k").shape) == ("k", (2, 2, 2, 4))


def test_what_windows_are_projected_to_is_attn_out_before_they_are_put_together() -> None:
    class Windows(Heads):
        def forward(self, x: Tensor) -> Tensor:
            B, Y, Z, C = x.shape
            tokens = x.view(B, Y // 2, 2, Z // 2, 2, C).transpose(2, 3).reshape(-1, 4, C)
            q, k, v = self.qkv(tokens)
            out = self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
            return out.view(B, Y // 2, Z // 2, 2, 2, C).transpose(2, 3).reshape(x.shape)

    trace = traced(Windows(), torch.randn(2, 4, 6, 8))
    assert (one(trace, "attn_out").name, one(trace, "attn_out").shape) == ("out", (12, 4, 8))


def test_the_projection_is_in_the_form_that_its_own_module_gives_it_whatever_comes_before_and_after() -> None:
    class Axial(nn.Module):
        """Each row of a picture [B, C, h, w] attends, then each column."""

        def __init__(self) -> None:
            super().__init__()
            self.rows, self.columns = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            B, C, h, w = x.shape
            y = x.permute(0, 2, 3, 1).reshape(B * h, w, C)
            y = self.rows(y, y, y)[0].view(B, h, w, C)
            z = y.permute(0, 2, 1, 3).reshape(B * w, h, C)
            return self.columns(z, z, z)[0].view(B, w, h, C).permute(0, 3, 2, 1)

    found = said(traced(Axial(), torch.randn(2, 8, 3, 4)))
    assert [line for line in found if line.endswith(": attn_out")] == [
        "rows.attn_output: attn_out",
        "columns.attn_output: attn_out",
    ]
