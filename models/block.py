"""Block: self-attention, then feed-forward, each added to the residual stream x.

B  batch    C  model width
T  length
"""

from torch import Tensor, nn

from .attention import MultiHeadAttention
from .config import Config
from .feed_forward import FeedForward, SwiGLU


class Block(nn.Module):
    """One layer of a GPT or of an encoder.

    norm="pre"    x + f(norm(x))   x runs through untouched; the model needs one more norm at its end
    norm="post"   norm(x + f(x))   x is normalised after every addition, as in the paper
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.norm_1 = normalization(config)
        self.attention = MultiHeadAttention(
            config.C,
            config.H,
            G=config.G,
            qkv=config.qkv,
            attention=config.attention,
            rotary=config.context if config.positions == "rope" else None,
            bias=config.bias,
        )
        self.norm_2 = normalization(config)
        self.feed_forward = feed_forward(config)

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


def normalization(config: Config) -> nn.Module:
    """LayerNorm, or RMSNorm, which takes no mean away (Zhang and Sennrich, 2019, arXiv:1910.07467)."""
    return nn.LayerNorm(config.C) if config.norm_kind == "layer" else nn.RMSNorm(config.C, eps=1e-6)


def feed_forward(config: Config) -> nn.Module:
    if config.activation == "swiglu":
        return SwiGLU(config.C, config.F, bias=config.bias)
    return FeedForward(config.C, config.F, activation=config.activation, bias=config.bias)
