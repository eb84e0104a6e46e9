"""GPT: decoder-only. It reads a sentence and says, at every position, what comes next.

B  batch         H  heads
T  length        F  feed-forward width
C  model width   V  vocabulary
                 L  layers

"Decoder-only" is the decoder of the paper without cross-attention: blocks of causal self-attention and feed-forward.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .block import Block
from .config import Config, Head, refuse, wrong_choice, wrong_sizes
from .masks import causal_mask
from .positions import position_index


class GPT(nn.Module):
    """Learned positions, pre-LN, GELU, as GPT-2 (Radford et al., 2019)."""

    description = "decoder-only · pre-LN · learned positions"

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        C, H, F, V, L = config.C, config.H, config.F, config.V, config.L
        self.token_embedding = nn.Embedding(V, C)
        self.position_embedding = nn.Embedding(config.context, C)
        self.blocks = nn.ModuleList(Block(C, H, F, norm="pre", activation="gelu", qkv="fused") for _ in range(L))
        self.norm_f = nn.LayerNorm(C)
        self.head = nn.Linear(C, V, bias=False)

        # Small tables, as in GPT-2: an untrained model then finds all V words about equally likely.
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        nn.init.normal_(self.position_embedding.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)
        if config.head == "tied":
            self.head.weight = self.token_embedding.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """ids and targets (B, T) → logits (B, T, V), and the loss if there are targets"""
        mask = causal_mask(ids.shape[1], ids.device)  # (T, T)
        index = position_index(ids, self.config.context)  # (T,)

        tokens = self.token_embedding(ids)  # (B, T, C)
        positions = self.position_embedding(index)  # (T, C)
        x = tokens + positions  # (B, T, C)
        for block in self.blocks:
            x = block(x, mask)
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
    *,
    head: Head = "tied",
) -> tuple[GPT, tuple[()], dict[str, Tensor]]:
    """decoder-only: learned positions, pre-LN, GELU, causal

    Gives the model and random input for it, `model(*args, **kwargs)`. F is 4·C where it is None.
    """
    refuse(*wrong_sizes(B=B, T=T, C=C, H=H, F=F, V=V, L=L), *wrong_choice("head", head, ("tied", "untied")))
    F = 4 * C if F is None else F
    model = GPT(Config(C=C, H=H, F=F, V=V, L=L, context=max(T, 1024), head=head))

    # Teacher forcing: each position is given the true ids so far, and its target is the id one step ahead.
    sentence = torch.randint(V, (B, T + 1))
    ids = sentence[:, :-1].contiguous()  # (B, T)
    targets = sentence[:, 1:].contiguous()  # (B, T)
    return model, (), {"ids": ids, "targets": targets}
