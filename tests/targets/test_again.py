"""A builder makes its model again at other sizes, with those of its letters that go together."""

from pathlib import Path

import pytest

from shapetrace.targets import Request, record

CHUNKED = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, C: int = 16, H: int = 4, W: int = 4) -> None:
        super().__init__()
        self.qkv, self.out, self.H, self.W = nn.Linear(C, 3 * C), nn.Linear(C, C), H, W

    def forward(self, x):
        B, T, C = x.shape
        y = self.qkv(x.view(B, T // self.W, self.W, C))
        q, k, v = y.unflatten(-1, (3, self.H, C // self.H)).permute(3, 0, 1, 4, 2, 5).unbind(0)
        weights = (q @ k.mT).softmax(-1)
        return self.out((weights @ v).transpose(2, 3).reshape(B, T, C))


def build(B: int = 2, T: int = 8, C: int = 16, H: int = 4, W: int = 4):
    return Block(C, H, W), (torch.randn(B, T, C),)
"""


@pytest.mark.parametrize(("name", "inputs"), [("build", ()), ("Block", ("x: float32[B=2, T=8, 16]",))])
def test_a_length_in_chunks_of_a_letter_of_its_own(name: str, inputs: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "chunked.py").write_text(CHUNKED)
    trace = record(Request(f"{tmp_path / 'chunked.py'}:{name}", inputs=inputs))
    assert trace.notes == ()
    assert trace.calls[0].inputs["x"].axes == ("B", "T", "C")
    (weights,) = trace.roles("weights")
    assert weights.axes == ("B", "T/4", "H", 4, 4)
