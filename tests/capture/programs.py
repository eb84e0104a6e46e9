"""Random models: programs of modules and functions, composed by hypothesis, that run the same way at every size.

A program is data. `Program` builds its modules when it is made and interprets its steps in `forward`, on a pool of
tensors `[B, T, C]` that each step may take from and adds to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

__all__ = ["HEADS", "WIDTH", "Program", "Step", "steps"]

WIDTH, HEADS = 8, 2


class Step(msgspec.Struct, frozen=True):
    """What to do, the tensors of the pool that it is done with, and what is inside of it, if it has an inside."""

    name: str
    at: int = 0
    other: int = 0
    inside: tuple[Step, ...] = ()


Two = Callable[[Tensor, Tensor], Tensor]


def attention(x: Tensor, y: Tensor) -> Tensor:
    q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (x, y, y))
    weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


def fused(x: Tensor, y: Tensor) -> Tensor:
    q, k, v = (each.view(*each.shape[:2], HEADS, -1).transpose(1, 2) for each in (x, y, y))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)


def halves(x: Tensor, _: Tensor) -> Tensor:
    one, other = x.chunk(2, dim=-1)
    return torch.cat((-other, one), dim=-1)


def loop(x: Tensor, y: Tensor) -> Tensor:
    for part in y.unbind(1)[:2]:
        x = x + part.unsqueeze(1)
    return x


def branch(x: Tensor, y: Tensor) -> Tensor:
    return x - y if x.numel() % 2 else x.maximum(y)


def written(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[:, 0] = y[:, -1]
    x[..., :2] *= 2
    return x


def into(x: Tensor, y: Tensor) -> Tensor:
    return torch.add(x, y, out=torch.empty_like(x)) if not x.requires_grad and not y.requires_grad else x.add(y)


def noise(x: Tensor, _: Tensor) -> Tensor:
    return x + torch.randn_like(x) * torch.rand(1, dtype=x.dtype)


FUNCTIONS: dict[str, Two] = {
    "add": lambda x, y: x + y,
    "mul": torch.mul,
    "gelu": lambda x, _: F.gelu(x),
    "softmax": lambda x, _: torch.softmax(x.float(), dim=-1).type_as(x),
    "attention": attention,
    "fused": fused,
    "outer": lambda x, y: torch.einsum("btc,bsc->bts", x, y).tril().softmax(-1) @ y,
    "there and back": lambda x, _: x.transpose(0, 1).contiguous().transpose(0, 1),
    "flat": lambda x, _: x.reshape(-1, x.size(-1)).view_as(x),
    "mean": lambda x, y: x - y.mean(1, keepdim=True),
    "halves": halves,
    "where": lambda x, y: torch.where(x > y, x, y),
    "roll": lambda x, _: torch.roll(x, 1, dims=1),
    "pad": lambda x, _: F.pad(x, (0, 0, 1, 0))[:, 1:],
    "masked": lambda x, y: x.masked_fill(y < 0, 0.0),
    "loop": loop,
    "branch": branch,
    "noise": noise,
    "written": written,
    "into": into,
    "in place": lambda x, y: x.clone().add_(y).relu_(),
    "detached": lambda x, y: x.detach() + y,
    "number": lambda x, _: x * x.shape[1],
    "list": lambda x, y: torch.stack([x, y]).sum(0),
    "checkpoint": lambda x, y: torch.utils.checkpoint.checkpoint(torch.sub, x, y, use_reentrant=False),
    "no grad": lambda x, y: torch.no_grad()(torch.add)(x, y),
    "apart": lambda x, y: torch.autograd.functional.vjp(torch.tanh, x.detach(), y.detach())[1],
}


class Twice(nn.Module):
    """One module called again and again, also by the name of another."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(WIDTH, WIDTH)
        self.same = self.one

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"out": self.same(self.one(x)), "none": None, "more": (x, [x.sum()])}


class Fed(nn.Module):
    """Takes its tensors by keyword, and gives back the very tensor that it was given beside a new one."""

    def forward(self, *, x: Tensor, rest: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return x, x + rest["y"]


class Counting(nn.Module):
    """Has a buffer that each forward writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * self.count


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "norm": lambda: nn.LayerNorm(WIDTH),
    "relu": lambda: nn.ReLU(inplace=True),
    "dropout": lambda: nn.Dropout(0.3),
    "mlp": lambda: nn.Sequential(nn.Linear(WIDTH, 24), nn.GELU(), nn.Linear(24, WIDTH)),
    "self-attention": lambda: nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True),
    "encoder": lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 24, dropout=0.1, batch_first=True),
    "gru": lambda: nn.GRU(WIDTH, WIDTH, batch_first=True),
    "twice": Twice,
    "fed": Fed,
    "counting": Counting,
    "weighted": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
}

ENDS = ("raise", "shape", "stop", "interrupt")
"""Steps that end the forward with an exception."""


class Program(nn.Module):
    def __init__(self, steps: tuple[Step, ...]) -> None:
        super().__init__()
        self.steps = steps
        self.parts = nn.ModuleList(
            Program(step.inside) if step.inside else MODULES[step.name]() if step.name in MODULES else nn.Identity()
            for step in steps
        )

    def forward(self, x: Tensor) -> Tensor:
        pool = [x]
        for step, part in zip(self.steps, self.parts, strict=True):
            one, other = pool[step.at % len(pool)], pool[step.other % len(pool)]
            out = self.step(step, part, one, other)
            pool.append(out)
        result = pool[-1]
        return result

    def step(self, step: Step, part: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if step.inside:
            return part(x)
        if step.name in FUNCTIONS:
            return FUNCTIONS[step.name](x, y)
        match step.name:
            case "self-attention":
                out, _ = part(x, y, y)
            case "gru":
                out, _ = part(x)
            case "twice":
                out = part(x)["out"]
            case "fed":
                _, out = part(x=x, rest={"y": y})
            case "relu":
                out = part(x.clone())
            case "raise":
                raise ValueError(f"no further with {tuple(x.shape)}")
            case "shape":
                out = x @ y
            case "stop":
                raise StopIteration
            case "interrupt":
                raise KeyboardInterrupt
            case _:
                out = part(x)
        result: Tensor = out
        return result


def steps(*, ends: bool = True) -> st.SearchStrategy[tuple[Step, ...]]:
    """Programs of one and more steps; with `ends`, now and then one of them raises."""
    places = st.integers(0, 5)
    plain = st.builds(Step, st.sampled_from([*FUNCTIONS, *MODULES]), places, places)
    if ends:
        plain = st.one_of(*[plain] * 24, st.builds(Step, st.sampled_from(ENDS), places, places))
    nested = st.recursive(
        plain,
        lambda inside: st.builds(
            Step, st.just("inside"), places, places, st.lists(inside, min_size=1, max_size=4).map(tuple)
        ),
        max_leaves=10,
    )
    return st.lists(nested, min_size=1, max_size=8).map(tuple)
