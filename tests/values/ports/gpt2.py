"""GPT-2 as one writes it for oneself: three projections in another order, einsum, tables that are parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

C, H, V, LONGEST = 16, 4, 32, 24


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value, self.key = nn.Linear(C, C), nn.Linear(C, C)
        self.query, self.merge = nn.Linear(C, C), nn.Linear(C, C)

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        query = self.query(x).view(n, t, H, C // H)
        key = self.key(x).view(n, t, H, C // H)
        value = self.value(x).view(n, t, H, C // H)
        logits = torch.einsum("bqhd,bkhd->bhqk", query, key) / (C // H) ** 0.5
        causal = torch.arange(t)[:, None] >= torch.arange(t)[None, :]
        logits = torch.where(causal, logits, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits, dim=-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", probs, value)
        out: Tensor = self.merge(mixed.reshape(n, t, C))
        return out


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.expand, self.shrink = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)
        self.attend = Heads()
        self.norm_b, self.norm_a = nn.LayerNorm(C), nn.LayerNorm(C)

    def forward(self, stream: Tensor) -> Tensor:
        stream = stream + self.attend(self.norm_a(stream))
        hidden = fn.gelu(self.expand(self.norm_b(stream)), approximate="tanh")
        stream = stream + self.shrink(hidden)
        return stream


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(LONGEST, C))
        self.tokens = nn.Parameter(torch.zeros(V, C))
        self.stack = nn.Sequential(*(Layer() for _ in range(layers)))
        self.norm = nn.LayerNorm(C)

    def forward(self, ids: Tensor) -> Tensor:
        stream = fn.embedding(ids, self.tokens) + self.positions[: ids.shape[1]]
        stream = self.stack(stream)
        stream = self.norm(stream)
        return fn.linear(stream, self.tokens)
