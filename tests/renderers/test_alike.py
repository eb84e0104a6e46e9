"""What another block has shown is not shown again: the attention of a layer whose experts differ from the first's."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.schema import Trace

Text: TypeAlias = Callable[..., str]


class Hidden(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)
        active = hidden.relu()
        scaled = active * 2
        shifted = scaled + 1
        out = self.down(shifted)
        return out


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = Hidden(16), Hidden(width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        z = self.other(y)
        return z


class Net(nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for width in widths)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def traced(*widths: int) -> Trace:
    return shapetrace.trace(Net(*widths), torch.zeros(2, 4, 8), axes=False)


def test_a_module_that_another_block_has_shown_is_one_row(text: Text) -> None:
    assert text(traced(24, 32, 24)) == (
        """\
Net   float32 cpu
                          shape     stride      memory
├─ x                      (2,4,8)   (32,8,1)    input
├─ layers.0 → x  Block
│ ├─ x                    (2,4,8)   (32,8,1)    input
│ ├─ one → y  Hidden
│ │ ├─ x                  (2,4,8)   (32,8,1)    input
│ │ ├─ hidden  up Linear  (2,4,16)  (64,16,1)   new
│ │ ├─ active  relu       (2,4,16)  (64,16,1)   new
│ │ ├─ scaled  *          (2,4,16)  (64,16,1)   new
│ │ ├─ shifted  +         (2,4,16)  (64,16,1)   new
│ │ └─ out  down Linear   (2,4,8)   (32,8,1)    new
│ └─ other → z  Hidden
│   ├─ x                  (2,4,8)   (32,8,1)    input = y
│   ├─ hidden  up Linear  (2,4,24)  (96,24,1)   new
│   ├─ active  relu       (2,4,24)  (96,24,1)   new
│   ├─ scaled  *          (2,4,24)  (96,24,1)   new
│   ├─ shifted  +         (2,4,24)  (96,24,1)   new
│   └─ out  down Linear   (2,4,8)   (32,8,1)    new
├─ layers.1 → x  Block
│ ├─ x                    (2,4,8)   (32,8,1)    input
│ ├─ y  one Hidden        (2,4,8)   (32,8,1)    new · inside as layers.0.one
│ └─ other → z  Hidden
│   ├─ x                  (2,4,8)   (32,8,1)    input = y
│   ├─ hidden  up Linear  (2,4,32)  (128,32,1)  new
│   ├─ active  relu       (2,4,32)  (128,32,1)  new
│   ├─ scaled  *          (2,4,32)  (128,32,1)  new
│   ├─ shifted  +         (2,4,32)  (128,32,1)  new
│   └─ out  down Linear   (2,4,8)   (32,8,1)    new
└─ x  layers.2 Block      (2,4,8)   (32,8,1)    new · inside as layers.0"""
    )


def test_all_shows_it_again(text: Text) -> None:
    shown = text(traced(24, 32, 24), all=True)
    assert "inside as" not in shown
    assert shown.count("hidden  ") == 6


def test_what_has_few_rows_is_shown_again(text: Text) -> None:
    shown = text(shapetrace.trace(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())), torch.zeros(2)))
    assert "inside as" not in shown
