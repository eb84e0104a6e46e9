"""Attention: every query looks at all keys and takes from their values.

B  batch               H  heads
T  target length       D  head width, C / H
S  source length       C  model width

Queries come from the target, keys and values from the source. In self-attention both are the same sentence (S = T);
in cross-attention the target is what the decoder writes and the source is what the encoder has read.

q, k and v are activations; the parameters are the matrices that make them: w_q, w_k, w_v, or all three in w_qkv.
"""

import math
from typing import Literal

from torch import Tensor, nn

QKV = Literal["separate", "fused"]


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """softmax(q kᵀ / √D) v, equation 1 of the paper, in every head at once.

    q (B, H, T, D), k and v (B, H, S, D) → (B, H, T, D). The mask broadcasts to (B, H, T, S), True where a query must
    not see a key. It comes before softmax, so that the weights which remain still sum to 1.
    """
    D = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    weights = scores.softmax(dim=-1)
    head_output = weights @ v  # (B, H, T, D)
    return head_output


class MultiHeadAttention(nn.Module):
    """H heads that attend side by side, each in D of the C channels; w_o then mixes what they found.

    qkv="separate" projects with three matrices, and so serves self-attention and cross-attention.
    qkv="fused" puts the three into one, three times as wide: one large product, for self-attention only.
    """

    def __init__(self, C: int, H: int, *, qkv: QKV = "separate") -> None:
        super().__init__()
        self.H = H
        self.D = C // H
        self.fused = qkv == "fused"
        if self.fused:
            self.w_qkv = nn.Linear(C, 3 * C)
        else:
            self.w_q = nn.Linear(C, C)
            self.w_k = nn.Linear(C, C)
            self.w_v = nn.Linear(C, C)
        self.w_o = nn.Linear(C, C)

    def forward(self, x: Tensor, source: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """x (B, T, C), source (B, S, C) or None for self-attention → (B, T, C)"""
        if source is None:
            source = x
        elif self.fused:
            raise ValueError(
                "a fused projection makes q, k and v from one input: build with qkv='separate' for a source"
            )
        B, T, C = x.shape
        S = source.shape[1]
        H, D = self.H, self.D

        if self.fused:
            qkv = self.w_qkv(x)  # (B, T, 3C)
            q, k, v = qkv.split(C, dim=-1)  # (B, T, C) each
        else:
            q = self.w_q(x)  # (B, T, C)
            k = self.w_k(source)  # (B, S, C)
            v = self.w_v(source)  # (B, S, C)

        q = q.view(B, T, H, D).transpose(1, 2)  # (B, H, T, D)
        k = k.view(B, S, H, D).transpose(1, 2)  # (B, H, S, D)
        v = v.view(B, S, H, D).transpose(1, 2)  # (B, H, S, D)

        head_output = attend(q, k, v, mask)  # (B, H, T, D)

        # transpose only swaps strides; view needs the heads of a token side by side in memory, so contiguous copies.
        concat = head_output.transpose(1, 2).contiguous().view(B, T, C)  # (B, T, C)
        out: Tensor = self.w_o(concat)
        return out
