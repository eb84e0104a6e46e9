"""Encoder: encoder-only. It reads a whole sentence at once and fills in the words that were hidden from it.

B  batch         H  heads
T  length        F  feed-forward width
C  model width   V  vocabulary
                 L  layers

Nothing is causal here: every token sees every other one, before it and after it, and only padding is masked.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .block import Block
from .config import Config, refuse, wrong_sizes, wrong_vocabulary
from .masks import PAD, padding_mask
from .positions import position_index

MASK = 1  # the id that stands in the place of a hidden word


class Encoder(nn.Module):
    """Learned positions, post-LN, GELU: the layers of BERT (Devlin et al., 2018).

    Of BERT's two sentences, of the norm after its embedding and of the extra layer before its head there is nothing.
    """

    description = "encoder-only · post-LN · learned positions"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        C, V, L = config.C, config.V, config.L
        self.token_embedding = nn.Embedding(V, C)
        self.position_embedding = nn.Embedding(config.context, C)
        self.blocks = nn.ModuleList(Block(config) for _ in range(L))
        self.head = nn.Linear(C, V, bias=False)

        nn.init.normal_(self.token_embedding.weight, std=0.02)
        nn.init.normal_(self.position_embedding.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)
        if config.head == "tied":
            self.head.weight = self.token_embedding.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """ids and targets (B, T) → logits (B, T, V), and the loss if there are targets

        Where ids are PAD they are not looked at; where targets are PAD they are not counted in the loss.
        """
        mask = padding_mask(ids)  # (B, 1, 1, T)
        index = position_index(ids, self.config.context)  # (T,)

        tokens = self.token_embedding(ids)  # (B, T, C)
        positions = self.position_embedding(index)  # (T, C)
        x = tokens + positions  # (B, T, C)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(x)  # (B, T, V)

        loss = None
        if targets is not None:
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)  # ()
        return logits, loss


def encoder(
    B: int = 2,
    T: int = 4,
    C: int = 8,
    H: int = 2,
    F: int | None = None,
    V: int = 16,
    L: int = 2,
) -> tuple[Encoder, tuple[()], dict[str, Tensor]]:
    """encoder-only: learned positions, post-LN, GELU, bidirectional

    Gives the model and random input for it, `model(*args, **kwargs)`. F is 4·C where it is None. The last sentence is
    half as long as the others and padded; the first word of every seven is hidden, and only those count in the loss.
    """
    refuse(*wrong_sizes(B=B, T=T, C=C, H=H, F=F, V=V, L=L), *wrong_vocabulary(V, "padding", "the mask"))
    F = 4 * C if F is None else F
    model = Encoder(Config(C=C, H=H, F=F, V=V, L=L, context=max(T, 1024), norm="post", qkv="separate"))

    sentence = torch.randint(2, V, (B, T))  # 0 and 1 are PAD and MASK
    sentence[-1, T - T // 2 :] = PAD
    hidden = torch.zeros(B, T, dtype=torch.bool)
    hidden[:, ::7] = True
    hidden &= sentence != PAD
    ids = sentence.masked_fill(hidden, MASK)  # (B, T)
    targets = sentence.masked_fill(~hidden, PAD)  # (B, T)
    return model, (), {"ids": ids, "targets": targets}
