"""Transformer: encoder-decoder, the model of the paper. It reads a source sentence and writes a target sentence.

B  batch           H  heads
T  target length   F  feed-forward width
S  source length   V  vocabulary, one for both languages
C  model width     L  layers of the encoder, and again of the decoder
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .attention import MultiHeadAttention
from .block import Block, feed_forward
from .config import Config, Size, refuse, wrong_choices, wrong_sizes, wrong_vocabulary
from .masks import PAD, causal_mask, padding_mask
from .positions import SinusoidalEncoding, position_index


class EncoderStack(nn.Module):
    """Reads the source: every source token sees every other one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.L))

    def forward(self, x: Tensor, source_mask: Tensor) -> Tensor:
        """x (B, S, C) → (B, S, C)"""
        for block in self.blocks:
            x = block(x, source_mask)
        return x


class DecoderBlock(nn.Module):
    """Masked self-attention over the target, cross-attention to the source, feed-forward; post-LN."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        C, H = config.C, config.H
        self.self_attention = MultiHeadAttention(C, H)
        self.norm_1 = nn.LayerNorm(C)
        self.cross_attention = MultiHeadAttention(C, H)
        self.norm_2 = nn.LayerNorm(C)
        self.feed_forward = feed_forward(config)
        self.norm_3 = nn.LayerNorm(C)

    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor) -> Tensor:
        """x (B, T, C), memory (B, S, C) → (B, T, C)"""
        x = x + self.self_attention(x, mask=target_mask)
        x = self.norm_1(x)
        x = x + self.cross_attention(x, memory, mask=source_mask)
        x = self.norm_2(x)
        x = x + self.feed_forward(x)
        x = self.norm_3(x)
        return x


class DecoderStack(nn.Module):
    """Writes the target: every target token sees those before it, and all of the source."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.L))

    def forward(self, x: Tensor, memory: Tensor, target_mask: Tensor, source_mask: Tensor) -> Tensor:
        """x (B, T, C), memory (B, S, C) → (B, T, C)"""
        for block in self.blocks:
            x = block(x, memory, target_mask, source_mask)
        return x


class Transformer(nn.Module):
    """Sinusoidal positions, post-LN, ReLU. One table embeds source and target and, tied, is the output projection."""

    description = "encoder-decoder · post-LN · sinusoidal positions"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        C, V = config.C, config.V
        self.token_embedding = nn.Embedding(V, C)
        self.position_encoding = SinusoidalEncoding(config.context, C)
        self.encoder = EncoderStack(config)
        self.decoder = DecoderStack(config)
        self.head = nn.Linear(C, V, bias=False)

        # embed multiplies by √C, so that tokens come out about as large as the positions they are added to.
        nn.init.normal_(self.token_embedding.weight, std=1 / math.sqrt(C))
        if config.head == "tied":
            self.head.weight = self.token_embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        """Tokens and their positions (section 3.4 of the paper). ids (B, T) → (B, T, C)"""
        index = position_index(ids, self.config.context)  # (T,)
        tokens = self.token_embedding(ids) * math.sqrt(self.config.C)  # (B, T, C)
        positions = self.position_encoding(index)  # (T, C)
        x: Tensor = tokens + positions  # (B, T, C)
        return x

    def forward(
        self, source_ids: Tensor, target_ids: Tensor, targets: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """source_ids (B, S), target_ids and targets (B, T) → logits (B, T, V), and the loss if there are targets

        Where ids are PAD they are not looked at; where targets are PAD they are not counted in the loss.
        """
        source_mask = padding_mask(source_ids)  # (B, 1, 1, S)
        target_mask = causal_mask(target_ids.shape[1], target_ids.device) | padding_mask(target_ids)  # (B, 1, T, T)

        source = self.embed(source_ids)  # (B, S, C)
        memory = self.encoder(source, source_mask)

        target = self.embed(target_ids)  # (B, T, C)
        x = self.decoder(target, memory, target_mask, source_mask)
        logits = self.head(x)  # (B, T, V)

        loss = None
        if targets is not None:
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)  # ()
        return logits, loss


SIZES: dict[Size, dict[str, int]] = {
    "seed": {"C": 8, "H": 2, "V": 16, "L": 2},
    "paper": {"C": 512, "H": 8, "V": 10_000, "L": 6},
}


def transformer(
    B: int = 2,
    T: int = 4,
    S: int = 3,
    C: int | None = None,
    H: int | None = None,
    F: int | None = None,
    V: int | None = None,
    L: int | None = None,
    *,
    size: Size = "seed",
) -> tuple[Transformer, tuple[()], dict[str, Tensor]]:
    """encoder-decoder: sinusoidal positions, post-LN, ReLU, cross-attention

    Gives the model and random input for it, `model(*args, **kwargs)`. C, H, V and L are those of the size where they
    are None (seed: 8, 2, 16, 2; paper: 512, 8, 10,000, 6), and F is 4·C. The last sentence is half as long as the
    others and padded.
    """
    defaults = SIZES.get(size, SIZES["seed"])
    C = defaults["C"] if C is None else C
    H = defaults["H"] if H is None else H
    V = defaults["V"] if V is None else V
    L = defaults["L"] if L is None else L
    refuse(
        *wrong_sizes(B=B, T=T, S=S, C=C, H=H, F=F, V=V, L=L),
        *wrong_vocabulary(V, "padding"),
        *wrong_choices(size=size),
    )
    F = 4 * C if F is None else F
    context = max(T, S, 1024)
    model = Transformer(
        Config(
            C=C,
            H=H,
            F=F,
            V=V,
            L=L,
            context=context,
            norm="post",
            positions="sinusoidal",
            activation="relu",
            qkv="separate",
        )
    )

    source_ids = torch.randint(1, V, (B, S))  # 0 is PAD
    source_ids[-1, S - S // 2 :] = PAD
    # Teacher forcing: each position is given the true ids so far, and its target is the id one step ahead.
    sentence = torch.randint(1, V, (B, T + 1))
    sentence[-1, T + 1 - T // 2 :] = PAD
    target_ids = sentence[:, :-1].contiguous()  # (B, T)
    targets = sentence[:, 1:].contiguous()  # (B, T)
    return model, (), {"source_ids": source_ids, "target_ids": target_ids, "targets": targets}
