import re
from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shapetrace
from shapetrace.schema import Call, TensorMeta, Trace

Small: TypeAlias = Callable[[int], Trace]
Text: TypeAlias = Callable[..., str]


def rows(shown: str, name: str) -> list[str]:
    """The rows of a tree that begin with `name`, without their guides."""
    return [row for line in shown.splitlines() if (row := line.lstrip("│├└─ ")).startswith(name)]


def test_a_tree_shows_named_tensors_below_their_modules(small: Small, text: Text) -> None:
    assert (
        text(small(1))
        == """\
Model   float32 cpu
                          shape     stride     memory
├─ ids                    (2,3)     (3,1)      input · int64
├─ x  embedding           (2,3,4)   (12,4,1)   new
├─ blocks.0  Block
│ ├─ x                    (2,3,4)   (12,4,1)   input
│ ├─ norm  RMSNorm        (2,3,4)   (12,4,1)   new
│ ├─ attention  Attention
│ │ ├─ x                  (2,3,4)   (12,4,1)   input = norm(x)
│ │ ├─ w_qkv  Linear      (2,3,12)  (36,12,1)  new
│ │ ├─ q  chunk           (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ │ ├─ k  chunk           (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ │ ├─ v  chunk           (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ │ ├─ scores  @          (2,3,3)   (9,3,1)    new
│ │ ├─ scores  masked_f…  (2,3,3)   (9,3,1)    new
│ │ ├─ weights  drop      (2,3,3)   (9,3,1)    new
│ │ └─ output             (2,3,4)   (12,4,1)   new
│ └─ x  +                 (2,3,4)   (12,4,1)   new
└─ head  Linear           (2,3,8)   (24,8,1)   new"""
    )


def test_with_all_every_call_is_there(small: Small, text: Text) -> None:
    shown = text(small(1), all=True)
    assert (
        shown[: shown.index("├─ attention")]
        == """\
Model   float32 cpu
                          shape     stride     memory
├─ ids                    (2,3)     (3,1)      input · int64
├─ positions  arange      (3,)      (1,)       new · int64
├─ embedding  Embedding
│ ├─ input                (2,3)     (3,1)      input = ids · int64
│ ├─ embedding            (2,3,4)   (12,4,1)   new
│ └─ x  output            (2,3,4)   (12,4,1)   new
├─ blocks.0  Block
│ ├─ x                    (2,3,4)   (12,4,1)   input
│ ├─ ones                 (3,3)     (3,1)      new · bool
│ ├─ mask  triu           (3,3)     (3,1)      new · bool
│ ├─ norm  RMSNorm
│ │ ├─ x                  (2,3,4)   (12,4,1)   input
│ │ ├─ pow                (2,3,4)   (12,4,1)   new
│ │ ├─ variance  mean     (2,3,1)   (3,1,1)    new
│ │ ├─ add                (2,3,1)   (3,1,1)    new
│ │ ├─ rsqrt              (2,3,1)   (3,1,1)    new
│ │ ├─ normed  *          (2,3,4)   (12,4,1)   new
│ │ ├─ mul                (2,3,4)   (12,4,1)   new
│ │ └─ output             (2,3,4)   (12,4,1)   new
│ """
    )


# Modules that are identical, and depth


def test_blocks_that_are_identical_are_shown_once(small: Small, text: Text) -> None:
    one, twelve = text(small(1)), text(small(12))
    assert rows(twelve, "blocks") == ["blocks.0  Block                  ×12: blocks.0 … blocks.11 are identical"]
    assert [line for line in twelve.splitlines() if "×12" not in line] == [
        line for line in one.splitlines() if "blocks.0" not in line
    ]


def test_with_all_identical_blocks_are_all_shown(small: Small, text: Text) -> None:
    assert rows(text(small(3), all=True), "blocks") == ["blocks.0  Block", "blocks.1  Block", "blocks.2  Block"]


def test_depth_0_shows_what_goes_in_and_what_comes_out(small: Small, text: Text) -> None:
    assert (
        text(small(3), depth=0)
        == """\
Model   float32 cpu
           shape    stride    memory
├─ ids     (2,3)    (3,1)     input · int64
└─ output  (2,3,8)  (24,8,1)  new"""
    )


def test_depth_1_shows_the_modules_of_the_model_as_one_row_each(small: Small, text: Text) -> None:
    assert (
        text(small(3), depth=1)
        == """\
Model   float32 cpu
                           shape    stride    memory
├─ ids                     (2,3)    (3,1)     input · int64
├─ x  embedding Embedding  (2,3,4)  (12,4,1)  new
├─ x  blocks.0 Block       (2,3,4)  (12,4,1)  new
│                                   ×3: blocks.0 … blocks.2 are identical
└─ head  Linear            (2,3,8)  (24,8,1)  new"""
    )


def test_depth_2_opens_the_blocks_but_not_their_attention(small: Small, text: Text) -> None:
    shown = text(small(3), depth=2)
    assert rows(shown, "blocks") == ["blocks.0  Block                  ×3: blocks.0 … blocks.2 are identical"]
    assert rows(shown, "attention") == ["attention  Attention  (2,3,4)  (12,4,1)  new"]


def test_a_module_that_is_called_three_times_is_shown_once(attention: nn.Module, text: Text) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = attention

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.cell(x)
            return x

    shown = text(shapetrace.trace(Recurrent(), torch.zeros(2, 3, 4), axes=False))
    assert rows(shown, "cell") == ["cell  Attention                             called 3 times, each identical"]


# Failures


class Fails(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4), attention])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x.view(3, 5)


def failing(model: nn.Module, x: Tensor) -> Trace:
    with pytest.raises((RuntimeError, ValueError)) as raised:
        shapetrace.trace(model, x, axes=False)
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    return trace


def without_line(shown: str) -> str:
    return re.sub(r"test_tree\.py:\d+", "test_tree.py:LINE", shown)


def test_a_call_that_failed_is_shown_with_what_it_was_given_and_all_before_it(attention: nn.Module, text: Text) -> None:
    trace = failing(Fails(attention), torch.zeros(2, 3, 4))
    assert (
        without_line(text(trace))
        == """\
Fails   float32 cpu
failed: RuntimeError: shape '[3, 5]' is invalid for input of size 24
why: view(3, 5) puts 3·5 = 15 where x [2, 3, 4] has 2·3·4 = 24: the sizes must
  multiply to 24 there
                          shape     stride     memory
├─ x                      (2,3,4)   (12,4,1)   input
├─ x  blocks.0 Linear     (2,3,4)   (12,4,1)   new
├─ blocks.1  Attention
│ ├─ x                    (2,3,4)   (12,4,1)   input
│ ├─ w_qkv  Linear        (2,3,12)  (36,12,1)  new
│ ├─ q  chunk             (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ ├─ k  chunk             (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ ├─ v  chunk             (2,3,4)   (36,12,1)  view of w_qkv(x) · not contiguous
│ ├─ scores  @            (2,3,3)   (9,3,1)    new
│ ├─ weights  drop        (2,3,3)   (9,3,1)    new
│ └─ x  output            (2,3,4)   (12,4,1)   new
└─ view                                        x.view(3, 5)
  ├─ x                    (2,3,4)   (12,4,1)   input
  └─ RuntimeError: shape '[3, 5]' is invalid for input of size 24
     (test_tree.py:LINE)"""
    )


def test_what_failed_is_shown_however_deep_it_lies(attention: nn.Module, text: Text) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Fails(attention)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    shown = text(failing(Outer(), torch.zeros(2, 3, 4)), depth=0)
    assert rows(shown, "blocks.1") == []  # it worked, and depth=0 keeps it closed
    assert rows(shown, "x  blocks.1") == ["x  blocks.1 Attention  (2,3,4)  (12,4,1)  new"]
    assert rows(shown, "view") == ["view                                      x.view(3, 5)"]


def test_a_forward_that_raises_by_itself_is_shown_where_it_ended(text: Text) -> None:
    class Refuses(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            raise ValueError("no more than 3 tokens")

    trace = failing(nn.Sequential(Refuses()), torch.zeros(2, 4))
    assert (
        text(trace)
        == """\
Sequential   float32 cpu
failed: ValueError: no more than 3 tokens
           shape  stride  memory
├─ input   (2,4)  (4,1)   input
└─ 0  Refuses
  ├─ x     (2,4)  (4,1)   input = input
  ├─ y  *  (2,4)  (4,1)   new
  └─ ValueError: no more than 3 tokens"""
    )


def test_a_call_that_failed_shows_the_variable_it_was_meant_for(text: Text) -> None:
    class Product(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scores = x @ x
            return scores

    shown = text(failing(Product(), torch.zeros(2, 3)))
    assert rows(shown, "scores") == ["scores  matmul      x @ x"]


def test_an_error_without_a_message_is_a_line_still(text: Text) -> None:
    trace = Trace("m", error="", calls=(Call("module", "", "M", 0, error=""),))
    assert text(trace) == "m\nfailed:\n  memory\n└─"


# Ops


def test_ops_are_nested_below_the_function_that_ran_them(text: Text) -> None:
    class Product(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = x.transpose(1, 2)
            scores = q @ q.transpose(-2, -1)
            return scores

    trace = shapetrace.trace(Product(), torch.zeros(2, 3, 3, 4), ops=True, axes=False)
    assert (
        text(trace)
        == """\
Product   float32 cpu
                        shape      stride       memory
├─ x                    (2,3,3,4)  (36,12,4,1)  input
├─ q  transpose         (2,3,3,4)  (36,4,12,1)  view of x · not contiguous
│ └─ aten.transpose     (2,3,3,4)  (36,4,12,1)  view of x · not contiguous
├─ transpose            (2,3,4,3)  (36,4,1,12)  view of x · not contiguous
│ └─ aten.transpose     (2,3,4,3)  (36,4,1,12)  view of x · not contiguous
└─ scores  @            (2,3,3,3)  (27,9,3,1)   new
  ├─ aten.expand        (2,3,3,4)  (36,4,12,1)  view of x · not contiguous
  ├─ aten.clone         (2,3,3,4)  (36,12,4,1)  copy, 288 B:
  │                                q.expand([2, 3, 3, 4]) was not contiguous
  ├─ aten._unsafe_view  (6,3,4)    (12,4,1)     view of q….clone(memory_format=…
  ├─ aten.expand        (2,3,4,3)  (36,4,1,12)  view of x · not contiguous
  ├─ aten.clone         (2,3,4,3)  (36,12,3,1)  copy, 288 B:
  │                  q.transpose(-2, -1).expand([2, 3, 4, 3]) was not contiguous
  ├─ aten._unsafe_view  (6,4,3)    (12,3,1)     view of q….clone(memory_format=…
  ├─ aten.bmm           (6,3,3)    (9,3,1)      new
  └─ aten._unsafe_view  (2,3,3,3)  (27,9,3,1)   view of bmm(q…, q…)
216 B in activations · 2 copies, 576 B: clone in matmul 2"""
    )


# Names, notes and what is odd


def test_hangul_keeps_the_columns_straight(text: Text) -> None:
    class 어텐션(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.선형 = nn.Linear(8, 8)

        def forward(self, 입력: Tensor) -> Tensor:
            쿼리 = self.선형(입력)
            점수 = 쿼리 @ 쿼리.transpose(-2, -1)
            return 점수.softmax(-1) @ 쿼리

    assert (
        text(shapetrace.trace(nn.Sequential(어텐션(), 어텐션()), torch.zeros(2, 4, 8), axes=False))
        == """\
Sequential   float32 cpu
                        shape    stride    memory
├─ input                (2,4,8)  (32,8,1)  input
└─ 0  어텐션                               1 is identical
  ├─ 입력               (2,4,8)  (32,8,1)  input = input
  ├─ 쿼리  선형 Linear  (2,4,8)  (32,8,1)  new
  ├─ 점수  @            (2,4,4)  (16,4,1)  new
  └─ output             (2,4,8)  (32,8,1)  new"""
    )


def test_nothing_in_a_trace_is_obeyed_by_the_terminal(text: Text) -> None:
    evil, tensor = "\x1b[31m\r\n\u202e[bold]", TensorMeta((2,), (1,), number=0, storage=0)
    call = Call("module", evil, evil, 1, {"": evil}, inputs={evil: tensor}, outputs={"": tensor}, note=evil, error=evil)
    trace = Trace(
        evil, evil, evil, {evil: 1}, evil, evil, notes=(evil,), error=evil, calls=(Call("module", "", "M", 0), call)
    )
    for format in ("tree", "table", "markdown"):
        shown = text(trace, format, all=True)
        assert set(filter(lambda c: not c.isprintable(), shown)) == {"\n"}
        assert "[bold]" in shown.replace("\\[bold\\]", "[bold]")


def test_a_trace_without_calls_says_that_nothing_was_seen(text: Text) -> None:
    assert text(Trace("gpt", "GPT")) == text(Trace("gpt", "GPT"), "table") == "GPT\nno tensor was seen"
    assert text(Trace("gpt", "GPT"), "markdown") == "**GPT**\n\nno tensor was seen"


def test_notes_stand_above_and_on_their_module_in_short(text: Text) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True).eval()
    with torch.no_grad():
        trace = shapetrace.trace(nn.Sequential(layer), torch.zeros(2, 4, 8), axes=False)
    note = trace.calls[1].note
    assert note is not None
    shown = text(trace, depth=1, width=200)
    assert shown.splitlines()[1].startswith(f"note: TransformerEncoderLayer, MultiheadAttention: {note[:40]}")
    short = note.partition(":")[0]
    short = short if len(short) <= 24 else f"{short[:23]}…"
    assert rows(shown, "0")[0].endswith(f"(2, 4, 8)  (32, 8, 1)  new · {short}")


def test_of_many_sizes_none_is_cut(text: Text) -> None:
    trace = Trace("net", sizes=dict.fromkeys("BTCHDGFV", 1000))
    shown = text(trace, width=40).split()
    assert [f"{letter}=1000" for letter in "BTCHDGFV"] == [word for word in shown if "=" in word]


def test_a_loss_outside_of_the_model_follows_it(text: Text) -> None:
    model, x = nn.Linear(4, 4), torch.zeros(2, 4)
    with shapetrace.attach(model, axes=False) as tap:
        y = model(x)
        loss = F.mse_loss(y, x)
    assert (
        text(tap.traces[-1])
        == """\
Linear   float32 cpu
                   shape  stride  memory
├─ y  Linear       (2,4)  (4,1)   new
└─ loss  mse_loss  ()     ()      new"""
    )


def test_what_a_portable_trace_does_not_hold_has_no_column(small: Small, text: Text) -> None:
    assert (
        text(small(3).portable(), depth=1)
        == """\
Model   float32
                           shape    memory
├─ ids                     (2,3)    input · int64
├─ x  embedding Embedding  (2,3,4)
├─ x  blocks.0 Block       (2,3,4)  ×3: blocks.0 … blocks.2 are identical
└─ head  Linear            (2,3,8)"""
    )


class Corners(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.encoder = attention
        self.lstm = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x: Tensor) -> dict[str, object]:
        memory = self.encoder(x)
        out, (h, c) = self.lstm(memory)
        empty = x[:0]
        parts = out.unbind(0)
        y = x * 2
        y[0] = 1
        y.relu_()
        torch.zeros(2).add_(1)  # nobody holds it
        wide = y[:1].expand(2, 3, 4)
        half = wide.half()
        half = half.to(torch.float16)
        kept = half.to(torch.float16)
        return {"h": h, "parts": parts, "weight": self.lstm.weight_hh_l0}


def test_corners_of_a_forward(attention: nn.Module, text: Text) -> None:
    assert (
        text(shapetrace.trace(Corners(attention), torch.zeros(2, 3, 4), axes=False), depth=1)
        == """\
Corners   float32 cpu
                             shape    stride    memory
├─ x                         (2,3,4)  (12,4,1)  input
├─ memory  encoder           (2,3,4)  (12,4,1)  new
├─ out  lstm LSTM            (2,3,4)  (4,8,1)   new · not contiguous
├─ h  lstm LSTM              (1,2,4)  (8,4,1)   new
├─ c  lstm LSTM              (1,2,4)  (8,4,1)   new
├─ empty  […]                (0,3,4)  (12,4,1)  view of x
├─ parts[0]  unbind          (3,4)    (8,1)     view of out · not contiguous
├─ parts[1]  unbind          (3,4)    (8,1)     view of out · not contiguous
├─ y  *                      (2,3,4)  (12,4,1)  new
├─ y  […] =                  (2,3,4)  (12,4,1)  in place on y
├─ y  relu_                  (2,3,4)  (12,4,1)  in place on y
├─ wide  expand              (2,3,4)  (0,4,1)   view of y · broadcast (stride 0)
├─ half  half                (2,3,4)  (12,4,1)  copy, 48 B: float32 → float16
├─ kept  to                  (2,3,4)  (12,4,1)  same as half · float16
└─ output.weight             (16,4)   (4,1)     parameter lstm.weight_hh_l0
904 B in activations · 1 copy, 48 B: half 1"""
    )


def test_a_module_of_one_step_or_that_changes_no_shape_is_one_row(text: Text) -> None:
    class Projection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, 8))

        def forward(self, x: Tensor) -> Tensor:
            flat = x.view(-1, 4)
            product = flat @ self.weight
            return product.view(2, 3, 8)

    class Norm(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            mean = x.mean(-1, keepdim=True)
            centred = x - mean
            return centred / centred.std(-1, keepdim=True)

    shown = text(shapetrace.trace(nn.Sequential(Projection(), Norm()), torch.zeros(2, 3, 4), axes=False))
    assert (
        shown
        == """\
Sequential   float32 cpu
                  shape    stride    memory
├─ input          (2,3,4)  (12,4,1)  input
├─ 0  Projection  (2,3,8)  (24,8,1)  new
└─ 1  Norm        (2,3,8)  (24,8,1)  new"""
    )


def test_the_model_itself_is_opened_even_if_it_is_one_step(text: Text) -> None:
    assert (
        text(shapetrace.trace(nn.Linear(4, 8), torch.zeros(2, 4), axes=False))
        == """\
Linear   float32 cpu
           shape  stride  memory
├─ input   (2,4)  (4,1)   input
└─ output  (2,8)  (8,1)   new"""
    )


def test_what_a_block_returns_is_named_as_its_caller_does(attention: nn.Module, text: Text) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            memory = self.encoder(x)
            return memory * 2

    shown = text(shapetrace.trace(Encoder(), torch.zeros(2, 4), axes=False))
    assert rows(shown, "encoder") == ["encoder → memory  Sequential"]


def test_functions_written_in_python_are_shown_by_what_they_call(text: Text) -> None:
    x = torch.zeros(4, 2, 8)
    trace = shapetrace.trace(nn.MultiheadAttention(8, 2), x, x, x, axes=False)
    names = [row.split()[0] for row in text(trace, width=120).splitlines()[2:] for row in [row.lstrip("│├└─ ")]]
    assert [name for name in names if name in ("q", "k", "v", "attn_output_weights")] == [
        *("q", "k", "v"),
        *["attn_output_weights"] * 4,
    ]
    assert "multi_head_attention_forward" not in text(trace)
    assert "multi_head_attention_forward" in text(trace, all=True)


def test_an_empty_batch_is_shown_like_any_other(text: Text) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    assert (
        text(shapetrace.trace(model, torch.zeros(0, 8), axes=False))
        == """\
Sequential   float32 cpu
              shape  stride  memory
├─ input      (0,8)  (8,1)   input
├─ 0  Linear  (0,4)  (4,1)   new
└─ 1  ReLU    (0,4)  (4,1)   new"""
    )


def test_a_long_name_gives_way_to_what_made_the_tensor(text: Text) -> None:
    x = torch.zeros(4, 2, 8)
    shown = text(shapetrace.trace(nn.MultiheadAttention(8, 2), x, x, x, axes=False), width=76)
    names = [row[: row.index("(")].strip("│├└─ ") for row in shown.splitlines() if "attn_output_" in row[:28]]
    assert [name.split()[-1] for name in names] == ["bmm", "softmax", "view", "mean"]
    assert any(name.split()[0].endswith("…") for name in names)


def test_a_mask_that_the_model_returns_is_shown_as_what_it_is_for(text: Text) -> None:
    class Above(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            hidden = x < 0
            return (x > 1) & hidden

    shown = text(shapetrace.trace(Above(), torch.zeros(2, 3), axes=False))
    assert [row.split()[1] for row in shown.splitlines()[2:]] == ["x", "output"]


def test_what_is_returned_without_a_name_is_a_view_or_the_same_as_it_would_be_with_one(text: Text) -> None:
    class Turn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            return self.linear(x).transpose(0, 1), bias

    class Turns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = Turn()

        def forward(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            y, bias = self.turn(x, bias)
            return y[:, 0], bias

    trace = shapetrace.trace(Turns(), torch.zeros(2, 3, 4), torch.zeros(4), axes=False)
    assert (
        text(trace)
        == """\
Turns   float32 cpu
                     shape    stride    memory
├─ x                 (2,3,4)  (12,4,1)  input
├─ bias              (4,)     (1,)      input
├─ turn  Turn
│ ├─ x               (2,3,4)  (12,4,1)  input
│ ├─ bias            (4,)     (1,)      input
│ ├─ linear  Linear  (2,3,4)  (12,4,1)  new
│ └─ y  output[0]    (3,2,4)  (4,12,1)  view of linear(x) · not contiguous
└─ output[0]         (3,4)    (4,1)     view of y"""
    )
