"""`shapetrace check FILE TARGET`: what is printed, the exit status, and what is in the file afterwards."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import shapetrace
from shapetrace.cli import main

Screen = tuple[int, str, str]
"""Exit status, stdout, stderr."""

Run = Callable[[str], Screen]

NET = """\
import torch
from torch import nn


def build(width: int = 16, depth: int = 1):
    print("hello from build")
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4)), (torch.zeros(2, 8),)


def fails():
    return nn.Linear(8, 4), (torch.zeros(2, 7),)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a line that begins with "shapetrace" in a folder that holds net.py."""
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(line: str) -> Screen:
        program, *words = shlex.split(line)
        assert program == "shapetrace"
        return (main(words), *capsys.readouterr())

    return run


def test_a_trace_is_made_accepted_and_held(run: Run) -> None:
    said = "shapetrace: traces/gpt.jsonl is not there: no trace has been accepted yet\nto make it: "
    command = "shapetrace check --update traces/gpt.jsonl gpt --B 3"
    assert run("shapetrace check traces/gpt.jsonl gpt --B 3") == (2, "", f"{said}{command}\n")
    assert not Path("traces").exists()
    assert run(command) == (0, "", "traces/gpt.jsonl: written in a new folder, 86 calls of gpt\n")
    trace = shapetrace.load("traces/gpt.jsonl")
    assert (trace, trace.sizes["B"]) == (trace.portable(), 3)
    assert run("shapetrace check traces/gpt.jsonl gpt --B 3") == (0, "", "")


def test_an_equal_file_stays_untouched(run: Run) -> None:
    command = "shapetrace check gpt.jsonl gpt --update"
    run(command)
    os.utime("gpt.jsonl", (1, 1))
    assert run(command) == (0, "", "gpt.jsonl: the same, left alone\n")
    assert os.stat("gpt.jsonl").st_mtime == 1


CHANGES = """\
--- net.jsonl     Sequential
+++ net.py:build  Sequential
    B=2   float32
~   C 16 → 32: explains 2 shapes
sizes differ, nothing else · 4 same
"""


def test_what_differs_is_shown_with_the_command_that_accepts_it(run: Run) -> None:
    run("shapetrace check --update net.jsonl net.py:build")
    command = "shapetrace check --update net.jsonl net.py:build --width 32"
    status, out, err = run("shapetrace check net.jsonl net.py:build --width 32")
    assert (status, out, err) == (1, CHANGES, f"hello from build\nif this is meant: {command}\n")
    assert run(command) == (0, "", "hello from build\nnet.jsonl: written, 7 calls of net.py:build\n")
    assert run("shapetrace check net.jsonl net.py:build --width 32") == (0, "", "hello from build\n")


def test_one_call_is_no_calls(run: Run) -> None:
    said = run("shapetrace check --update one.jsonl torch.nn:Identity --input 'float32[B=2, 8]'")
    assert said == (0, "", "one.jsonl: written, 1 call of torch.nn:Identity\n")


def test_the_options_are_those_of_run(run: Run) -> None:
    options = "torch.nn:Linear --in-features 8 --out-features 4 --input 'float32[B=2, 8]' --seed 3 --ops --axes C=8"
    assert run(f"shapetrace check --update linear.jsonl {options}")[0] == 0
    trace = shapetrace.load("linear.jsonl")
    assert {call.kind for call in trace.calls} == {"module", "function", "op"}
    assert trace.calls[0].inputs["input"].axes == ("B", "C")
    assert trace.seed == 3
    assert run(f"shapetrace check linear.jsonl {options}") == (0, "", "")


def test_a_file_of_run_can_be_checked(run: Run) -> None:
    run("shapetrace run gpt --output gpt.jsonl --seed 3")
    assert run("shapetrace check gpt.jsonl gpt") == (0, "", "")


def test_an_option_that_both_have_goes_to_the_builder_after_two_dashes(run: Run) -> None:
    _, _, err = run("shapetrace check net.jsonl net.py:build -- --depth 3")
    assert err.splitlines()[-1] == "to make it: shapetrace check --update net.jsonl net.py:build -- --depth 3"


def test_a_forward_that_raises_is_trouble(run: Run) -> None:
    status, out, err = run("shapetrace check --update net.jsonl net.py:fails")
    assert (status, out) == (2, "")
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x7 and 8x4)" in err
    assert err.splitlines()[-1] == (
        "shapetrace: net.py:fails: the forward of Linear raised this; "
        "shapetrace run … --output FILE.jsonl keeps what ran until then"
    )
    assert not Path("net.jsonl").exists()


ERRORS = {
    "check gpt net.jsonl": "the file comes first, then the target: shapetrace check net.jsonl gpt …",
    "check --F 16 net.jsonl gpt": "the target comes first, then its options: shapetrace check FILE TARGET --F …",
    "check gone.jsonl gpt": (
        "gone.jsonl is not there: no trace has been accepted yet\nto make it: shapetrace check --update gone.jsonl gpt"
    ),
    "check cut.jsonl gpt": (
        'cut.jsonl is cut short: it ends after line 1, without the last, {"end":true}; record it again\n'
        "to write it anew: shapetrace check --update cut.jsonl gpt"
    ),
    "check newer.jsonl gpt": "newer.jsonl, line 1: its format is 99, and 1 is read here: pip install -U shapetrace",
    "check --update newer.jsonl gpt": (
        "newer.jsonl, line 1: its format is 99, and 1 is read here: pip install -U shapetrace"
    ),
    "check --update net.py gpt": (
        "net.py is no trace file: line 1 is no header; `shapetrace run TARGET --output FILE.jsonl` writes a trace "
        "file\nit may be someone's, and stays: move it away, or keep the golden trace under another name\n"
    ),
    "check --update gpt.jsonl gtp": ("no model is called 'gtp': did you mean gpt, gpt2?\n"),
    "check --update gpt.jsonl gpt --updat": "gpt takes no --updat: did you mean --update? it takes",
}


@pytest.mark.parametrize("line", ERRORS)
def test_what_a_user_gets_wrong_is_said_in_one_message(run: Run, line: str) -> None:
    for name, text in {"newer": '{"shapetrace":99}\n', "cut": '{"shapetrace":1,"target":"gpt"}\n'}.items():
        Path(f"{name}.jsonl").write_text(text)
    before = sorted((path, path.read_bytes()) for path in Path().iterdir())
    status, out, err = run(f"shapetrace {line}")
    assert (status, out) == (2, "")
    assert err.startswith(f"shapetrace: {ERRORS[line]}")
    assert sorted((path, path.read_bytes()) for path in Path().iterdir()) == before


@pytest.mark.parametrize("line", ["check gone.jsonl gpt", "check --help", "check --update gpt.jsonl gtp"])
def test_torch_is_not_imported_to_refuse(line: str) -> None:
    code = "import sys; sys.modules['torch'] = None; from shapetrace.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0 if "--help" in line else 2, False)
