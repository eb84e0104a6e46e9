"""Norms of every kind, and written by hand in every way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.passes.parts import IDS, Block, Gated, Language, X, kinds, said, traced

Norm = Callable[["ByHand", Tensor], Tensor]


class ByHand(nn.Module):
    def __init__(self, norm: Norm) -> None:
        super().__init__()
        self.norm = norm
        self.g, self.b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self, x)


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """x without its mean, and its variance."""
    mean = x.mean(-1, keepdim=True)
    return x - mean, ((x - mean) ** 2).mean(-1, keepdim=True)


def weight_first(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return own.g * centred / torch.sqrt(var + 1e-5) + own.b


def over_deviation(own: ByHand, x: Tensor) -> Tensor:
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return own.g * (x - mean) / (std + 1e-6) + own.b


def weight_last(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return centred / (var + 1e-5).sqrt() * own.g + own.b


def bias_first(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return own.b + own.g * (centred * (var + 1e-5).rsqrt())


def scale_of_weight(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return centred * (own.g * (var + 1e-5) ** -0.5) + own.b


def both_at_once(own: ByHand, x: Tensor) -> Tensor:
    var, mean = torch.var_mean(x, -1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(var + 1e-5) * own.g + own.b


def deviation_at_once(own: ByHand, x: Tensor) -> Tensor:
    std, mean = torch.std_mean(x, -1, keepdim=True)
    return own.g * ((x - mean) / std.clamp(min=1e-6)) + own.b


def without_keepdim(own: ByHand, x: Tensor) -> Tensor:
    mean, var = x.mean(-1), x.var(-1, unbiased=False)
    return own.g * ((x - mean[..., None]) / torch.sqrt(var.unsqueeze(-1) + 1e-5)) + own.b


def in_float(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x.double())
    return (own.g * (centred / (var + 1e-5).sqrt()) + own.b).to(x.dtype)


def step_by_step(own: ByHand, x: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    x = x / x.pow(2).mean(-1, keepdim=True).add(1e-5).sqrt()
    x = x * own.g
    return x + own.b


def from_sums(own: ByHand, x: Tensor) -> Tensor:
    mean = x.sum(-1, keepdim=True) / 8
    var = (x * x).sum(-1, keepdim=True) / 8 - mean**2
    return (x - mean) / torch.sqrt(var + 1e-5) * own.g + own.b


def of_length(own: ByHand, x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1) * 8**0.5 * own.g


def over_length(own: ByHand, x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6) * own.g


def of_root(own: ByHand, x: Tensor) -> Tensor:
    return own.g * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def weight_of_three_dims(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return centred / (var + 1e-5).sqrt() * own.g.view(1, 1, -1) + own.b[None, None]


def of_channels_first(own: ByHand, x: Tensor) -> Tensor:
    x = x.transpose(1, 2)
    mean = x.mean(1, keepdim=True)
    var = (x - mean).pow(2).mean(1, keepdim=True)
    x = own.g[:, None] * ((x - mean) / torch.sqrt(var + 1e-5)) + own.b[:, None]
    return x.transpose(1, 2)


def all_at_once(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x)
    return torch.addcmul(own.b, own.g, centred * torch.rsqrt(var + 1e-5))


def of_halves(own: ByHand, x: Tensor) -> Tensor:
    centred, var = parts(x.unflatten(-1, (2, 4)))
    return own.g * (centred / (var + 1e-5).sqrt()).flatten(2) + own.b


def functional(own: ByHand, x: Tensor) -> Tensor:
    return F.layer_norm(x, (8,), own.g, own.b)


def of_groups(own: ByHand, x: Tensor) -> Tensor:
    return F.group_norm(x.mT, 2, own.g, own.b).mT


def of_batch(own: ByHand, x: Tensor) -> Tensor:
    return F.batch_norm(x.mT, None, None, own.g, own.b, training=True).mT


NORMS: list[Norm] = [
    weight_first,
    over_deviation,
    weight_last,
    bias_first,
    scale_of_weight,
    both_at_once,
    deviation_at_once,
    without_keepdim,
    in_float,
    step_by_step,
    from_sums,
    of_length,
    over_length,
    of_root,
    weight_of_three_dims,
    of_channels_first,
    all_at_once,
    of_halves,
    functional,
    of_groups,
    of_batch,
]


class PreLN(Block):
    def __init__(self, norm: Norm) -> None:
        super().__init__(Gated())
        self.norm_1, self.norm_2 = ByHand(norm), ByHand(norm)


class PostLN(PreLN):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_1(x + self.attention(x))
        x = self.norm_2(x + self.feed_forward(x))
        return x


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_is_one_however_it_is_written_and_over_whatever_dims(norm: Norm) -> None:
    trace = traced(Language(PreLN(norm), PreLN(norm)), IDS)
    assert [line for line in kinds(trace) if line.endswith(" block")] == [
        "blocks.0: pre-LN block",
        "blocks.1: pre-LN block",
    ]
    assert [len(trace.roles(role)) for role in ("norm", "residual", "ffn_hidden", "ffn_out")] == [5, 4, 2, 2]


@pytest.mark.parametrize("norm", NORMS)
def test_so_are_those_of_sums_that_are_the_stream(norm: Norm) -> None:
    trace = traced(Language(PostLN(norm), PostLN(norm)), IDS)
    assert [line for line in kinds(trace) if line.endswith(" block")] == [
        "blocks.0: post-LN block",
        "blocks.1: post-LN block",
    ]
    assert [len(trace.roles(role)) for role in ("norm", "residual", "ffn_hidden", "ffn_out")] == [
        5,
        8,
        2,
        2,
    ]  # 4 are both


def test_the_last_step_of_a_norm_has_its_role_where_the_code_names_it() -> None:
    class Steps(PreLN):
        def forward(self, x: Tensor) -> Tensor:
            normed = self.norm_1(x)
            centred = x - x.mean(-1, keepdim=True)
            normed = self.norm_1.g * centred / (centred.std(-1, keepdim=True) + 1e-6) + self.norm_1.b
            x = x + self.attention(normed)
            return x + self.feed_forward(self.norm_2(x))

    assert [line for line in said(traced(Steps(functional), X)) if "norm" in line] == [
        "normed: norm",
        "normed: norm",
        "norm_2: norm",
    ]


class Quotient(Block):
    """x over a root that is none of its own mean square."""

    def __init__(self, root: Callable[[Tensor], Tensor]) -> None:
        super().__init__(Gated())
        self.root = root

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x / self.root(x))
        return x + self.feed_forward(x)


@pytest.mark.parametrize(
    "root",
    [
        lambda x: x.abs().sqrt() + 1.0,  # each element by itself
        lambda x: torch.rand(2, 4, 1).sqrt() + 1.0,
        lambda x: x.abs().mean(-1, keepdim=True),
        lambda x: 8**0.5,
    ],
)
def test_what_is_divided_by_something_else_is_no_norm(root: Callable[[Tensor], Tensor]) -> None:
    trace = traced(Quotient(root), X)
    assert trace.roles("norm") == []
    assert not any(line.endswith(" block") for line in kinds(trace))


# Where a norm stands


class Placed(PreLN):
    def __init__(self, forward: Callable[[Placed, Tensor], Tensor]) -> None:
        super().__init__(functional)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def pre(own: Placed, x: Tensor) -> Tensor:
    x = x + own.attention(own.norm_1(x))
    return x + own.feed_forward(own.norm_2(x))


def post(own: Placed, x: Tensor) -> Tensor:
    x = own.norm_1(x + own.attention(x))
    return own.norm_2(x + own.feed_forward(x))


def none_before_attention(own: Placed, x: Tensor) -> Tensor:
    x = x + own.attention(x)
    return x + own.feed_forward(own.norm_2(x))


def none_before_the_feed_forward(own: Placed, x: Tensor) -> Tensor:
    x = x + own.attention(own.norm_1(x))
    return x + own.feed_forward(x)


def one_of_each(own: Placed, x: Tensor) -> Tensor:
    x = own.norm_1(x + own.attention(x))
    return x + own.feed_forward(own.norm_2(x))


def none(own: Placed, x: Tensor) -> Tensor:
    x = x + own.attention(x)
    return x + own.feed_forward(x)


def attention_and_its_norm(own: Placed, x: Tensor) -> Tensor:
    return own.norm_1(x + own.attention(x))


def attention_alone(own: Placed, x: Tensor) -> Tensor:
    return x + own.attention(x)


@pytest.mark.parametrize(
    ("forward", "kind"),
    [
        (pre, "pre-LN block"),
        (post, "post-LN block"),
        (none_before_attention, None),
        (none_before_the_feed_forward, None),
        (one_of_each, None),
        (none, None),
        (attention_and_its_norm, "post-LN block"),
        (attention_alone, None),  # the norm behind it is the last of the model
    ],
)
def test_a_block_is_of_a_kind_where_all_its_norms_stand_so(
    forward: Callable[[Placed, Tensor], Tensor], kind: str | None
) -> None:
    found = kinds(traced(Language(Placed(forward)), IDS))
    assert [line for line in found if line.endswith(" block")] == [f"blocks.0: {kind}"] * (kind is not None)
