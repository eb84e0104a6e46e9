"""What an exception is told of the forward that it ended: real mistakes in the shapes of a Transformer."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace

IDS = torch.zeros(2, 4, dtype=torch.long)


class Attention(nn.Module):
    """Two heads of four, as they should be; what is wrong is in a subclass."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        return x.view(B, T, self.heads, C // self.heads).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5

    def masked(self, scores: Tensor) -> Tensor:
        return scores

    def joined(self, heads: Tensor) -> Tensor:
        B, H, T, D = heads.shape
        return heads.transpose(1, 2).reshape(B, T, H * D)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        scores = self.masked(self.scores(q, k))
        out = scores.softmax(-1) @ v
        return self.w_o(self.joined(out))


class Model(nn.Module):
    def __init__(self, attention: nn.Module, rows: int = 16, positions: int = 8) -> None:
        super().__init__()
        self.token = nn.Embedding(rows, 8)
        self.position = nn.Embedding(positions, 8)
        self.attention = attention
        self.head = nn.Linear(8, rows)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        x = x + self.attention(x)
        return self.head(x)


class JoinedByView(Attention):
    def joined(self, heads: Tensor) -> Tensor:
        B, H, T, D = heads.shape
        out = heads.transpose(1, 2)
        return out.view(B, T, H * D)


class NotTurned(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k[:, :, 1:]


class MaskTooShort(Attention):
    def masked(self, scores: Tensor) -> Tensor:
        causal = torch.ones(3, 3).tril()
        return scores.masked_fill(causal == 0, float("-inf"))


class MaskOfFloats(Attention):
    def masked(self, scores: Tensor) -> Tensor:
        T = scores.shape[-1]
        causal = torch.ones(T, T).tril()
        return scores.masked_fill(causal, float("-inf"))


class HeadsLost(Attention):
    def joined(self, heads: Tensor) -> Tensor:
        return heads.sum(1)


class SoftmaxTooFar(Attention):
    def masked(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=4)


class KeptHalf(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q.half() @ k.transpose(-2, -1)


class PermutedTwice(Attention):
    def joined(self, heads: Tensor) -> Tensor:
        return heads.permute(0, 2, 2, 3).flatten(2)


def text(model: nn.Module, *args: Any, axes: bool | str = True) -> str:
    """The note, without the numbers of lines."""
    with pytest.raises(Exception) as raised:
        shapetrace.trace(model, *args, axes=axes)
    (note,) = raised.value.__notes__
    here, torch_at = str(Path(__file__).parent), str(Path(torch.__file__).parent)
    return re.sub(r"(\.py):\d+", r"\1", note.replace(here, "…").replace(torch_at, "torch").replace("\\", "/"))


CASES = {
    "view of what is not contiguous": (
        lambda: (Model(JoinedByView()), IDS),
        """\
shapetrace: raised in attention (JoinedByView), by out.view(2, 4, 8)
  …/test_failures.py
  in attention(x) (test_failures.py)
    out  [B, T, H, D]  (2, 4, 2, 4)  stride (32, 4, 16, 1)  float32, not contiguous  from out.transpose(1, 2) (test_failures.py)
  view makes one dim of H=2 and D=4, which do not lie one after another in memory since
  out.transpose(1, 2) (test_failures.py): write reshape(2, 4, 8), or contiguous() before view;
  either copies""",
    ),
    "keys that are not turned": (
        lambda: (Model(NotTurned()), IDS),
        """\
shapetrace: raised in attention (NotTurned), by q @ k[:, :, 1:]
  …/test_failures.py
  in attention(x) (test_failures.py)
    q            [B, 2, T, 4]    (2, 2, 4, 4)  stride (32, 4, 8, 1)  float32, not contiguous  from w_q(x).view(2, 4, 2, 4).transpose(1, 2) (test_failures.py)
    k[:, :, 1:]  [B, 2, T-1, 4]  (2, 2, 3, 4)  stride (32, 4, 8, 1)  float32, not contiguous  from test_failures.py
  matmul sums over the last dim of q [B=2, 2, T=4, 4] and dim -2 of k[:, :, 1:] [B=2, 2, T-1=3, 4]:
  4 met T-1=3, and they must be equal; k[:, :, 1:].transpose(-2, -1) has 4 there""",
    ),
    "mask too short": (
        lambda: (Model(MaskTooShort()), IDS),
        """\
shapetrace: raised in attention (MaskTooShort), by q….masked_fill(causal…, -inf)
  …/test_failures.py
  in attention(x) (test_failures.py)
    (q @ k.transpose(-2, -1)) / 2.0  [B, H, T, T]  (2, 2, 4, 4)  stride (32, 16, 4, 1)  float32  from test_failures.py
    causal == 0                                    (3, 3)        stride (3, 1)          bool     from test_failures.py
  masked_fill lines dims up from the last: T=4 of (q @ k.transpose(-2, -1)) / 2.0 [B=2, H=2, T=4,
  T=4] met 3 of causal == 0 [3, 3]; they must be equal, or one of them 1""",
    ),
    "mask of floats": (
        lambda: (Model(MaskOfFloats()), IDS),
        """\
shapetrace: raised in attention (MaskOfFloats), by ((q @ k.transpose(-2, -1)) / 2.0).masked_fill(causal, -inf)
  …/test_failures.py
  in attention(x) (test_failures.py)
    (q @ k.transpose(-2, -1)) / 2.0  [B, H, T, T]  (2, 2, 4, 4)  stride (32, 16, 4, 1)  float32  from test_failures.py
    causal                           [T, T]        (4, 4)        stride (4, 1)          float32  from tril(ones(4, 4)) (test_failures.py)
  a mask says yes or no, and causal [T=4, T=4] is float32: causal.bool(), or causal == 0 for what it
  leaves out""",
    ),
    "heads lost": (
        lambda: (Model(HeadsLost()), IDS),
        """\
shapetrace: raised in attention.w_o (Linear), by linear(input, weight, bias)
  torch/nn/modules/linear.py
  in w_o(out.sum(1)) (test_failures.py), in attention(x) (test_failures.py)
    input   [B, T, D]  (2, 4, 4)  stride (16, 4, 1)  float32  from out.sum(1) (test_failures.py)
    weight  [C, 8]     (8, 8)     stride (8, 1)      float32  parameter attention.w_o.weight
    bias    [C]        (8,)       stride (1,)        float32  parameter attention.w_o.bias
  linear takes 8 in the last dim, and input [B=2, T=4, D=4] has D=4 there: make it with
  in_features=4, or give it a tensor that is 8 wide""",
    ),
    "softmax dim out of range": (
        lambda: (Model(SoftmaxTooFar()), IDS),
        """\
shapetrace: raised in attention (SoftmaxTooFar), by softmax((q @ k.transpose(-2, -1)) / 2.0, dim=4)
  …/test_failures.py
  in attention(x) (test_failures.py)
    (q @ k.transpose(-2, -1)) / 2.0  [B, 2, T, T]  (2, 2, 4, 4)  stride (32, 16, 4, 1)  float32  from test_failures.py
  softmax was asked for dim 4, and (q @ k.transpose(-2, -1)) / 2.0 [B=2, 2, T=4, T=4] has 4 dims, -4
  to 3; the last, -1, is T=4""",
    ),
    "dtypes mixed": (
        lambda: (Model(KeptHalf()), IDS),
        """\
shapetrace: raised in attention (KeptHalf), by q.half() @ k.transpose(-2, -1)
  …/test_failures.py
  in attention(x) (test_failures.py)
    q.half()             [B, 2, T, 4]  (2, 2, 4, 4)  stride (32, 4, 8, 1)  float16, not contiguous  from test_failures.py
    k.transpose(-2, -1)  [B, 2, 4, T]  (2, 2, 4, 4)  stride (32, 4, 1, 8)  float32, not contiguous  from test_failures.py
  matmul wants one dtype: q.half() is float16, k.transpose(-2, -1) is float32; k.transpose(-2,
  -1).to(q.half().dtype) makes them one""",
    ),
    "a dim permuted twice": (
        lambda: (Model(PermutedTwice()), IDS),
        """\
shapetrace: raised in attention (PermutedTwice), by out.permute(0, 2, 2, 3)
  …/test_failures.py
  in attention(x) (test_failures.py)
    out  [B, H, T, D]  (2, 2, 4, 4)  stride (32, 16, 4, 1)  float32  from q… @ v (test_failures.py)
  permute(0, 2, 2, 3) takes dim 2, T=4, twice, and dim 1, H=2, of out [B=2, H=2, T=4, D=4] not at
  all""",
    ),
    "heads that do not divide": (
        lambda: (Model(Attention(heads=3)), IDS),
        """\
shapetrace: raised in attention (Attention), by w_q(x).view(2, 4, 3, 2)
  …/test_failures.py
  in attention(x) (test_failures.py)
    w_q(x)  [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  from test_failures.py
  8 of w_q(x) [B=2, T=4, 8] cannot be split into 3 of equal size, 8 // 3 leaves 2 over: take a
  number that divides 8, such as 2""",
    ),
    "ids past the vocabulary": (
        lambda: (Model(Attention(), rows=10), IDS + 10),
        """\
shapetrace: raised in token (Embedding), by embedding(input, weight, norm_type=2.0)
  torch/nn/modules/sparse.py
  in token(ids) (test_failures.py)
    input   [B, T]  (2, 4)   stride (4, 1)  int64    input of the model
    weight  [V, C]  (10, 8)  stride (8, 1)  float32  parameter token.weight
  input [B=2, T=4] holds 10 at [0, 0] and 7 more that are out of range, and the rows of the table
  token.weight are V=10, 0 to 9""",
    ),
    "positions past the table": (
        lambda: (Model(Attention(), positions=3), IDS),
        """\
shapetrace: raised in position (Embedding), by embedding(input, weight, norm_type=2.0)
  torch/nn/modules/sparse.py
  in position(arange(4)) (test_failures.py)
    input   [T]     (4,)    stride (1,)    int64    from arange(4) (test_failures.py)
    weight  [3, C]  (3, 8)  stride (8, 1)  float32  parameter position.weight
  input [T=4] counts to 3, and the rows of the table position.weight are 3, 0 to 2: T=4 is longer
  than the table; shorten the input or make the table longer""",
    ),
    "another width": (
        lambda: (Model(Attention(width=6)), IDS),
        """\
shapetrace: raised in attention.w_q (Linear), by linear(input, weight, bias)
  torch/nn/modules/linear.py
  in w_q(x) (test_failures.py), in attention(x) (test_failures.py)
    input   [B, T, 8]  (2, 4, 8)  stride (32, 8, 1)  float32  from token(ids) + position(arange(4)) (test_failures.py)
    weight  [H·D, 6]   (6, 6)     stride (6, 1)      float32  parameter attention.w_q.weight
    bias    [H·D]      (6,)       stride (1,)        float32  parameter attention.w_q.bias
  linear takes 6 in the last dim, and input [B=2, T=4, 8] has 8 there: make it with in_features=8,
  or give it a tensor that is 6 wide""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_in_attention_is_explained(case: str) -> None:
    make, expected = CASES[case]
    assert text(*make()) == expected


# --- what goes along ---


def partial(error: BaseException) -> shapetrace.Trace:
    trace = shapetrace.trace_of(error)
    assert trace is not None
    return trace


def test_the_record_of_what_failed_has_the_axes_of_all_that_came_before_and_of_what_was_given() -> None:
    with pytest.raises(RuntimeError) as raised:
        shapetrace.trace(Model(JoinedByView()), IDS)
    trace = partial(raised.value)
    assert trace["attention"]["q"].axes == ("B", "H", "T", "D")
    assert trace.calls[-1].inputs["0"].axes == ("B", "T", "H", "D")


def test_runs_that_fail_before_the_call_that_failed_tell_nothing() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(2, 4).view(7)

    with pytest.raises(RuntimeError) as raised:
        shapetrace.trace(Fixed(), IDS)
    trace = partial(raised.value)
    assert trace.calls[1].outputs[""].axes is None
    assert trace.notes == (
        "axes are not named: the model does not run at other sizes "
        "(RuntimeError: shape '[2, 4]' is invalid for input of size 16); axes='B=… T=…' names what has these sizes",
    )


def test_in_a_training_loop_a_forward_that_fails_is_not_run_again() -> None:
    ran = []

    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            ran.append(x.shape)
            return x.view(7)

    model = Counts()
    tap = shapetrace.attach(model)
    with pytest.raises(RuntimeError) as raised:
        model(IDS)
    tap.detach()
    assert partial(raised.value).calls[-1].inputs["0"].axes is None
    assert len(ran) == 1


def test_in_a_block_an_exception_is_explained_with_axes_as_it_leaves() -> None:
    model = Model(JoinedByView())
    with pytest.raises(RuntimeError) as raised, shapetrace.attach(model):
        model(IDS)
    (note,) = raised.value.__notes__
    assert "view makes one dim of H=2 and D=4" in note
    assert partial(raised.value)["attention"]["q"].axes == ("B", "H", "T", "D")


def test_an_exception_that_goes_to_another_process_takes_its_record_along() -> None:
    with pytest.raises(RuntimeError) as raised:
        shapetrace.trace(Model(JoinedByView()), IDS)
    there = pickle.loads(pickle.dumps(raised.value))
    assert partial(there) == partial(raised.value)


def test_what_the_users_own_code_raises_is_placed_and_not_explained() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no such length")

    assert text(nn.Sequential(Picky()), IDS) == (
        """\
shapetrace: raised in 0 (Picky)
  …/test_failures.py
  in 0(input) (container.py)
    x  (2, 4)  stride (4, 1)  int64  input of the model"""
    )


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.w(x)


CALLS = {
    "a keyword that is not there": (lambda inner, x: inner(inp=x), "inner(inp=x)"),
    "a tensor beside it": (lambda inner, x: inner(x, inp=x), "inner(x, inp=x)"),
    "no tensor where one is wanted": (lambda inner, x: inner(None), "inner(x=None)"),
    "too many": (lambda inner, x: inner(x, x, x), "inner(x, x, x)"),
    "another literal": (lambda inner, x: inner(x, steps=3), "inner(x, steps=3)"),
}


@pytest.mark.parametrize(("call", "shown"), CALLS.values(), ids=list(CALLS))
def test_a_module_that_refuses_its_arguments_is_shown_with_them(call: Any, shown: str) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = call(self.inner, x)
            return result

    with pytest.raises(TypeError) as raised:
        shapetrace.trace(Outer(), torch.zeros(2, 4, 8))
    assert f"in {shown} (test_failures.py:" in "".join(raised.value.__notes__)
