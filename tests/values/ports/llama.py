"""Llama as one writes it for oneself: q, k and v in one layer, halves turned without a `rotate_half`, the mask added in
the expression that softmax is given. The parameters are declared in no order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

C, H, G, D, F, V = 16, 4, 2, 4, 40, 32


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.ones(C))

    def forward(self, x: Tensor) -> Tensor:
        var = (x * x).mean(dim=-1, keepdim=True)
        x = x / torch.sqrt(var + 1e-6)
        return self.g * x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.o = nn.Linear(C, C, bias=False)
        self.qkv = nn.Linear(C, (H + 2 * G) * D, bias=False)

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x1, x2 = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        b, t, _ = h.size()
        q, k, v = self.qkv(h).split([H * D, G * D, G * D], dim=-1)
        q, k, v = (x.reshape(b, t, -1, D) for x in (q, k, v))
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
        k = k.repeat_interleave(H // G, dim=1)
        v = v.repeat_interleave(H // G, dim=1)
        att = torch.softmax(q @ k.transpose(2, 3) * D**-0.5 + mask, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, -1)
        out: Tensor = self.o(y)
        return out


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(F, C, bias=False)
        self.up, self.gate = nn.Linear(C, F, bias=False), nn.Linear(C, F, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        u, g = self.up(x), self.gate(x)
        out: Tensor = self.down(nn.functional.silu(g) * u)
        return out


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ffn, self.att = FeedForward(), Attention()
        self.n2, self.n1 = Norm(), Norm()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        h = self.n1(x)
        x = x + self.att(h, cos, sin, mask)
        h = self.n2(x)
        x = x + self.ffn(h)
        return x


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.head = nn.Linear(C, V, bias=False)
        self.emb = nn.Embedding(V, C)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.final = Norm()

    def forward(self, tokens: Tensor) -> Tensor:
        t = tokens.size(1)
        x = self.emb(tokens)
        angles = torch.arange(t).float()[:, None] * 10000.0 ** (-torch.arange(0, D, 2).float() / D)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        mask = torch.full((t, t), float("-inf")).triu(diagonal=1)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        x = self.final(x)
        logits: Tensor = self.head(x)
        return logits
