"""The list of copies, and the summary below the tensors."""

import json
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.renderers import Style, copy_list, render
from shapetrace.schema import Trace


class Joins(nn.Module):
    """The end of attention: heads are joined again."""

    def forward(self, heads: Tensor) -> Tensor:
        turned = heads.transpose(1, 2)
        concat = turned.reshape(2, 3, 8)
        return concat


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Joins() for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            heads = x.view(2, 3, 2, 4).transpose(1, 2)
            x = x + layer(heads.contiguous())
        return x.double()


class Product(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q = x.transpose(1, 2)
        scores = q @ x.transpose(-2, -1)
        return scores


# The lines above are named below.


@pytest.fixture(scope="module")
def traced() -> Callable[..., Trace]:
    """The trace of so many layers."""

    def traced(layers: int = 3, *, ops: bool = False) -> Trace:
        return shapetrace.trace(Model(layers), torch.zeros(2, 3, 8), ops=ops, axes=False)

    return traced


def text(trace: Trace, width: int = 80, *, all: bool = False, format: str = "tree") -> str:
    return copy_list(trace, Style(width=width, color=False, all=all), format)


Traced = Callable[..., Trace]


def test_copies_are_listed_largest_first_and_those_of_equal_layers_once(traced: Traced) -> None:
    # 2 · 3 · 8 elements of 8 bytes, and of 4
    assert (
        text(traced())
        == """\
Model   float32 cpu
2.11 kB in activations · 7 copies, 1.54 kB: contiguous 3, reshape 3, double 1
bytes      copy                made by     in
384 B      x.double()          double      the model
           of x, float32 → float64 · test_copies.py:33
192 B  ×3  heads.contiguous()  contiguous  the model
           heads was not contiguous since transpose in line 31 ·
           test_copies.py:32
192 B  ×3  concat              reshape     layers.*
           turned was not contiguous since transpose in line 19 ·
           test_copies.py:20
copies inside of functions, as matmul makes them, are seen with --ops"""
    )


def test_where_there_is_room_each_is_one_line(traced: Traced) -> None:
    titles, _, _, concat, _ = text(traced(), 125).splitlines()[2:]
    assert (
        f"{titles}\n{concat}"
        == """\
bytes      copy                made by     in         why                                                   line
192 B  ×3  concat              reshape     layers.*   turned was not contiguous since transpose in line 19  \
test_copies.py:20"""
    )


def test_with_all_each_copy_is_listed_under_its_own_path(traced: Traced) -> None:
    lines = text(traced(2), 130, all=True).splitlines()[3:-1]
    assert [line.split()[:2] for line in lines] == [["384", "B"], *[["192", "B"]] * 4]
    assert [path for line in lines for path in ("layers.0", "layers.1") if path in line] == ["layers.0", "layers.1"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_asked(traced: Traced, width: int) -> None:
    for trace in (traced(), traced(1, ops=True)):
        assert max(map(len, text(trace, width).splitlines())) <= width


def test_markdown_is_a_table(traced: Traced) -> None:
    assert (
        text(traced(2), format="markdown")
        == """\
**Model** float32 cpu

1.54 kB in activations · 5 copies, 1.15 kB: contiguous 2, reshape 2, double 1

| bytes | times | copy | made by | in | why | line |
| --- | --- | --- | --- | --- | --- | --- |
| 384 B | 1 | `x.double()` | `double` | the model | of x, float32 → float64 | `test_copies.py:33` |
| 192 B | 2 | `heads.contiguous()` | `contiguous` | the model \
| heads was not contiguous since transpose in line 31 | `test_copies.py:32` |
| 192 B | 2 | `concat` | `reshape` | `layers.*` \
| turned was not contiguous since transpose in line 19 | `test_copies.py:20` |

copies inside of functions, as matmul makes them, are seen with --ops"""
    )


def test_json_has_each_copy_with_the_whole_of_its_place(traced: Traced) -> None:
    shown = json.loads(text(traced(2), format="json"))
    assert (shown["shapetrace"], shown["model"], "calls" in shown) == (1, "Model", False)
    assert shown["memory"] == {
        "activations": 1536,
        "copied": 1152,
        "by": {"contiguous": 2, "reshape": 2, "double": 1},
    }
    assert len(shown["copies"]) == 5
    assert shown["copies"][2] == {
        "name": "concat",
        "path": "layers.0",
        "nbytes": 192,
        "of": "turned",
        "why": "turned was not contiguous",
        "by": "reshape",
        "inside": "",
        "source": [__file__, 20],
        "since": "transpose",
        "line": [__file__, 19],
    }


def test_a_hidden_copy_says_in_which_function_it_is() -> None:
    trace = shapetrace.trace(Product(), torch.zeros(2, 3, 3, 4), ops=True, axes=False)
    assert (
        text(trace)
        == """\
Product   float32 cpu
216 B in activations · 1 copy, 288 B: clone in matmul 1
bytes  copy    made by          in
288 B  scores  clone in matmul  the model
       q.expand([2, 3, 3, 4]) was not contiguous since transpose in line 38 ·
       test_copies.py:39"""
    )


def test_without_copies_it_says_so() -> None:
    trace = shapetrace.trace(nn.Linear(4, 4), torch.zeros(2, 4), axes=False)
    hint = "copies inside of functions, as matmul makes them, are seen with --ops"
    assert text(trace) == f"Linear   float32 cpu\nnothing was copied\n{hint}"
    assert text(trace, format="markdown") == f"**Linear** float32 cpu\n\nnothing was copied\n\n{hint}"
    assert json.loads(text(trace, format="json"))["copies"] == []


def test_what_a_portable_trace_cannot_know_is_said_to_be_unknown(traced: Traced) -> None:
    unknown = "what was copied is not known: the trace has no functions, or is portable and has no storages"
    assert text(traced().portable(), 120) == f"Model   float32\n{unknown}"


def test_nothing_of_a_trace_is_obeyed() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            globals()["\x1b[2J"] = x
            return x.t().contiguous()

    assert "\x1b" not in text(shapetrace.trace(Odd(), torch.zeros(3, 4)))


# The summary below the tensors


def test_every_format_ends_with_what_was_copied(traced: Traced) -> None:
    said = "1.54 kB in activations · 5 copies, 1.15 kB: contiguous 2, reshape 2, double 1"
    for format in ("tree", "table", "markdown"):
        assert render(traced(2), Style(width=120, color=False), format).splitlines()[-1] == said
    assert json.loads(render(traced(2), format="json"))["memory"]["by"] == {"contiguous": 2, "reshape": 2, "double": 1}


def test_a_narrow_summary_goes_on_below(traced: Traced) -> None:
    assert render(traced(2), Style(width=40, color=False)).endswith(
        "\n1.54 kB in activations · 5 copies,\n  1.15 kB: contiguous 2, reshape 2,\n  double 1"
    )


def test_where_nothing_was_copied_or_known_there_is_no_summary(traced: Traced) -> None:
    for trace in (shapetrace.trace(nn.Linear(4, 4), torch.zeros(2, 4), axes=False), traced().portable()):
        for format in ("tree", "table", "markdown"):
            assert "activations" not in render(trace, Style(width=120, color=False), format)
    assert "memory" not in json.loads(render(traced().portable(), format="json"))


# The memory column

TURNED = "x.transpose(0, 1)"


@pytest.mark.parametrize(
    ("width", "cells"),
    [
        (120, [f"copy of {TURNED}, 48 B: {TURNED} was not contiguous", "copy of y, 24 B: float32 → float16"]),
        (90, [f"copy, 48 B: {TURNED} was not contiguous", "copy of y, 24 B: float32 → float16"]),
        (50, ["copy, 48 B:", "copy, 24 B:"]),
    ],
)  # fmt: skip
def test_a_copy_names_its_source_where_there_is_room(width: int, cells: list[str]) -> None:
    class Copies(nn.Module):
        def forward(self, x: Tensor) -> None:
            y = x.transpose(0, 1).contiguous()
            h = y.half()

    trace = shapetrace.trace(Copies(), torch.zeros(3, 4), axes=False)
    lines = render(trace, Style(width=width, color=False)).splitlines()
    found = [line for line in lines if line[3:5] in ("y ", "h ")]
    assert [line[line.index("copy") :] for line in found] == cells
