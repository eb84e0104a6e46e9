"""Feed-forward: the same layers at every position. Attention mixes tokens, this transforms channels.

B  batch    C  model width
T  length   F  feed-forward width, usually 4·C
"""

from torch import Tensor, nn
from torch.nn.functional import silu

from .config import Activation


class FeedForward(nn.Module):
    """C → F → C with ReLU (the paper) or GELU (GPT, BERT) between. GPT-2 has GELU's tanh approximation."""

    def __init__(self, C: int, F: int, *, activation: Activation, bias: bool = True) -> None:
        super().__init__()
        self.w_up = nn.Linear(C, F, bias=bias)
        approximate = "tanh" if activation == "gelu_tanh" else "none"
        self.activation = nn.ReLU() if activation == "relu" else nn.GELU(approximate)
        self.w_down = nn.Linear(F, C, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) → (B, T, C)"""
        hidden = self.w_up(x)  # (B, T, F)
        hidden = self.activation(hidden)
        out: Tensor = self.w_down(hidden)  # (B, T, C)
        return out


class SwiGLU(nn.Module):
    """Two ways up to F, one of which opens and closes the other: equation 6 of Shazeer, 2020 (arXiv:2002.05202)."""

    def __init__(self, C: int, F: int, *, bias: bool = False) -> None:
        super().__init__()
        self.w_gate = nn.Linear(C, F, bias=bias)
        self.w_up = nn.Linear(C, F, bias=bias)
        self.w_down = nn.Linear(F, C, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) → (B, T, C)"""
        gate = silu(self.w_gate(x))  # (B, T, F)
        hidden = gate * self.w_up(x)  # (B, T, F)
        out: Tensor = self.w_down(hidden)  # (B, T, C)
        return out
