"""What holds of every rendering, whatever the model and the width."""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest
import torch
from rich.cells import cell_len
from torch import nn

import shapetrace
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer
from shapetrace.renderers import Style, render
from shapetrace.schema import Call, TensorMeta, Trace
from tests.work import lines_run

Text: TypeAlias = Callable[..., str]


def reference(build: Callable[..., tuple[nn.Module, tuple[object, ...], dict[str, object]]], **options: int) -> Trace:
    model, args, kwargs = build(**options)
    return shapetrace.trace(model, *args, **kwargs)


def deep() -> Trace:
    model: nn.Module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    for _ in range(60):
        model = nn.Sequential(model)
    return shapetrace.trace(model, torch.zeros(2, 4))


def many_dims() -> Trace:
    model = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (1, 2, 1, 3, 1, 2, 1, 1, 2)), nn.ReLU())
    return shapetrace.trace(model, torch.zeros(1024, 24))


TRACES = {
    "gpt": lambda: reference(gpt),
    "paper": lambda: reference(gpt, B=3, T=700, C=192, H=12, V=1000),
    "transformer": lambda: reference(transformer),
    "encoder": lambda: reference(encoder),
    "nn.MultiheadAttention": lambda: shapetrace.trace(nn.MultiheadAttention(8, 2), *[torch.zeros(4, 2, 8)] * 3),
    "nn.Transformer": lambda: shapetrace.trace(
        nn.Transformer(8, 2, 2, 2, 32, batch_first=True), torch.zeros(2, 3, 8), torch.zeros(2, 4, 8)
    ),
    "deep": deep,
    "many dims": many_dims,
    "empty": lambda: Trace("nothing"),
}
VIEWS = [{}, {"all": True}, {"depth": 0}, {"depth": 1}, {"depth": 2}]


@pytest.fixture(scope="module", params=TRACES)
def trace(request: pytest.FixtureRequest) -> Trace:
    torch.manual_seed(0)
    made: Trace = TRACES[request.param]()
    return made


@pytest.mark.parametrize("width", [40, 53, 80, 99, 100, 120, 200])
@pytest.mark.parametrize("format", ["tree", "table"])
def test_no_line_is_wider_than_it_may_be_or_ends_in_a_space(trace: Trace, format: str, width: int, text: Text) -> None:
    for view in VIEWS:
        for line in text(trace, format, width=width, **view).splitlines():
            assert cell_len(line) <= width
            assert line == line.rstrip()


@pytest.mark.parametrize("width", [80, 120])
def test_columns_stay_put_down_the_whole_tree(trace: Trace, width: int, text: Text) -> None:
    for view in VIEWS:
        lines = text(trace, width=width, **view).splitlines()
        title = next((line for line in lines if line.split()[-1:] == ["memory"]), None)
        if title is None:
            continue
        words = title.split()
        assert words in (
            ["axes", "shape", "stride", "memory"],
            ["axes", "shape", "memory"],
            ["shape", "stride", "memory"],
        )
        starts = [title.index(word) for word in words]
        tensors = [line for line in lines if re.search(r"  \([0-9, ]*\)  ", line)]
        assert tensors
        for line in tensors:
            assert [line[start - 2 : start] for start in starts] == ["  "] * len(words)
            for word, start in zip(words[:-1], starts, strict=False):
                assert line[start] in {"axes": "[ ", "shape": "(", "stride": "( "}[word]


def test_a_wide_rendering_shows_the_tensors_that_a_narrow_one_does(trace: Trace, text: Text) -> None:
    def shapes(width: int) -> list[str]:
        found = re.findall(r"^[^(]*?  (\([0-9, ]*\))  ", text(trace, width=width), re.MULTILINE)
        return [shape.replace(" ", "") for shape in found]

    if "paper" not in trace.target and len(trace.calls) > 1:
        assert shapes(150) == shapes(200)


def test_plain_text_has_no_colour_codes_and_coloured_text_says_the_same(trace: Trace) -> None:
    plain = render(trace, Style(width=80, color=False))
    colored = render(trace, Style(width=80, color=True))
    assert "\x1b" not in plain
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_each_format_is_the_same_after_a_round_through_a_file(trace: Trace, tmp_path: object, text: Text) -> None:
    path = f"{tmp_path}/trace.jsonl"
    trace.save(path)
    loaded = shapetrace.load(path)
    assert loaded == trace
    for format in ("tree", "table", "markdown"):
        assert text(loaded, format) == text(trace, format)


def test_a_portable_trace_shows_no_strides_and_nothing_of_views_and_copies(trace: Trace, text: Text) -> None:
    shown = text(trace.portable())
    assert "stride" not in shown
    assert not re.search(r"view of|copy,|new$|same as|not contiguous", shown, re.MULTILINE)


def test_modules_may_be_nested_deeper_than_python_lets_functions_call_each_other(text: Text) -> None:
    x = TensorMeta((2, 4), (4, 1), number=0, storage=0)
    modules = [Call("module", f"m.{depth}", "Sequential", depth, inputs={"input": x}) for depth in range(2000)]
    relu = Call("function", "m.1999", "relu", 2000, {"": "y"}, inputs={"0": x}, outputs={"": x})
    trace = Trace("deeper", dtype="float32", calls=(*modules, relu))
    assert text(trace).splitlines()[-1].endswith("└─ y  relu  (2,4)  (4,1)   same as input")
    assert text(trace, "table").splitlines()[-1] == "m.1999.y      relu     (2,4)  (4,1)   float32  same as input"


@pytest.mark.parametrize("style", [Style(width=80, color=False), Style(width=80, color=False, all=True)])
def test_the_work_grows_with_the_calls_and_not_faster(style: Style) -> None:
    trace = reference(gpt, L=1)
    block = [call for call in trace.calls if call.path.startswith("blocks.0")]
    head, tail = trace.calls[:9], trace.calls[9 + len(block) :]

    def work(layers: int) -> int:
        renamed = [
            msgspec.structs.replace(call, path=call.path.replace("blocks.0", f"blocks.{layer}"))
            for layer in range(layers)
            for call in block
        ]
        large = Trace("gpt", "GPT", calls=(*head, *renamed, *tail))
        return lines_run(lambda: render(large, style))

    assert work(80) < 12 * work(8)  # 10 times the calls
