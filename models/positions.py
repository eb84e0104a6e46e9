"""Positions: which row of the sentence a token stands in, as a vector to add to it.

B  batch
T  length
C  model width

Two schemes, each a table with one row of width C for every position:

    learned     nn.Embedding(context, C): the rows are parameters
    sinusoidal  SinusoidalEncoding(context, C): the rows are computed once, no parameters
"""

import torch
from torch import Tensor, nn


def position_index(ids: Tensor, context: int) -> Tensor:
    """0, 1, … T-1, to look up in a table of `context` rows. ids (B, T) → (T,)"""
    T = ids.shape[1]
    if context < T:
        raise ValueError(f"{T} ids, but only {context} positions: shorten the input or build with context={T}")
    return torch.arange(T, device=ids.device)


def sinusoidal_table(rows: int, C: int) -> Tensor:
    """Sine at even dims, cosine at odd dims, slower from pair to pair (section 3.5 of the paper). (rows, C)

    PE(pos, 2i)   = sin(pos / 10000^(2i/C))
    PE(pos, 2i+1) = cos(pos / 10000^(2i/C))
    """
    pos = torch.arange(rows).unsqueeze(1)  # (rows, 1)
    two_i = torch.arange(0, C, 2)  # (C/2,)
    angle = pos / 10000 ** (two_i / C)  # (rows, C/2)
    table = torch.empty(rows, C)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : C // 2]  # an odd C has one cosine less
    return table


class SinusoidalEncoding(nn.Module):
    """Looks positions up like an nn.Embedding, in a table that is not learned."""

    table: Tensor

    def __init__(self, context: int, C: int) -> None:
        super().__init__()
        # A buffer moves to the GPU with the model; not persistent: it is computed, so no checkpoint needs it.
        self.register_buffer("table", sinusoidal_table(context, C), persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        positions = self.table[index]  # (T, C)
        return positions
