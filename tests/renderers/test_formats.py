import json
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from shapetrace.renderers import Style, render
from shapetrace.schema import Call, TensorMeta, Trace

Small: TypeAlias = Callable[[int], Trace]
Text: TypeAlias = Callable[..., str]


def test_a_table_has_a_row_for_each_tensor_under_its_whole_name(small: Small, text: Text) -> None:
    assert (
        text(small(3), "table", width=130)
        == """\
Model   float32 cpu
tensor                      made by              shape       stride       dtype    memory
ids                                              (2, 3)      (3, 1)       int64    input · int64
x                           embedding Embedding  (2, 3, 4)   (12, 4, 1)   float32  new
blocks.0                    Block                                                  ×3: blocks.0 … blocks.2 are identical
blocks.0.x                                       (2, 3, 4)   (12, 4, 1)   float32  input
blocks.0.norm               RMSNorm              (2, 3, 4)   (12, 4, 1)   float32  new
blocks.0.attention.x                             (2, 3, 4)   (12, 4, 1)   float32  input = norm(x)
blocks.0.attention.w_qkv    Linear               (2, 3, 12)  (36, 12, 1)  float32  new
blocks.0.attention.q        chunk                (2, 3, 4)   (36, 12, 1)  float32  view of w_qkv(x) · not contiguous
blocks.0.attention.k        chunk                (2, 3, 4)   (36, 12, 1)  float32  view of w_qkv(x) · not contiguous
blocks.0.attention.v        chunk                (2, 3, 4)   (36, 12, 1)  float32  view of w_qkv(x) · not contiguous
blocks.0.attention.scores   @                    (2, 3, 3)   (9, 3, 1)    float32  new
blocks.0.attention.scores   masked_fill          (2, 3, 3)   (9, 3, 1)    float32  new
blocks.0.attention.weights  drop Dropout         (2, 3, 3)   (9, 3, 1)    float32  new
blocks.0.attention.output                        (2, 3, 4)   (12, 4, 1)   float32  new
blocks.0.x                  +                    (2, 3, 4)   (12, 4, 1)   float32  new
head                        Linear               (2, 3, 8)   (24, 8, 1)   float32  new"""
    )


def test_a_table_without_room_leaves_out_what_is_needed_least(small: Small, text: Text) -> None:
    titles = [text(small(3), "table", width=width).splitlines()[1].split("  ") for width in (130, 80)]
    assert [[word.strip() for word in title if word] for title in titles] == [
        ["tensor", "made by", "shape", "stride", "dtype", "memory"],
        ["tensor", "shape", "stride", "memory"],
    ]


def test_the_last_parts_of_a_long_name_are_those_that_stay(text: Text) -> None:
    path = "a_module.with_a_path.that_goes_on.and_on.and_on.and_on"
    tensor = TensorMeta((2,), (1,), number=0, storage=0)
    call = Call("function", path, "mul", 2, {"": "y"}, outputs={"": tensor})
    trace = Trace("m", dtype="float32", calls=(Call("module", "", "M", 0), Call("module", path, "N", 1), call))
    assert "…n.and_on.and_on.and_on.y  (2,)   new" in text(trace, "table", width=40)


def test_markdown_is_a_table_of_githubs(small: Small, text: Text) -> None:
    assert (
        text(small(1), "markdown", depth=1)
        == """\
**Model** float32 cpu

| tensor | made by | shape | stride | memory |
| --- | --- | --- | --- | --- |
| `ids` |  | `(2, 3)` | `(3, 1)` | input · int64 |
| `x` | `embedding Embedding` | `(2, 3, 4)` | `(12, 4, 1)` | new |
| `x` | `blocks.0 Block` | `(2, 3, 4)` | `(12, 4, 1)` | new |
| `head` | `Linear` | `(2, 3, 8)` | `(24, 8, 1)` | new |"""
    )


def test_in_markdown_nothing_of_a_trace_is_markup(text: Text) -> None:
    tensor = TensorMeta((2,), (1,), number=0, storage=0)
    call = Call("function", "", "f`|`", 1, {"": "<b>|`"}, outputs={"": tensor})
    trace = Trace("*m*", description="[x](y)", notes=("# h",), error="_e_", calls=(Call("module", "", "M", 0), call))
    assert (
        text(trace, "markdown")
        == """\
**\\*m\\*** \\[x\\](y)

> \\# h

**failed:** \\_e\\_

| tensor | made by | shape | stride | memory |
| --- | --- | --- | --- | --- |
| `` <b>\\|` `` | `` f`\\|` `` | `(2,)` | `(1,)` | new · float32 |"""
    )


def test_json_is_the_header_of_a_file_with_its_calls(small: Small) -> None:
    trace = small(1)
    shown = json.loads(render(trace, format="json"))
    assert shown["shapetrace"] == 1
    assert shown["model"] == "Model"
    assert shown["calls"][0]["inputs"]["ids"] == {
        "shape": [2, 3],
        "stride": [3, 1],
        "dtype": "int64",
        "number": 0,
        "storage": 0,
    }
    del shown["shapetrace"], shown["memory"]
    assert msgspec.convert(shown, Trace) == trace


def test_json_is_whole_whatever_the_style(small: Small) -> None:
    trace = small(3)
    assert render(trace, Style(depth=0, width=40), "json") == render(trace, Style(all=True), "json")


def test_json_of_a_name_that_is_no_utf_8_is_written_as_python_shows_it() -> None:
    trace = Trace("net\udcff.py:build")
    assert json.loads(render(trace, format="json"))["target"] == r"net\udcff.py:build"
