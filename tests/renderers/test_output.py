import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TypeAlias

import pytest

from shapetrace.renderers import FORMATS, Style, notebook, render
from shapetrace.schema import Call, TensorMeta, Trace

Small: TypeAlias = Callable[[int], Trace]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS", "TERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_a_terminal_gets_colours_and_its_own_width(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "53")
    with redirect_stdout(Terminal()):
        assert Style().columns == 53
        assert "\x1b[1;36m(2,3)\x1b[0m" in render(small(1))


def test_what_is_no_terminal_gets_80_columns_and_no_colours(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "53")
    with redirect_stdout(io.StringIO()):
        assert Style().columns == 80
        assert "\x1b" not in render(small(1))


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_may_refuse_colours(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with redirect_stdout(Terminal()):
        assert not Style().is_colored
        assert Style(color=True).is_colored


def test_an_empty_no_color_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    with redirect_stdout(Terminal()):
        assert Style().is_colored


def test_copies_stand_out_views_are_calm_and_what_is_new_is_dim(small: Small) -> None:
    tensor, turned = TensorMeta((2, 3), (3, 1), number=0, storage=0), TensorMeta((3, 2), (1, 3), number=1, storage=0)
    copied = TensorMeta((6,), (1,), number=2, storage=1)
    call = Call("function", "", "t", 1, {"": "y"}, inputs={"0": tensor}, outputs={"": turned})
    copy = Call("function", "", "reshape", 1, {"": "z"}, inputs={"0": turned}, outputs={"": copied})
    shown = render(Trace("m", calls=(Call("module", "", "M", 0, inputs={"x": tensor}), call, copy)), Style(color=True))
    assert "\x1b[2minput\x1b[0m" in shown
    assert "\x1b[32mview of x\x1b[0m" in shown
    assert "\x1b[1;33mcopy of y, 24 B\x1b[0m" in shown


def test_a_notebook_gets_html_in_which_nothing_of_the_trace_is_markup() -> None:
    evil = "</pre><script>alert(1)</script>&"
    call = Call("module", evil, evil, 1, {"": evil}, outputs={"": TensorMeta((2,), (1,), number=0, storage=0)})
    shown = notebook(Trace(evil, calls=(Call("module", "", "M", 0), call)))
    assert shown.startswith("<pre ")
    assert shown.endswith("</pre>")
    assert shown.count("<pre") == shown.count("</pre") == 1
    assert "<script" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in shown
    assert '<span style="color: #008080' in shown  # the shape


def test_a_trace_is_html_in_a_notebook(small: Small) -> None:
    trace = small(1)
    assert trace._repr_html_() == notebook(trace)


SHOW = """
import sys
sys.modules["torch"] = None  # importing it raises
import shapetrace
from shapetrace.renderers import FORMATS, Style, notebook, render
trace = shapetrace.load(sys.argv[1])
for format in FORMATS:
    render(trace, Style(all=True), format)
notebook(trace)
"""


def runs(code: str, *args: str) -> bool:
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True).returncode == 0


def test_showing_a_file_needs_no_torch_and_this_test_can_fail(small: Small, tmp_path: Path) -> None:
    small(2).save(tmp_path / "small.jsonl")
    assert runs(SHOW, str(tmp_path / "small.jsonl"))
    assert not runs(f"{SHOW}\nimport torch", str(tmp_path / "small.jsonl"))


def test_every_format_has_a_name() -> None:
    assert list(FORMATS) == ["tree", "table", "json", "markdown"]
