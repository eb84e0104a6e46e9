"""BERT as tutorials write it: the mask is filled in, the embeddings are added up in one line, nothing is in order."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

C, H, F, V, LONGEST = 16, 4, 40, 32, 24


class MultiHeadAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.W_K, self.W_O = nn.Linear(C, C), nn.Linear(C, C)
        self.W_V, self.W_Q = nn.Linear(C, C), nn.Linear(C, C)

    def split(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1, H, C // H).transpose(1, 2)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        Q, K, V = self.split(self.W_Q(x)), self.split(self.W_K(x)), self.split(self.W_V(x))
        scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(C // H)
        scores = scores.masked_fill(padding, -1e9)
        attn = fn.softmax(scores, dim=-1)
        context = torch.matmul(attn, V)
        context = context.transpose(1, 2).contiguous().view(len(x), -1, C)
        out: Tensor = self.W_O(context)
        return out


class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention()
        self.fc2, self.fc1 = nn.Linear(F, C), nn.Linear(C, F)
        self.norm2, self.norm1 = nn.LayerNorm(C, eps=1e-12), nn.LayerNorm(C, eps=1e-12)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        x = self.norm1(x + self.self_attn(x, padding))
        x = self.norm2(x + self.fc2(fn.gelu(self.fc1(x))))
        return x


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.seg_embed, self.pos_embed = nn.Embedding(2, C), nn.Embedding(LONGEST, C)
        self.tok_embed, self.norm = nn.Embedding(V, C), nn.LayerNorm(C, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(layers))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        places = torch.arange(input_ids.shape[1]).unsqueeze(0)
        embedding = self.tok_embed(input_ids) + self.seg_embed(token_type_ids) + self.pos_embed(places)
        output: Tensor = self.norm(embedding)
        padding = attention_mask.eq(0).unsqueeze(1).unsqueeze(2)
        for layer in self.layers:
            output = layer(output, padding)
        return output
