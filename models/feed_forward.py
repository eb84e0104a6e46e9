"""Feed-forward: the same two layers at every position. Attention mixes tokens, this transforms channels.

B  batch    C  model width
T  length   F  feed-forward width, usually 4·C
"""

from typing import Literal

from torch import Tensor, nn

Activation = Literal["relu", "gelu"]


class FeedForward(nn.Module):
    """C → F → C with ReLU (the paper) or GELU (GPT, BERT) between."""

    def __init__(self, C: int, F: int, *, activation: Activation) -> None:
        super().__init__()
        self.w_up = nn.Linear(C, F)
        self.activation = nn.ReLU() if activation == "relu" else nn.GELU()
        self.w_down = nn.Linear(F, C)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) → (B, T, C)"""
        hidden = self.w_up(x)  # (B, T, F)
        hidden = self.activation(hidden)
        out: Tensor = self.w_down(hidden)  # (B, T, C)
        return out
