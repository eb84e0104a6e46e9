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


PLAIN = """
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


class Fixed(Residual):
    def forward(self, x):
        assert x.shape[1] == 4
        return super().forward(x)


linear = nn.Linear(8, 8)
stack = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 8))
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", ["B T C", "B T 8"]),
        ("stack", ["B T C", "B T C", "B T 4", "B T 4", "B T 8"]),  # 4 is no T, and an 8 made anew no C
        ("Residual", ["B T C", "B T C", "B T 32", "B T C", "B T C"]),
        ("Fixed", ["B T C", "B T C", "B T 32", "B T C", "B T C"]),
    ],
)
def test_a_letter_that_weights_fix_is_that_of_the_dim_and_of_what_keeps_it(
    name: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    trace = record(Request(f"{tmp_path / 'plain.py'}:{name}", inputs=("float32[B=2, T=4, C=8]",)))
    modules = [call for call in trace.calls if call.kind == "module"]
    tensors = [*modules[0].inputs.values(), *(out for call in modules[1:] for out in call.outputs.values())]
    tensors += [] if modules[1:] and name == "stack" else [*modules[0].outputs.values()]
    assert [" ".join(map(str, tensor.axes or tensor.shape)) for tensor in tensors] == expected
    assert trace.sizes == {"B": 2, "T": 4, "C": 8}


def test_the_names_of_inputs_without_a_name_go_by_position(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "import torch\nfrom torch import nn\nclass Two(nn.Module):\n"
        "    def forward(self, x, y, scale=None):\n        return x * scale @ y\n"
    )
    inputs = ("scale: float32[C=8]", "float32[B=2, C=8]", "float32[C=8, F=3]")
    trace = record(Request(f"{tmp_path / 'two.py'}:Two", inputs=inputs))
    assert {key: tensor.axes for key, tensor in trace.calls[0].inputs.items()} == {
        "x": ("B", "C"), "y": ("C", "F"), "scale": ("C",),
    }  # fmt: skip
    assert trace.calls[0].outputs[""].axes == ("B", "F")
