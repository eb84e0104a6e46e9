"""GPT: decoder-only. It reads a sentence and says, at every position, what comes next.

B  batch         H  heads
T  length        G  key and value heads, H unless heads share them
C  model width   F  feed-forward width
                 V  vocabulary
                 L  layers

"Decoder-only" is the decoder of the paper without cross-attention: blocks of causal self-attention and feed-forward.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .block import Block, normalization
from .config import (
    QKV,
    Activation,
    AttentionKind,
    Config,
    Head,
    Norm,
    NormKind,
    Positions,
    refuse,
    wrong_choices,
    wrong_sizes,
)
from .masks import causal_mask
from .positions import SinusoidalEncoding, position_index


class GPT(nn.Module):
    """As GPT-2 (Radford et al., 2019) where nothing else is chosen; with other choices Llama (Touvron et al., 2023)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        C, V, L = config.C, config.V, config.L
        self.token_embedding = nn.Embedding(V, C)
        self.position_embedding: nn.Module | None = None  # rope turns q and k inside of attention, and adds nothing
        if config.positions == "learned":
            self.position_embedding = nn.Embedding(config.context, C)
        elif config.positions == "sinusoidal":
            self.position_embedding = SinusoidalEncoding(config.context, C)
        self.blocks = nn.ModuleList(Block(config) for _ in range(L))
        self.norm_f = normalization(config) if config.norm == "pre" else None  # post-LN ends with one in the last block
        self.head = nn.Linear(C, V, bias=False)

        # Small tables, as in GPT-2: an untrained model then finds all V words about equally likely.
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        if isinstance(self.position_embedding, nn.Embedding):
            nn.init.normal_(self.position_embedding.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)
        if config.head == "tied":
            self.head.weight = self.token_embedding.weight

    @property
    def description(self) -> str:
        return f"decoder-only · {self.config.description}"

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """ids and targets (B, T) → logits (B, T, V), and the loss if there are targets"""
        mask = causal_mask(ids.shape[1], ids.device)  # (T, T)

        tokens = self.token_embedding(ids)  # (B, T, C)
        x = tokens
        if self.position_embedding is not None:
            index = position_index(ids, self.config.context)  # (T,)
            positions = self.position_embedding(index)  # (T, C)
            x = tokens + positions  # (B, T, C)
        for block in self.blocks:
            x = block(x, mask)
        if self.norm_f is not None:
            x = self.norm_f(x)
        logits = self.head(x)  # (B, T, V)

        loss = None
        if targets is not None:
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten())  # ()
        return logits, loss


def gpt(
    B: int = 2,
    T: int = 4,
    C: int = 8,
    H: int = 2,
    F: int | None = None,
    V: int = 16,
    L: int = 2,
    G: int | None = None,
    *,
    norm: Norm = "pre",
    norm_kind: NormKind = "layer",
    positions: Positions = "learned",
    activation: Activation = "gelu",
    qkv: QKV = "fused",
    attention: AttentionKind = "explicit",
    head: Head = "tied",
    bias: bool = True,
) -> tuple[GPT, tuple[()], dict[str, Tensor]]:
    """decoder-only: learned positions, pre-LN, GELU, causal

    Gives the model and random input for it, `model(*args, **kwargs)`. F is 4·C where it is None, and G is H.
    """
    choices: dict[str, Any] = {
        "norm": norm,
        "norm_kind": norm_kind,
        "positions": positions,
        "activation": activation,
        "qkv": qkv,
        "attention": attention,
        "head": head,
    }
    refuse(*wrong_sizes(B=B, T=T, C=C, H=H, F=F, V=V, L=L, G=G), *wrong_choices(**choices))
    F = 4 * C if F is None else F
    model = GPT(Config(C=C, H=H, F=F, V=V, L=L, G=G, context=max(T, 1024), bias=bias, **choices))

    # Teacher forcing: each position is given the true ids so far, and its target is the id one step ahead.
    sentence = torch.randint(V, (B, T + 1))
    ids = sentence[:, :-1].contiguous()  # (B, T)
    targets = sentence[:, 1:].contiguous()  # (B, T)
    return model, (), {"ids": ids, "targets": targets}
