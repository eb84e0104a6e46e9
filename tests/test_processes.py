"""The command line in a process of its own: what is imported there, interrupted and completed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shapetrace
from tests.commands import Screen, process


def without_torch(*words: str) -> Screen:
    """Runs a command line where torch cannot be imported."""
    code = "import sys; sys.modules['torch'] = None; from shapetrace.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "--version",
        "run --help",
        "models",
        "show {}",
        "show {} --all --format json",
        "show {} --output a.md",
    ],
)
def test_torch_is_not_imported_for(line: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    status, _, err = without_torch(*line.format(saved).split())
    assert (status, "Traceback" in err) == (0, False)


@pytest.mark.parametrize("line", ["run gtp", "run nte.py:build", "run no_such_module:build", "run gpt --input x"])
def test_torch_is_not_imported_to_refuse(line: str) -> None:
    status, _, err = without_torch(*line.split())
    assert (status, "Traceback" in err) == (2, False)


def test_that_test_would_see_torch_imported() -> None:
    _, _, err = without_torch("run", "gpt")
    assert "ModuleNotFoundError: import of torch halted" in err


def test_the_first_trace_that_is_shown_draws_no_random_number() -> None:
    code = (
        "import random, torch, shapetrace\n"
        "trace = shapetrace.trace(torch.nn.Linear(4, 4), torch.zeros(2, 4))\n"
        "before = random.getstate()\n"
        "str(trace), trace._repr_html_()\n"
        "print(random.getstate() == before)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_it_runs_as_a_module() -> None:
    assert process("--version") == (0, f"shapetrace {shapetrace.__version__}\n", "")


def test_an_error_in_a_process_of_its_own_is_one_message_too() -> None:
    assert process("show", "gone.jsonl") == (
        2,
        "",
        "shapetrace: gone.jsonl cannot be read: No such file or directory\n",
    )


def test_boxes_and_broken_file_names_are_printed_whatever_the_locale_says(saved: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    _, out, _ = process("show", str(saved), environment=ascii_only)
    assert "├─" in out
    if os.name == "posix":
        status, _, err = process("show", "\udcff.jsonl", environment=ascii_only)
        assert (status, err) == (2, "shapetrace: \\udcff.jsonl cannot be read: No such file or directory\n")


def test_an_interrupt_while_a_model_runs_ends_it_silently(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import os, signal\nfrom torch import nn\n"
        "class Net(nn.Module):\n  def forward(self):\n    os.kill(os.getpid(), signal.SIGINT)\n    [*range(10**7)]\n"
    )
    assert process("run", "net.py:Net", cwd=tmp_path) == (130, "", "")


def test_the_shell_can_complete_the_names_of_models() -> None:
    words = {"_SHAPETRACE_COMPLETE": "complete_bash", "COMP_WORDS": "shapetrace run g", "COMP_CWORD": "2"}
    assert process(environment=words) == (0, "gpt\ngpt2\ngqa\n", "")
