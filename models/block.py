"""Block: self-attention, then feed-forward, each added to the residual stream x.

B  batch    H  heads
T  length   F  feed-forward width
C  model width
"""

from typing import Literal

from torch import Tensor, nn

from .attention import QKV, MultiHeadAttention
from .feed_forward import Activation, FeedForward


class Block(nn.Module):
    """One layer of a GPT (norm="pre") or of an encoder (norm="post").

    pre-LN    x + f(norm(x))   x runs through untouched; the model needs one more norm at its end
    post-LN   norm(x + f(x))   x is normalised after every addition, as in the paper
    """

    def __init__(
        self,
        C: int,
        H: int,
        F: int,
        *,
        norm: Literal["pre", "post"],
        activation: Activation,
        qkv: QKV,
    ) -> None:
        super().__init__()
        self.pre_norm = norm == "pre"
        self.norm_1 = nn.LayerNorm(C)
        self.attention = MultiHeadAttention(C, H, qkv=qkv)
        self.norm_2 = nn.LayerNorm(C)
        self.feed_forward = FeedForward(C, F, activation=activation)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, T, C) → (B, T, C), with a mask as `attend` takes it"""
        if self.pre_norm:
            normed = self.norm_1(x)
            x = x + self.attention(normed, mask=mask)
            normed = self.norm_2(x)
            x = x + self.feed_forward(normed)
        else:
            x = x + self.attention(x, mask=mask)
            x = self.norm_1(x)
            x = x + self.feed_forward(x)
            x = self.norm_2(x)
        return x
