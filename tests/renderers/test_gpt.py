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
GPT  decoder-only · pre-LN · learned positions
B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu
                              axes       shape      memory
├─ ids                        [B,T]      (2,4)      input · int64
├─ targets                    [B,T]      (2,4)      input · int64
├─ tokens  token_embedding    [B,T,C]    (2,4,8)    new
├─ positions  position_embe…  [T,C]      (4,8)      new
├─ x · residual  +            [B,T,C]    (2,4,8)    new
├─ blocks.0  Block · pre-LN block                   blocks.1 is identical
│ ├─ x                        [B,T,C]    (2,4,8)    input
│ ├─ normed  norm_1           [B,T,C]    (2,4,8)    new
│ ├─ attention  MultiHeadAttention · causal self-attention
│ │ ├─ x                      [B,T,C]    (2,4,8)    input = normed
│ │ ├─ qkv  w_qkv Linear      [B,T,3·C]  (2,4,24)   new
│ │ ├─ q  split               [B,T,C]    (2,4,8)    view of qkv · not contiguous
│ │ ├─ k  split               [B,T,C]    (2,4,8)    view of qkv · not contiguous
│ │ ├─ v  split               [B,T,C]    (2,4,8)    view of qkv · not contiguous
│ │ ├─ q  transpose           [B,H,T,D]  (2,2,4,4)  view of qkv · not contiguous
│ │ ├─ k  transpose           [B,H,T,D]  (2,2,4,4)  view of qkv · not contiguous
│ │ ├─ v  transpose           [B,H,T,D]  (2,2,4,4)  view of qkv · not contiguous
│ │ ├─ scores  /              [B,H,T,T]  (2,2,4,4)  new
│ │ ├─ scores  masked_fill    [B,H,T,T]  (2,2,4,4)  new
│ │ ├─ weights  softmax       [B,H,T,T]  (2,2,4,4)  new
│ │ ├─ head_output  @         [B,H,T,D]  (2,2,4,4)  new
│ │ ├─ concat  contiguous     [B,T,C]    (2,4,8)    copy, 256 B:
│ │ │                         head_output.transpose(1, 2) was not contiguous
│ │ └─ out · attn_out  w_o    [B,T,C]    (2,4,8)    new
│ ├─ x · residual  +          [B,T,C]    (2,4,8)    new
│ ├─ normed  norm_2           [B,T,C]    (2,4,8)    new
│ ├─ feed_forward  FeedForward
│ │ ├─ x                      [B,T,C]    (2,4,8)    input = normed
│ │ ├─ hidden  w_up Linear    [B,T,F]    (2,4,32)   new
│ │ ├─ hidden · ffn_hidden    [B,T,F]    (2,4,32)   new
│ │ └─ out · ffn_out  w_down  [B,T,C]    (2,4,8)    new
│ └─ x · residual  +          [B,T,C]    (2,4,8)    new
├─ x  norm_f LayerNorm        [B,T,C]    (2,4,8)    new
├─ logits  head Linear        [B,T,V]    (2,4,16)   new
└─ loss  cross_entropy                   ()         new
13.3 kB in activations · 2 copies, 512 B: contiguous 2"""

WIDE = """\
GPT  decoder-only · pre-LN · learned positions   B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu
                                               axes          shape         stride          memory
├─ ids                                         [B, T]        (2, 4)        (4, 1)          input · int64
├─ targets                                     [B, T]        (2, 4)        (4, 1)          input · int64
├─ tokens  token_embedding Embedding           [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
├─ positions  position_embedding Embedding     [T, C]        (4, 8)        (8, 1)          new
├─ x · residual  +                             [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
├─ blocks.0  Block · pre-LN block                                                          blocks.1 is identical
│  ├─ x                                        [B, T, C]     (2, 4, 8)     (32, 8, 1)      input
│  ├─ normed  norm_1 LayerNorm                 [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
│  ├─ attention  MultiHeadAttention · causal self-attention
│  │  ├─ x                                     [B, T, C]     (2, 4, 8)     (32, 8, 1)      input = normed
│  │  ├─ qkv  w_qkv Linear                     [B, T, 3·C]   (2, 4, 24)    (96, 24, 1)     new
│  │  ├─ q  split                              [B, T, C]     (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ k  split                              [B, T, C]     (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ v  split                              [B, T, C]     (2, 4, 8)     (96, 24, 1)     view of qkv · not contiguous
│  │  ├─ q  transpose                          [B, H, T, D]  (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ k  transpose                          [B, H, T, D]  (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ v  transpose                          [B, H, T, D]  (2, 2, 4, 4)  (96, 4, 24, 1)  view of qkv · not contiguous
│  │  ├─ scores  /                             [B, H, T, T]  (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ scores  masked_fill                   [B, H, T, T]  (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ weights  softmax                      [B, H, T, T]  (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ head_output  @                        [B, H, T, D]  (2, 2, 4, 4)  (32, 16, 4, 1)  new
│  │  ├─ concat  contiguous                    [B, T, C]     (2, 4, 8)     (32, 8, 1)      copy, 256 B:
│  │  │                                                      head_output.transpose(1, 2) was not contiguous
│  │  └─ out · attn_out  w_o Linear            [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
│  ├─ x · residual  +                          [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
│  ├─ normed  norm_2 LayerNorm                 [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
│  ├─ feed_forward  FeedForward
│  │  ├─ x                                     [B, T, C]     (2, 4, 8)     (32, 8, 1)      input = normed
│  │  ├─ hidden  w_up Linear                   [B, T, F]     (2, 4, 32)    (128, 32, 1)    new
│  │  ├─ hidden · ffn_hidden  activation GELU  [B, T, F]     (2, 4, 32)    (128, 32, 1)    new
│  │  └─ out · ffn_out  w_down Linear          [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
│  └─ x · residual  +                          [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
├─ x  norm_f LayerNorm                         [B, T, C]     (2, 4, 8)     (32, 8, 1)      new
├─ logits  head Linear                         [B, T, V]     (2, 4, 16)    (64, 16, 1)     new
└─ loss  cross_entropy                                       ()            ()              new
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
