"""The law of axes: what a letter or formula says a size is, it is, at sizes that no probe has seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Trace
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer
from shapetrace.passes.align import align
from shapetrace.passes.formulas import evaluate

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def wrong(trace: Trace, other: Trace, sizes: Mapping[str, int]) -> list[str]:
    """Each axis of `trace` that at these sizes would be another than in `other`, which ran at them."""
    found: list[str] = []
    for call, its in zip(trace.calls, align(trace.calls, other.calls), strict=True):
        for place in ("inputs", "outputs", "unmade"):
            for key, tensor in getattr(call, place).items():
                there = getattr(its, place).get(key) if its is not None else None
                if tensor.axes is None or there is None:
                    continue
                for axis, size in zip(tensor.axes, there.shape, strict=True):
                    if isinstance(axis, str) and evaluate(axis, sizes) != size:
                        found.append(f"{call.path} {call.name} {place}[{key!r}] {tensor.axes} is {there.shape}")
    return found


def named(trace: Trace) -> float:
    """The share of dims that have a letter, of those longer than 1."""
    axes = [
        axis for call in trace.calls for tensor in call.outputs.values() for axis in tensor.axes or tensor.shape
        if axis != 1
    ]  # fmt: skip
    return sum(isinstance(axis, str) for axis in axes) / max(len(axes), 1)


class Attention(nn.Module):
    """Grouped queries, rotation, a cache of the past where it is given one, and a configuration."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.width = config.n_embd // config.n_head
        self.token = nn.Embedding(config.vocab_size, config.n_embd)
        self.q = nn.Linear(config.n_embd, config.n_embd)
        self.kv = nn.Linear(config.n_embd, 2 * config.num_kv_heads * self.width)
        self.up = nn.Linear(config.n_embd, config.d_ff)
        self.down = nn.Linear(config.d_ff, config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, ids: Tensor, past: tuple[Tensor, Tensor] | None = None) -> Tensor:
        x = self.token(ids)
        q = self.q(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
        k, v = (t.unflatten(-1, (-1, self.width)).transpose(1, 2) for t in self.kv(x).chunk(2, -1))
        one, other = k.chunk(2, -1)
        k = torch.cat([-other, one], -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        weights = F.softmax(q @ k.mT / self.width**0.5, -1)
        x = x + (weights @ v).transpose(1, 2).flatten(2)
        return self.head(x + self.down(F.gelu(self.up(x))))[:, :-1]


def grouped(B: int, T: int, C: int, H: int, G: int, F: int, V: int, P: int = 0) -> Made:
    config = SimpleNamespace(n_embd=C, n_head=H, num_kv_heads=G, d_ff=F, vocab_size=V)
    past = (torch.zeros(B, G, P, C // H),) * 2 if P else None
    return Attention(config), (torch.randint(V, (B, T)), past), {}


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.parts, *args, **kwargs)


def on_ids(function: Callable[..., Any], *parts: nn.Module) -> Callable[..., Made]:
    return lambda B, T: (Function(function, nn.Embedding(9, 8), *parts), (torch.randint(9, (B, T)),), {})


def routed(e: nn.Module, gate: nn.Module, *rest: Any) -> Tensor:
    """Each token through one of three experts, as its values say."""
    *experts, ids = rest
    x = e(ids).flatten(0, 1)
    chosen = gate(x).argmax(-1)
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        at = (chosen == number).nonzero()[:, 0]
        out = out.index_add(0, at, expert(x[at]))
    return out


@dataclasses.dataclass
class Output:
    first: Tensor
    rest: list[Tensor]


CASES: dict[str, tuple[Callable[..., Made], dict[str, int], list[dict[str, int]]]] = {
    "gpt": (gpt, {"B": 2, "T": 4, "C": 8, "H": 2, "F": 32, "V": 16}, [
        {"B": 9, "T": 6, "C": 12, "H": 4, "F": 20, "V": 99}, {"B": 1, "T": 5, "C": 36, "H": 6, "F": 7, "V": 21}]),
    "encoder": (encoder, {"B": 2, "T": 4, "C": 8, "H": 2, "F": 32, "V": 16}, [
        {"B": 9, "T": 6, "C": 12, "H": 4, "F": 20, "V": 99}]),
    "transformer": (transformer, {"B": 2, "T": 4, "S": 4, "C": 8, "H": 2, "F": 32, "V": 16}, [
        {"B": 9, "T": 6, "S": 8, "C": 12, "H": 4, "F": 20, "V": 99}]),
    "grouped queries": (grouped, {"B": 2, "T": 4, "C": 8, "H": 2, "G": 1, "F": 8, "V": 9}, [
        {"B": 3, "T": 9, "C": 24, "H": 6, "G": 3, "F": 5, "V": 40},
        {"B": 1, "T": 6, "C": 16, "H": 4, "G": 2, "F": 9, "V": 11}]),
    "grouped queries and a past": (grouped, {"B": 2, "T": 4, "C": 8, "H": 2, "G": 1, "F": 8, "V": 9, "P": 4}, [
        {"B": 3, "T": 9, "C": 8, "H": 2, "G": 1, "F": 5, "V": 40, "P": 6}]),
    "a loop over the length": (
        on_ids(lambda e, r, x: torch.stack([r(e(x[:, t])) for t in range(x.shape[1])]), nn.GRUCell(8, 8)),
        {"B": 2, "T": 4}, [{"B": 3, "T": 9}]),
    "half the length": (on_ids(lambda e, x: e(x).unflatten(1, (-1, 2)).mean(2)), {"B": 2, "T": 4}, [{"B": 5, "T": 14}]),
    "a length rounded up": (
        on_ids(lambda e, c, x: c(e(x).mT), nn.Conv1d(8, 8, 3, 2, 1)), {"B": 2, "T": 16}, [{"B": 5, "T": 15}]),
    "an odd length rounded up": (
        on_ids(lambda e, c, x: c(e(x).mT), nn.Conv1d(8, 8, 3, 2, 1)), {"B": 2, "T": 7}, [{"B": 5, "T": 16}]),
    "pairs of words": (
        on_ids(lambda e, x: e(x)[:, torch.ones(x.shape[1], x.shape[1]).tril().nonzero()[:, 0]]),
        {"B": 2, "T": 4}, [{"B": 5, "T": 9}]),
    "no more than so many": (on_ids(lambda e, x: e(x)[:, :5]), {"B": 2, "T": 4}, [{"B": 5, "T": 9}]),
    "experts": (on_ids(routed, nn.Linear(8, 3), *[nn.Linear(8, 8) for _ in range(3)]), {"B": 2, "T": 8}, [
        {"B": 5, "T": 9}, {"B": 3, "T": 7}]),
    "a flow that goes by the values": (
        on_ids(lambda e, x: e(x) if int(x.sum()) % 2 else e(x)[:, 1:]), {"B": 2, "T": 4}, [{"B": 5, "T": 9}]),
    "all that comes out": (
        on_ids(lambda e, x: {"a": Output(e(x), [x, x[:, 1:]]), "b": (e(x).sum(), None)}),
        {"B": 2, "T": 4}, [{"B": 5, "T": 9}]),
    "keywords and lists": (
        lambda B, T: (Function(lambda xs, y: torch.cat([*xs, y["z"]])), (), {
            "xs": [torch.zeros(B, 8), torch.zeros(B, 8)], "y": {"z": torch.zeros(B, 8)}}),
        {"B": 2, "T": 4}, [{"B": 5, "T": 9}]),
    "one of each": (on_ids(lambda e, x: e(x)), {"B": 1, "T": 1}, [{"B": 5, "T": 1}]),
    "nothing in it": (on_ids(lambda e, x: e(x)), {"B": 0, "T": 4}, [{"B": 0, "T": 6}]),
}  # fmt: skip


@pytest.mark.parametrize(("make", "sizes", "others"), CASES.values(), ids=CASES)
def test_axes_are_confirmed_at_sizes_that_no_probe_has_seen(
    make: Callable[..., Made], sizes: dict[str, int], others: list[dict[str, int]]
) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        model, args, kwargs = make(**sizes)
        trace = shapetrace.trace(model, *args, **kwargs)
        assert not [note for note in trace.notes if "not named" in note]
        for other in [sizes, *others]:
            model, args, kwargs = make(**other)
            width = {"D": other["C"] // other["H"]} if "C" in other else {}
            plain = shapetrace.trace(model, *args, axes=False, **kwargs)
            assert wrong(trace, plain, {**other, **width}) == []


def test_the_law_above_sees_a_wrong_letter() -> None:
    model, args, kwargs = gpt()
    trace = shapetrace.trace(model, *args, **kwargs)
    other = {"B": 9, "T": 6, "C": 12, "H": 4, "D": 3, "F": 20, "V": 99}
    model, args, kwargs = gpt(**{letter: size for letter, size in other.items() if letter != "D"})
    plain = shapetrace.trace(model, *args, axes=False, **kwargs)
    assert wrong(trace, plain, other) == []
    assert len(wrong(trace, plain, {**other, "T": 9, "B": 6})) > 50


@pytest.mark.parametrize("name", ["gpt", "encoder", "grouped queries"])
def test_of_a_model_with_a_configuration_nearly_all_dims_are_named(name: str) -> None:
    make, sizes, _ = CASES[name]
    model, args, kwargs = make(**sizes)
    assert named(shapetrace.trace(model, *args, **kwargs)) > 0.95


def test_the_seed_example_is_right_where_two_sizes_are_two_and_two_are_four() -> None:
    model, args, kwargs = gpt(B=2, T=4, H=2, C=8)
    attention = shapetrace.trace(model, *args, **kwargs)["blocks.0.attention"]
    assert {name: record.axes for name, record in attention.items() if name != "output"} == {
        "x": ("B", "T", "C"),
        "qkv": ("B", "T", "3·C"),
        "q": ("B", "H", "T", "D"),
        "k": ("B", "H", "T", "D"),
        "v": ("B", "H", "T", "D"),
        "scores": ("B", "H", "T", "T"),
        "weights": ("B", "H", "T", "T"),
        "head_output": ("B", "H", "T", "D"),
        "concat": ("B", "T", "C"),
        "out": ("B", "T", "C"),
        "mask": ("T", "T"),
    }
