from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.renderers import Style, render
from shapetrace.schema import Trace


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        normed = x * torch.rsqrt(variance + 1e-6)
        return normed * self.weight


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_qkv = nn.Linear(4, 12)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.w_qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        weights = self.drop(scores.softmax(-1))
        return weights @ v


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RMSNorm()
        self.attention = Attention()

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attention(self.norm(x), mask)
        return x


class Model(nn.Module):
    """Blocks of one head each: what a reader would write in an evening."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(4, 8, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1])
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(scope="session")
def small() -> Callable[[int], Trace]:
    """The plain record of a small model with so many layers, which says nothing of axes and roles."""

    def traced(layers: int) -> Trace:
        return shapetrace.trace(Model(layers).eval(), torch.zeros(2, 3, dtype=torch.int64), axes=False)

    return traced


@pytest.fixture(scope="session")
def attention() -> Attention:
    return Attention().eval()


@pytest.fixture(scope="session")
def text() -> Callable[..., str]:
    """A trace as plain text in 80 columns, or as its options say."""

    def rendered(
        trace: Trace, format: str = "tree", *, width: int = 80, all: bool = False, depth: int | None = None
    ) -> str:
        return render(trace, Style(width=width, color=False, all=all, depth=depth), format)

    return rendered
