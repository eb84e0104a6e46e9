"""Attention: every query looks at all keys and takes from their values.

B  batch               H  heads
T  target length       G  key and value heads, each of which H / G heads share
S  source length       D  head width, C / H
C  model width

Queries come from the target, keys and values from the source. In self-attention both are the same sentence (S = T);
in cross-attention the target is what the decoder writes and the source is what the encoder has read.

q, k and v are activations; the parameters are the matrices that make them: w_q, w_k, w_v, or all three in w_qkv.
"""

import math

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .config import QKV, AttentionKind
from .positions import RotaryEncoding


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


def attend_fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The same in one call of torch, which never makes the scores. Its mask is True where a query *may* see a key."""
    head_output = scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else ~mask)  # (B, H, T, D)
    return head_output


class MultiHeadAttention(nn.Module):
    """H heads that attend side by side, each in D of the C channels; w_o then mixes what they found.

    G          key and value heads: H (multi-head attention), fewer (grouped-query), or 1 (multi-query)
    qkv        "separate" projects with three matrices, and so serves self-attention and cross-attention; "fused" puts
               the three into one: one large product, for self-attention only
    attention  "explicit" is `attend`, "sdpa" is `attend_fused`
    rotary     the longest input of rotary positions; None: there are none
    """

    def __init__(
        self,
        C: int,
        H: int,
        *,
        G: int | None = None,
        qkv: QKV = "separate",
        attention: AttentionKind = "explicit",
        rotary: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.H = H
        self.G = H if G is None else G
        self.D = C // H
        self.fused = qkv == "fused"
        self.attend = attend if attention == "explicit" else attend_fused
        self.rotary = None if rotary is None else RotaryEncoding(rotary, self.D)
        width = self.G * self.D  # of all key heads together, and of all value heads
        if self.fused:
            self.w_qkv = nn.Linear(C, C + 2 * width, bias=bias)
        else:
            self.w_q = nn.Linear(C, C, bias=bias)
            self.w_k = nn.Linear(C, width, bias=bias)
            self.w_v = nn.Linear(C, width, bias=bias)
        self.w_o = nn.Linear(C, C, bias=bias)

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
        H, G, D = self.H, self.G, self.D

        if self.fused:
            qkv = self.w_qkv(x)  # (B, T, 3C), less if G < H
            q, k, v = qkv.split([C, G * D, G * D], dim=-1)  # (B, T, C) and twice (B, T, G·D)
        else:
            q = self.w_q(x)  # (B, T, C)
            k = self.w_k(source)  # (B, S, G·D)
            v = self.w_v(source)  # (B, S, G·D)

        q = q.view(B, T, H, D).transpose(1, 2)  # (B, H, T, D)
        k = k.view(B, S, G, D).transpose(1, 2)  # (B, G, S, D)
        v = v.view(B, S, G, D).transpose(1, 2)  # (B, G, S, D)
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        if G < H:
            k = k.repeat_interleave(H // G, dim=1)  # (B, H, S, D)
            v = v.repeat_interleave(H // G, dim=1)  # (B, H, S, D)

        head_output = self.attend(q, k, v, mask)  # (B, H, T, D)

        # transpose only swaps strides; view needs the heads of a token side by side in memory, so contiguous copies.
        concat = head_output.transpose(1, 2).contiguous().view(B, T, C)  # (B, T, C)
        out: Tensor = self.w_o(concat)
        return out
