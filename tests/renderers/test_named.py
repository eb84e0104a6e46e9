"""Axes and roles, and what is never made, as a reader sees them."""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shapetrace
from shapetrace.renderers import Style, notebook, render
from shapetrace.schema import Call, TensorMeta, Trace

Text: TypeAlias = Callable[..., str]

SIZES = {"B": 2, "H": 2, "T": 3, "D": 4, "C": 8}


def tensor(number: int, axes: str = "B T C", role: str | None = None, *, storage: int | None = None) -> TensorMeta:
    """A contiguous tensor with these axes."""
    shape = tuple(SIZES[axis] if axis in SIZES else int(axis) for axis in axes.split())
    stride = tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))
    named = tuple(int(axis) if axis.isdigit() else axis for axis in axes.split())
    memory = number if storage is None else storage
    has_axes = any(isinstance(axis, str) for axis in named)
    return TensorMeta(shape, stride, number=number, storage=memory, axes=named if has_axes else None, role=role)


X = tensor(0)


def made(name: str, result: TensorMeta, variable: str = "", *sources: TensorMeta, depth: int = 1) -> Call:
    inputs = {str(place): source for place, source in enumerate(sources or (X,))}
    return Call("function", "", name, depth, {"": variable} if variable else {}, inputs=inputs, outputs={"": result})


def layer(path: str, name: str, result: TensorMeta, variable: str = "", *sources: TensorMeta) -> Call:
    inputs = {str(place): source for place, source in enumerate(sources or (X,))}
    return Call("module", path, name, 1, {"": variable} if variable else {}, inputs=inputs, outputs={"": result})


def whole(*calls: Call) -> Trace:
    return Trace("m", "M", dtype="float32", device="cpu", calls=(Call("module", "", "M", 0, inputs={"x": X}), *calls))


def body(shown: str) -> list[str]:
    return shown.splitlines()[2:]


# Axes


def test_axes_stand_between_name_and_shape_and_a_dim_that_is_not_decided_is_its_size(text: Text) -> None:
    trace = whole(
        made("view", tensor(1, "B T H D"), "split", X),
        made("pad", tensor(2, "2 T 8"), "padded", X),
        made("zeros", tensor(3, "5 7"), "empty", X),
        made("sum", tensor(4, ""), "total", X),
    )
    assert (
        text(trace, width=100)
        == """\
M   float32 cpu
                 axes          shape         stride         memory
├─ x             [B, T, C]     (2, 3, 8)     (24, 8, 1)     input
├─ split  view   [B, T, H, D]  (2, 3, 2, 4)  (24, 8, 4, 1)  new
├─ padded  pad   [2, T, 8]     (2, 3, 8)     (24, 8, 1)     new
├─ empty  zeros                (5, 7)        (7, 1)         new
└─ total  sum                  ()            ()             new"""
    )
    assert body(text(trace, width=80))[1] == "├─ split  view   [B,T,H,D]  (2,3,2,4)  (24,8,4,1)  new"


def test_without_axes_there_is_no_column_for_them(text: Text) -> None:
    trace = whole(made("zeros", tensor(3, "5 7"), "empty"))
    bare = Trace("m", "M", dtype="float32", device="cpu", calls=trace.calls[1:])
    for format in ("tree", "table", "markdown"):
        assert "axes" not in text(bare, format)
        assert "axes" in text(trace, format)


def test_nothing_in_an_axis_or_a_role_is_obeyed_or_taken_for_markup(text: Text) -> None:
    evil = TensorMeta((2,), (1,), number=1, storage=1, axes=("\x1b[31m[b]\n",), role="\x1b[2J[bold]")
    trace = whole(made("mul", evil, "y"))
    for format in ("tree", "table", "markdown"):
        shown = text(trace, format, width=160)
        assert set(filter(lambda c: not c.isprintable(), shown)) == {"\n"}
        assert r"[\x1b[31m[b]\n]" in shown
        assert r"\x1b[2J[bold]" in shown or "[2J\\[bold\\]" in shown


# Roles


def test_a_role_stands_beside_a_variable_of_another_name_and_not_beside_the_same(text: Text) -> None:
    trace = whole(
        made("softmax", tensor(1, "B H T T", "weights"), "attn_weights"),
        made("softmax", tensor(2, "B H T T", "weights"), "weights"),
        layer("lm_head", "Linear", tensor(3, "B T C", "logits"), "outputs.logits"),
    )
    assert [row[: row.index("[")].rstrip() for row in body(text(trace, width=100))[1:]] == [
        "├─ attn_weights · weights  softmax",
        "├─ weights  softmax",
        "└─ outputs.logits  lm_head Linear",
    ]


def test_a_role_that_the_module_says_is_not_said_again_but_one_that_a_function_says_is(text: Text) -> None:
    trace = whole(
        layer("token_embedding", "Embedding", tensor(1, "B T C", "token_embedding"), "tokens"),
        layer("input_layernorm", "RMSNorm", tensor(2, "B T C", "norm"), "hidden"),
        layer("ln_1", "LayerNorm", tensor(3, "B T C", "norm"), "hidden"),
        layer("q_norm", "RMSNorm", tensor(4, "B T C", "q"), "queries"),
        made("layer_norm", tensor(5, "B T C", "norm"), "hidden"),
    )
    assert [row[: row.index("[")].rstrip() for row in body(text(trace, width=120))[1:]] == [
        "├─ tokens  token_embedding Embedding",
        "├─ hidden  input_layernorm RMSNorm",
        "├─ hidden · norm  ln_1 LayerNorm",
        "├─ queries · q  q_norm RMSNorm",
        "└─ hidden · norm  layer_norm",
    ]


def test_a_tensor_without_a_variable_is_named_by_its_role(text: Text) -> None:
    scores, weights = tensor(1, "B H T T", "scores"), tensor(2, "B H T T", "weights")
    trace = whole(made("matmul", scores), made("relu", tensor(3)), made("softmax", weights, "", scores))
    assert (
        text(trace)
        == """\
M   float32 cpu
                     axes       shape      stride      memory
├─ x                 [B,T,C]    (2,3,8)    (24,8,1)    input
├─ scores  @         [B,H,T,T]  (2,2,3,3)  (18,9,3,1)  new
└─ weights  softmax  [B,H,T,T]  (2,2,3,3)  (18,9,3,1)  new"""
    )
    assert render(trace, Style(width=80, color=True)).count("\x1b[35mscores\x1b[0m") == 1


def test_a_result_that_has_a_role_and_no_row_yet_goes_by_its_role(text: Text) -> None:
    shown = tensor(1, "B T C", "head_output")
    module = Call("module", "attention", "Attention", 1, inputs={"x": X}, outputs={"": shown})
    inside = [made("matmul", tensor(2), "y", depth=2), made("mul", tensor(1), "", depth=2)]
    assert body(text(whole(module, *inside)))[-1].startswith("  └─ head_output  output  [B,T,C]")


def test_a_role_on_a_call_that_did_nothing_is_shown_where_the_tensor_is(text: Text) -> None:
    weights = tensor(1, "B H T T")
    dropped = tensor(1, "B H T T", "weights")
    trace = whole(made("softmax", weights, "attn"), made("dropout", dropped, "attn", weights))
    assert body(text(trace)) == [
        "├─ x                        [B,T,C]    (2,3,8)    (24,8,1)    input",
        "└─ attn · weights  softmax  [B,H,T,T]  (2,2,3,3)  (18,9,3,1)  new",
    ]
    assert [row.split("  ")[0] for row in body(text(trace, all=True))[1:]] == ["├─ attn", "└─ attn · weights"]


def test_roles_inside_a_module_of_one_step_are_shown_on_what_it_was_given_and_on_what_it_gives(text: Text) -> None:
    joined, flat = tensor(1, "B T C"), tensor(2, "6 C", "concat", storage=1)
    product, out = tensor(3, "6 C", "attn_out"), tensor(4, "B T C", storage=3)
    trace = whole(
        made("reshape", joined, "y"),
        layer("c_proj", "Conv1D", out, "z", joined),
        made("view", flat, "", joined, depth=2),
        made("addmm", product, "x", flat, depth=2),
        made("view", out, "x", product, depth=2),
    )
    assert [row.partition("[")[0].rstrip() for row in body(text(trace, width=100)) if "[" in row] == [
        "├─ x",
        "├─ y · concat  reshape",
        "└─ z · attn_out  c_proj Conv1D",
    ]


def test_a_module_closed_by_depth_has_the_role_of_what_it_gives_and_hands_none_to_what_it_is_given(text: Text) -> None:
    q, sum_ = tensor(1, "B H T D", "q", storage=0), tensor(2, "B T C", "residual")
    trace = whole(
        layer("block", "Block", tensor(2, "B T C"), "y"),
        made("view", q, "q", X, depth=2),
        made("matmul", tensor(3), "scores", X, depth=2),
        made("add", sum_, "x", X, depth=2),
    )
    assert [row[: row.index("[")].rstrip() for row in body(text(trace, depth=1))] == [
        "├─ x",
        "└─ y · residual  block Block",
    ]


def test_where_there_is_little_room_the_role_stays_whole_and_the_variable_gives_way(text: Text) -> None:
    trace = whole(
        made("bmm", tensor(1, "B H T T", "scores"), "attn_output_weights"),
        made("softmax", tensor(2, "B H T T"), "attn_output_weights"),
        made("bmm", tensor(3, "B H T D", "head_output"), "attn_output"),
        *[made("view", tensor(4 + i, "B H D T", storage=0), "view_of_something") for i in range(9)],
    )
    names = [row[: row.index("[")].rstrip() for row in body(text(trace, width=52))]
    assert names[1:4] == ["├─ attn_o… · scores", "├─ attn_output_wei…", "├─ head_output"]


# What a module does


@pytest.mark.parametrize(
    ("path", "name", "role", "shown"),
    [
        ("attn", "GPT2Attention", "causal self-attention", "attn  GPT2Attention · causal self-attention"),
        ("mlp", "MLP", "feed-forward", "mlp  MLP · feed-forward"),
        ("feed_forward", "FeedForward", "feed-forward", "feed_forward  FeedForward"),
        ("cross_attention", "Attention", "cross-attention", "cross_attention  Attention"),
    ],
)
def test_what_a_module_does_stands_after_its_class_unless_that_says_it(
    path: str, name: str, role: str, shown: str, text: Text
) -> None:
    module = Call("module", path, name, 1, inputs={"x": X}, outputs={}, role=role)
    inside = [made("matmul", tensor(1), "y", depth=2), made("matmul", tensor(2), "z", depth=2)]
    trace = whole(module, *inside)
    assert body(text(trace))[1] == f"└─ {shown}"


def test_what_the_model_itself_does_stands_in_the_header(text: Text) -> None:
    module = Call("module", "", "Attention", 0, inputs={"x": X}, role="self-attention")
    trace = Trace("attention", "Attention", sizes={"B": 2}, calls=(module,))
    assert text(trace).splitlines()[0] == "Attention · self-attention   B=2"
    assert text(trace, "markdown").splitlines()[0] == "**Attention** self-attention B=2"


# What is never made


class Fused(nn.Module):
    """One call, which a reader of the tree would not look into, were it not for what it stands for."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class Cross(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Fused()

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k = x.unflatten(-1, (2, 4)).transpose(1, 2), memory.unflatten(-1, (2, 4)).transpose(1, 2)
        return self.attention(q, k, k)


def test_scores_and_weights_of_fused_attention_have_rows_before_its_result(text: Text) -> None:
    trace = shapetrace.trace(Cross(), torch.zeros(2, 3, 8), torch.zeros(2, 5, 8))
    shown = text(trace)
    rows = shown[shown.index("attention") :].splitlines()
    assert rows[0].startswith("attention  Fused")
    assert [row.split("  ")[1].removeprefix("├─ ") for row in rows[4:6]] == ["scores", "weights"]
    assert [(row.split()[-4], " ".join(row.split()[-2:])) for row in rows[4:6]] == [
        ("[B,H,T,S]", "not materialised"),
        ("[B,H,T,S]", "not materialised"),
    ]
    assert "head_output" in rows[6]
    assert "\x1b[2;3m[B,H,T,S]\x1b[0m" in render(trace, Style(width=80, color=True))


def test_each_format_shows_what_is_never_made(text: Text) -> None:
    unmade = {role: tensor(0, "B H T T", role) for role in ("scores", "weights")}
    fused = Call("function", "", "sdpa", 1, {"": "y"}, inputs={"0": X}, outputs={"": tensor(1)}, unmade=unmade)
    assert [row.split() for row in body(text(whole(fused), "table"))[1:]] == [
        ["scores", "scores", "[B,H,T,T]", "(2,2,3,3)", "(18,9,3,1)", "not", "materialised"],
        ["weights", "weights", "[B,H,T,T]", "(2,2,3,3)", "(18,9,3,1)", "not", "materialised"],
        ["y", "sdpa", "[B,T,C]", "(2,3,8)", "(24,8,1)", "new"],
    ]
    assert (
        "| `scores` | scores |  | `[B, H, T, T]` | `(2, 2, 3, 3)` | `(18, 9, 3, 1)` | not materialised |"
        in text(whole(fused), "markdown").splitlines()
    )


# Formats and files


def test_a_table_has_columns_for_role_and_axes(text: Text) -> None:
    fused = whole(
        made("softmax", tensor(1, "B H T T", "weights"), "attn"),
        Call("module", "mlp", "MLP", 1, inputs={"x": X}, outputs={}, role="feed-forward"),
        made("matmul", tensor(2), "y", depth=2),
        made("matmul", tensor(3), "z", depth=2),
    )
    assert (
        text(fused, "table", width=120)
        == """\
M   float32 cpu
tensor  role          made by  axes          shape         stride         dtype    memory
x                              [B, T, C]     (2, 3, 8)     (24, 8, 1)     float32  input
attn    weights       softmax  [B, H, T, T]  (2, 2, 3, 3)  (18, 9, 3, 1)  float32  new
mlp     feed-forward  MLP
mlp.x                          [B, T, C]     (2, 3, 8)     (24, 8, 1)     float32  input
mlp.y                 @        [B, T, C]     (2, 3, 8)     (24, 8, 1)     float32  new
mlp.z                 @        [B, T, C]     (2, 3, 8)     (24, 8, 1)     float32  new"""
    )


def test_markdown_has_columns_for_role_and_axes(text: Text) -> None:
    trace = whole(made("softmax", tensor(1, "B H T T", "attn_weights"), "attn"))
    assert (
        text(trace, "markdown")
        == """\
**M** float32 cpu

| tensor | role | made by | axes | shape | stride | memory |
| --- | --- | --- | --- | --- | --- | --- |
| `x` |  |  | `[B, T, C]` | `(2, 3, 8)` | `(24, 8, 1)` | input |
| `attn` | attn\\_weights | `softmax` | `[B, H, T, T]` | `(2, 2, 3, 3)` | `(18, 9, 3, 1)` | new |"""
    )


def test_a_notebook_shows_axes_and_roles() -> None:
    shown = notebook(whole(made("softmax", tensor(1, "B H T T", "weights"), "attn")))
    assert "[B, H, T, T]" in shown
    assert " · weights" in shown


def test_a_portable_trace_out_of_a_file_shows_axes_and_roles(tmp_path: Path, text: Text) -> None:
    scores, weights = tensor(1, "B H T T", "scores"), tensor(2, "B H T T", "weights")
    trace = whole(made("matmul", scores, "attn"), made("softmax", weights, "", scores))
    trace.portable().save(tmp_path / "trace.jsonl")
    assert (
        text(shapetrace.load(tmp_path / "trace.jsonl"))
        == """\
M   float32
                     axes       shape      memory
├─ x                 [B,T,C]    (2,3,8)    input
├─ attn · scores  @  [B,H,T,T]  (2,2,3,3)
└─ weights  softmax  [B,H,T,T]  (2,2,3,3)"""
    )


def test_what_has_a_role_and_no_name_cost_what_its_statement_did(text: Text) -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q = x.view(2, 3, 2, 4).transpose(1, 2)
            weights = (q @ q.mT).softmax(-1)
            return self.out((weights @ q).transpose(1, 2).contiguous().view(2, 3, 8))

    shown = text(shapetrace.trace(Attention(), torch.zeros(2, 3, 8)), width=120)
    (row,) = (row for row in shown.splitlines() if "concat" in row)
    assert "copy, 192 B" in row
