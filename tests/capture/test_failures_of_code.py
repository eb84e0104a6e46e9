"""What an exception is told where no call of torch failed, but what is written between them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace

from .test_failures import IDS, text


class Written(nn.Module):
    """Embeds ids, and goes on with them as a test says."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.token = nn.Embedding(16, 8)
        self.up = nn.Linear(8, 32)
        self.step = step

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        x = self.token(ids)
        y = self.up(x)
        return self.step(x, y)


class Padded(Written):
    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        x = self.token(ids)
        return x.masked_fill(mask[:, None] == 0, 0.0)  # type: ignore[index]


def refused(x: Tensor, y: Tensor) -> None:
    assert x.shape == y.shape


def added(x: Tensor, y: Tensor) -> Any:
    bias = None
    return y + bias


def misspelt(x: Tensor, y: Tensor) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask=None)  # type: ignore[call-arg]


@pytest.mark.parametrize(("step", "end"), [(refused, ""), (added, "\n  bias is None"), (misspelt, "")])
def test_what_python_raises_is_placed_with_the_tensors_made_before_it(step: Any, end: str) -> None:
    assert text(Written(step), IDS) == (
        f"""\
shapetrace: raised in Written
  …/test_failures_of_code.py
    ids  [B, T]      (2, 4)      stride (4, 1)        int64    input of the model
    x    [B, T, 8]   (2, 4, 8)   stride (32, 8, 1)    float32  from token(ids) (test_failures_of_code.py)
    y    [B, T, 32]  (2, 4, 32)  stride (128, 32, 1)  float32  from up(x) (test_failures_of_code.py){end}"""
    )


def test_the_line_of_what_python_raises_is_the_users_innermost() -> None:
    with pytest.raises(AssertionError) as raised:
        shapetrace.trace(Written(refused), IDS)
    assert f"test_failures_of_code.py:{refused.__code__.co_firstlineno + 1}\n" in "".join(raised.value.__notes__)


def test_an_argument_that_was_not_given_is_told() -> None:
    assert text(Padded(refused), IDS).endswith("\n  mask, an argument of forward, is None")
