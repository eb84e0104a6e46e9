"""Small parts of models, and what is said of their tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.roles import name_roles
from shapetrace.records import Record, records
from shapetrace.schema import Trace
from shapetrace.targets import Request, record

HEADS = ["q", "k", "v", "scores", "weights", "head_output", "concat", "attn_out"]
X = torch.randn(2, 4, 8)
SOURCE = torch.randn(2, 3, 8)
IDS = torch.randint(9, (2, 4))


def traced(model: nn.Module, *inputs: Tensor, **keywords: object) -> Trace:
    return name_roles(shapetrace.trace(model, *inputs, **keywords))


def reference(name: str) -> Trace:
    return name_roles(record(Request(name)))


def said(trace: Trace) -> list[str]:
    """Each tensor that has a role, "path.name: role", with a > where it is given."""
    return [
        f"{'> ' if found.is_input else ''}{'.'.join(filter(None, (found.path, found.name or found.call.name)))}: "
        f"{found.role}"
        for found in records(trace)
        if found.role
    ]


def kinds(trace: Trace) -> list[str]:
    return [f"{call.path or call.name}: {call.role}" for call in trace.calls if call.role]


def counts(trace: Trace) -> dict[str, int]:
    return dict(Counter(found.role for found in records(trace) if found.role in HEADS))


def one(trace: Trace, role: str) -> Record:
    (found,) = trace.roles(role)
    return found


class Heads(nn.Module):
    def __init__(self, C: int = 8, H: int = 2) -> None:
        super().__init__()
        self.H, self.D = H, C // H
        self.q, self.k, self.v, self.out = (nn.Linear(C, C) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.H, self.D).transpose(1, 2)

    def qkv(self, x: Tensor) -> Iterator[Tensor]:
        return (self.split(layer(x)) for layer in (self.q, self.k, self.v))


class Einsum(Heads):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (self.H, self.D)) for layer in (self.q, self.k, self.v))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.D**-0.5
        weights = F.softmax(scores, -1)
        return self.out(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2))


class Block(nn.Module):
    def __init__(self, feed_forward: nn.Module) -> None:
        super().__init__()
        self.attention, self.feed_forward = Einsum(), feed_forward
        self.norm_1, self.norm_2 = nn.LayerNorm(8), nn.RMSNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        x = x + self.feed_forward(self.norm_2(x))
        return x


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.silu(self.gate(x)) * self.up(x)
        return self.down(hidden)


class Scan(nn.Module):
    """A state-space layer with its gate and its residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(16, 8)
        self.conv = nn.Conv1d(16, 16, 3, groups=16, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.into(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.mT)[..., : x.shape[1]].mT)
        decay = torch.exp(-F.softplus(u))
        state, states = torch.zeros_like(u[:, 0]), []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + u[:, t]
            states.append(state)
        return x + self.out(torch.stack(states, 1) * F.silu(gate))


class Language(nn.Module):
    """Tokens, blocks, a norm, logits and their loss."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.table, self.blocks = nn.Embedding(9, 8), nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 9)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), ids.flatten())
