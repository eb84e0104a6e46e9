"""Dims that are joined are equally long at any size: told from one run, checked against another at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.widths.dims import Dims
from shapetrace.passes.widths.joined import Joined
from shapetrace.passes.widths.words import Word
from shapetrace.schema import Trace

APART = {"b": 2, "t": 3, "c": 8, "d": 5, "h": 4, "e": 7}
OTHERS = {"b": 3, "t": 5, "c": 24, "d": 11, "h": 6, "e": 13}
ALIKE = dict.fromkeys(APART, 4)

Sizes = dict[str, int]


class Applied(nn.Module):
    def __init__(self, function: Callable[..., Any], sizes: Sizes) -> None:
        super().__init__()
        self.function = function
        self.sizes = sizes

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, **({"n": self.sizes} if "n" in self.function.__code__.co_varnames else {}))


def run(function: Callable[..., Any], inputs: str, sizes: Sizes) -> Trace:
    tensors = [torch.rand([sizes[letter] for letter in term.split()]) for term in inputs.split(",")]
    return shapetrace.trace(Applied(function, sizes), *tensors, axes=False)


def told(trace: Trace, inputs: str) -> str:
    """The dims of the results by the letters of the inputs that they are joined with; "_" for others."""
    joined = Joined(trace)
    root = joined.dims.root
    names: dict[int, str] = {}
    for tensor, term in zip(trace.calls[0].inputs.values(), inputs.split(","), strict=True):
        for dim, letter in zip(joined.dims.of(tensor), term.split(), strict=True):
            names.setdefault(root(dim), letter)
    outputs = trace.calls[0].outputs.values()
    return ", ".join(" ".join(names.get(root(dim), "_") for dim in joined.dims.of(tensor)) for tensor in outputs)


def check(trace: Trace, other: Trace) -> None:
    joined = Joined(trace)
    sizes: dict[int, int] = {}
    for call, again in zip(trace.calls, other.calls, strict=True):
        for place in ("inputs", "outputs"):
            for key, tensor in getattr(call, place).items():
                for dim, size in zip(joined.dims.of(tensor), getattr(again, place)[key].shape, strict=True):
                    assert sizes.setdefault(joined.dims.root(dim), size) == size, (call.name, key)


ANY_SIZE: list[tuple[Callable[..., Any], str, str]] = [
    (lambda x, y: x + y, "b t c,c", "b t c"),
    (lambda x, y: x * y[:, None], "b t c,b c", "b t c"),
    (lambda x, y: x.masked_fill(y > 0, 0.0), "b t t,t t", "b t t"),
    (lambda x: x.relu().float().contiguous().clone(), "b t c", "b t c"),
    (lambda x, y: x.type_as(y), "b t,t b", "b t"),
    (lambda x, y: x.copy_(y), "b t,t", "b t"),
    (lambda x: x.softmax(-1).cumsum(1).flip(0), "b t c", "b t c"),
    (lambda x, w, b: F.layer_norm(x, w.shape, w, b), "b t c,c,c", "b t c"),
    (lambda x, w, b: F.linear(x, w, b), "b t c,d c,d", "b t d"),
    (lambda x, w: x @ w, "b t c,c d", "b t d"),
    (lambda x, y: x @ y.mT, "b h t d,b h e d", "b h t e"),
    (lambda x, y: x @ y, "t c,c", "t"),
    (lambda x, y: x @ y, "c,b c d", "b d"),
    (lambda x, y: torch.bmm(x, y), "b t c,b c d", "b t d"),
    (lambda z, x, y: torch.addmm(z, x, y), "d,t c,c d", "t d"),
    (lambda z, x, y: torch.baddbmm(z, batch1=x, batch2=y), "b t d,b t c,b c d", "b t d"),
    (lambda x, y: torch.einsum("b h i d, b h j d -> b h i j", x, y), "b h t d,b h e d", "b h t e"),
    (lambda x, y: torch.einsum("...c,cd", x, y), "b t c,c d", "_ _ _"),
    (lambda x, y: torch.einsum("...c,cd->...d", x, y), "b t c,c d", "b t d"),
    (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "b h t d,b h e d,b h e c", "b h t c"),
    (lambda x, w, b: F.conv1d(x, w, b, padding=9), "b c t,d c e,d", "b d _"),
    (lambda x, w: F.embedding(x.long(), w), "b t,e c", "b t c"),
    (lambda x, y: torch.outer(x, y), "b,c", "b c"),
    (lambda x: x.transpose(0, -1), "b t c", "c t b"),
    (lambda x: x.permute(0, 2, 1), "b t c", "b c t"),
    (lambda x: torch.permute(x, (2, 0, 1)), "b t c", "c b t"),
    (lambda x: x.movedim(0, 2), "b t c", "t c b"),
    (lambda x: x.movedim((0, 1), (1, 0)), "b t c", "t b c"),
    (lambda x: x[0].T, "b t c", "c t"),
    (lambda x: x.t(), "b t", "t b"),
    (lambda x: x.unsqueeze(1).squeeze(1), "b t c", "b t c"),
    (lambda x, y: x[:, :, None].expand(-1, -1, y.shape[0], -1), "b t c,e", "b t _ c"),
    (lambda x: x.repeat(1, 2, 1), "b t c", "b _ c"),
    (lambda x: x.repeat_interleave(2, dim=1), "b t c", "b _ c"),
    (lambda x: x.sum(1), "b t c", "b c"),
    (lambda x: x.mean(dim=(0, 2), keepdim=True), "b t c", "_ t _"),
    (lambda x: x.max(-1), "b t c", "b t, b t"),
    (lambda x, y: torch.max(x, y), "b t c,b t c", "b t c"),
    (lambda x: x.norm(dim=-1), "b t c", "b t"),
    (lambda x: x.chunk(2, -1), "b t c", "b t _, b t _"),
    (lambda x: x.unbind(1), "b h c", "b c"),
    (lambda x: x[:, -1], "b t c", "b c"),
    (lambda x: x[..., None, :], "b t c", "b t _ c"),
    (lambda x: x[:, :1], "b t c", "b _ c"),
    (lambda x, i: x[i.long()], "e c,b t", "b t c"),
    (lambda x, i: x[:, i.long()], "b e c,t", "b t c"),
    (lambda x, i: x[i.long(), :, i.long()], "b t c,e", "_ _"),
    (lambda x: x.select(1, 0), "b t c", "b c"),
    (lambda x: x.narrow(1, 0, 1), "b t c", "b _ c"),
    (lambda x, y: torch.cat([x, y], dim=1), "b t c,b e c", "b _ c"),
    (lambda x, y: torch.stack([x, y], dim=-1), "b t,b t", "b t _"),
    (lambda x, i: x.gather(1, i.long()), "b e,b t", "b t"),
    (lambda x: F.pad(x, (0, 1)), "b t c", "b t _"),
    (lambda x: torch.fft.fft(x), "b t c", "_ _ _"),
]


@pytest.mark.parametrize(("function", "inputs", "expected"), ANY_SIZE)
def test_dims_are_told_where_all_sizes_are_alike(function: Callable[..., Any], inputs: str, expected: str) -> None:
    sizes = {**ALIKE, "h": 1} if unbinds(function) else ALIKE
    assert told(run(function, inputs, sizes), inputs) == expected


def unbinds(function: Callable[..., Any]) -> bool:
    return "unbind" in function.__code__.co_names


@pytest.mark.parametrize(
    ("function", "inputs"), [(function, inputs) for function, inputs, _ in ANY_SIZE if not unbinds(function)]
)
def test_joined_dims_are_equally_long_at_other_sizes(function: Callable[..., Any], inputs: str) -> None:
    check(run(function, inputs, ALIKE), run(function, inputs, OTHERS))


def heads(x: Tensor, n: Sizes) -> Tensor:
    return x.view(n["b"], n["t"], n["h"], -1)


RESHAPES: list[tuple[Callable[..., Any], str, str]] = [
    (lambda x, n: heads(x, n), "b t c", "b t _ _"),
    (lambda x, n: heads(x, n).transpose(1, 2).reshape(n["b"] * n["h"], n["t"], -1), "b t c", "_ t _"),
    (lambda x, n: heads(x, n).flatten(2), "b t c", "b t c"),
    (lambda x, n: x.view(-1, n["c"]).view(n["b"], n["t"], n["c"]), "b t c", "b t c"),
    (lambda x, n: x.reshape(1, *x.shape), "b t c", "_ _ t c"),
    (lambda x, n: x.flatten(), "b t c", "_"),
]


@pytest.mark.parametrize(("function", "inputs", "expected"), RESHAPES)
def test_what_a_view_leaves_as_it_is_is_told_by_how_far_it_has_come(
    function: Callable[..., Any], inputs: str, expected: str
) -> None:
    trace = run(function, inputs, APART)
    assert told(trace, inputs) == expected
    check(trace, run(function, inputs, OTHERS))


def test_a_dim_that_is_cut_twice_in_the_same_way_has_the_same_pieces() -> None:
    def function(x: Tensor, n: Sizes) -> Tensor:
        one, other = heads(x, n), heads(x, n)
        return one.transpose(2, 3) @ other

    trace = run(function, "b t c", APART)
    joined = Joined(trace)
    one, other = (call.outputs[""] for call in trace.calls if call.name == "view")
    assert [*map(joined.dims.root, joined.dims.of(one))] == [*map(joined.dims.root, joined.dims.of(other))]


def test_a_tensor_whose_dims_are_moved_in_place_joins_nothing() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        z = x + 0
        z.transpose_(0, 1)
        return z + y

    trace = run(function, "t c,c t", ALIKE)
    assert told(trace, "t c,c t") == "c t"
    check(trace, run(function, "t c,c t", OTHERS))


def test_a_sum_is_one_axis_and_twice_a_sum_stands_in_brackets() -> None:
    dims = Dims()
    assert [dims.extent(axis) for axis in ("2·B·H", "2·T+1", "B·(T-1)")] == [
        (2, ("B", "H")),
        (1, ("2·T+1",)),
        (1, ("B·(T-1)",)),
    ]
    assert [
        str(word) for word in (Word(2, ("T+1",)), Word(1, ("T+1",)), Word(1, ("B", "T-1")), Word(1, ("D",), 2))
    ] == [
        "2·(T+1)",
        "T+1",
        "B·(T-1)",
        "D/2",
    ]


def test_a_sum_that_is_repeated_is_twice_the_sum() -> None:
    dims = Dims()
    whole, part = dims.new(10, "2·T+2"), dims.new(5, "T+1")
    dims.repeat(whole, part)
    assert dims.products == []
