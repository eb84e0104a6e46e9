"""Positions: which row of the sentence a token stands in.

B  batch         H  heads
T  length        D  head width
C  model width

Three schemes, each with a table of one row for every position. Two are a vector to add to the token:

    learned      nn.Embedding(context, C): the rows are parameters
    sinusoidal   SinusoidalEncoding(context, C): the rows are computed once, no parameters

and in the third nothing is added: q and k are turned, inside of attention:

    rotary       RotaryEncoding(context, D): RoPE, no parameters
"""

import torch
from torch import Tensor, nn


def position_index(ids: Tensor, context: int) -> Tensor:
    """0, 1, … T-1, to look up in a table of `context` rows. ids (B, T) → (T,)"""
    T = ids.shape[1]
    refuse_longer(T, context)
    return torch.arange(T, device=ids.device)


def refuse_longer(T: int, context: int) -> None:
    if context < T:
        raise ValueError(f"{T} ids, but only {context} positions: shorten the input or build with context={T}")


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


def rotation_angles(rows: int, D: int) -> Tensor:
    """How far each pair of channels is turned at each position, slower from pair to pair. (rows, D/2)

    θ(pos, i) = pos / 10000^(2i/D), section 3.2.2 of Su et al., *RoFormer*, 2021 (arXiv:2104.09864)
    """
    pos = torch.arange(rows).unsqueeze(1)  # (rows, 1)
    two_i = torch.arange(0, D, 2)  # (D/2,)
    return pos / 10000 ** (two_i / D)


class RotaryEncoding(nn.Module):
    """RoPE: turns q and k by an angle that grows with the position, so that q·k depends on the distance alone.

    Channel i makes a pair with channel i + D/2, as in Llama. (The paper pairs neighbours: the same but for the order of
    the channels. Weights made for one are of no use to the other.)
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, context: int, D: int) -> None:
        super().__init__()
        angles = rotation_angles(context, D)
        angles = torch.cat([angles, angles], dim=-1)  # (context, D): both channels of a pair turn alike
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """q or k (B, H, T, D) → the same, turned"""
        T = x.shape[2]
        refuse_longer(T, len(self.cos))
        first, second = x.chunk(2, dim=-1)  # (B, H, T, D/2) each
        quarter_turn = torch.cat([-second, first], dim=-1)  # (B, H, T, D)
        rotated = x * self.cos[:T] + quarter_turn * self.sin[:T]
        return rotated
