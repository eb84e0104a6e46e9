"""The tree of the reference GPT, whole, as a reader sees it."""

from pathlib import Path

import pytest

import shapetrace
from shapetrace.models.gpt import gpt
from shapetrace.renderers import Style, render
from shapetrace.schema import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    model, args, kwargs = gpt(B=2, T=4)
    return shapetrace.trace(model, *args, **kwargs)


EIGHTY = """\
GPT  decoder-only · pre-LN · learned positions   C=8 H=2 D=4 F=32 V=16 L=2
float32 cpu
                            shape      stride       memory
├─ ids                      (2,4)      (4,1)        input · int64
├─ targets                  (2,4)      (4,1)        input · int64
├─ tokens  token_embedding  (2,4,8)    (32,8,1)     new
├─ positions  position_em…  (4,8)      (8,1)        new
├─ x  +                     (2,4,8)    (32,8,1)     new
├─ blocks.0  Block                                  blocks.1 is identical
│ ├─ x                      (2,4,8)    (32,8,1)     input
│ ├─ normed  norm_1         (2,4,8)    (32,8,1)     new
│ ├─ attention  MultiHeadAttention
│ │ ├─ x                    (2,4,8)    (32,8,1)     input = normed
│ │ ├─ qkv  w_qkv Linear    (2,4,24)   (96,24,1)    new
│ │ ├─ q  split             (2,4,8)    (96,24,1)    view of qkv · not contiguous
│ │ ├─ k  split             (2,4,8)    (96,24,1)    view of qkv · not contiguous
│ │ ├─ v  split             (2,4,8)    (96,24,1)    view of qkv · not contiguous
│ │ ├─ q  transpose         (2,2,4,4)  (96,4,24,1)  view of qkv · not contiguous
│ │ ├─ k  transpose         (2,2,4,4)  (96,4,24,1)  view of qkv · not contiguous
│ │ ├─ v  transpose         (2,2,4,4)  (96,4,24,1)  view of qkv · not contiguous
│ │ ├─ scores  /            (2,2,4,4)  (32,16,4,1)  new
│ │ ├─ scores  masked_fill  (2,2,4,4)  (32,16,4,1)  new
│ │ ├─ weights  softmax     (2,2,4,4)  (32,16,4,1)  new
│ │ ├─ head_output  @       (2,2,4,4)  (32,16,4,1)  new
│ │ ├─ concat  contiguous   (2,4,8)    (32,8,1)     copy, 256 B:
│ │ │                       head_output.transpose(1, 2) was not contiguous
│ │ └─ out  w_o Linear      (2,4,8)    (32,8,1)     new
│ ├─ x  +                   (2,4,8)    (32,8,1)     new
│ ├─ normed  norm_2         (2,4,8)    (32,8,1)     new
│ ├─ feed_forward  FeedForward
│ │ ├─ x                    (2,4,8)    (32,8,1)     input = normed
│ │ ├─ hidden  w_up Linear  (2,4,32)   (128,32,1)   new
│ │ ├─ hidden  activation   (2,4,32)   (128,32,1)   new
│ │ └─ out  w_down Linear   (2,4,8)    (32,8,1)     new
│ └─ x  +                   (2,4,8)    (32,8,1)     new
├─ x  norm_f LayerNorm      (2,4,8)    (32,8,1)     new
├─ logits  head Linear      (2,4,16)   (64,16,1)    new
└─ loss  cross_entropy      ()         ()           new
13.3 kB in activations · 2 copies, 512 B: contiguous 2"""

WIDE = """\
GPT  decoder-only · pre-LN · learned positions   C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu
                                            shape         stride          memory
├─ ids                                      (2, 4)        (4, 1)          input · int64
├─ targets                                  (2, 4)        (4, 1)          input · int64
├─ tokens  token_embedding Embedding        (2, 4, 8)     (32, 8, 1)      new
├─ positions  position_embedding Embedding  (4, 8)        (8, 1)          new
├─ x  +                                     (2, 4, 8)     (32, 8, 1)      new
├─ blocks.0  Block                                                        blocks.1 is identical
│  ├─ x                                     (2, 4, 8)     (32, 8, 1)      input
│  ├─ normed  norm_1 LayerNorm              (2, 4, 8)     (32, 8, 1)      new
│  ├─ attention  MultiHeadAttention
│  │  ├─ x                                  (2, 4, 8)     (32, 8, 1)      input = normed
│  │  ├─ qkv  w_qkv Linear                  (2, 4, 24)    (96, 24, 1)     new
│  │  ├─ q  split                           (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ k  split                           (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ v  split                           (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ q  transpose                       (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ k  transpose                       (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ v  transpose                       (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ scores  /                          (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ scores  masked_fill                (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ weights  softmax                   (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ head_output  @                     (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ concat  contiguous                 (2, 4, 8)     (32, 8, 1)      copy, 256 B:
│  │  │                                                                   head_output.transpose(1, 2) was not contiguous
│  │  └─ out  w_o Linear                    (2, 4, 8)     (32, 8, 1)      new
│  ├─ x  +                                  (2, 4, 8)     (32, 8, 1)      new
│  ├─ normed  norm_2 LayerNorm              (2, 4, 8)     (32, 8, 1)      new
│  ├─ feed_forward  FeedForward
│  │  ├─ x                                  (2, 4, 8)     (32, 8, 1)      input = normed
│  │  ├─ hidden  w_up Linear                (2, 4, 32)    (128, 32, 1)    new
│  │  ├─ hidden  activation GELU            (2, 4, 32)    (128, 32, 1)    new
│  │  └─ out  w_down Linear                 (2, 4, 8)     (32, 8, 1)      new
│  └─ x  +                                  (2, 4, 8)     (32, 8, 1)      new
├─ x  norm_f LayerNorm                      (2, 4, 8)     (32, 8, 1)      new
├─ logits  head Linear                      (2, 4, 16)    (64, 16, 1)     new
└─ loss  cross_entropy                      ()            ()              new
13.3 kB in activations · 2 copies, 512 B: contiguous 2"""


def test_gpt_at_80_columns(trace: Trace) -> None:
    assert render(trace, Style(width=80, color=False)) == EIGHTY


def test_gpt_at_120_columns(trace: Trace) -> None:
    assert render(trace, Style(width=120, color=False)) == WIDE


def test_printing_a_trace_shows_its_tree_in_80_columns_where_there_is_no_terminal(trace: Trace) -> None:
    assert str(trace) == EIGHTY


def test_what_was_saved_shows_as_what_was_traced(trace: Trace, tmp_path: Path) -> None:
    trace.save(tmp_path / "gpt.jsonl")
    loaded = shapetrace.load(tmp_path / "gpt.jsonl")
    for format in ("tree", "table", "markdown"):
        assert render(loaded, Style(width=80, color=False), format) == render(
            trace, Style(width=80, color=False), format
        )
