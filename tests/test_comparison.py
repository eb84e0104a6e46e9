"""`shapetrace diff`, as its users see it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shapetrace.cli import main

Screen = tuple[int, str, str]
TRACES = Path(__file__).parent.parent / "traces"
GPT, POSTLN = str(TRACES / "gpt.jsonl"), str(TRACES / "postln.jsonl")

USER = """\
import torch
from torch import nn


def net(width: int = 8, B: int = 2):
    print("hello from build")
    return nn.Sequential(nn.Linear(4, width), nn.Linear(width, 4)), (torch.zeros(B, 4),)


def fails():
    return nn.Linear(4, 4), (torch.zeros(2, 3),)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Screen]:
    """Runs a command line in a folder that holds net.py."""
    (tmp_path / "net.py").write_text(USER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*words: str) -> Screen:
        status = main(["diff", *words])
        return (status, *capsys.readouterr())

    return run


Run = Callable[..., Screen]


def test_a_file_is_the_same_as_itself(run: Run) -> None:
    assert run(GPT, GPT) == (
        0,
        """\
--- gpt  GPT   decoder-only · pre-LN · learned positions
+++ gpt  GPT   decoder-only · pre-LN · learned positions
    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32
40 same
""",
        "",
    )


def test_models_are_compared_by_their_names_whatever_their_case(run: Run) -> None:
    assert run("prelN", "postlN", "--width", "80") == (
        1,
        """\
--- preln   GPT   decoder-only · pre-LN · learned positions
+++ postln  GPT   decoder-only · post-LN · learned positions
    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu
    …
    x · residual  +                     [B,T,C]
~   blocks.0  Block                     role pre-LN block → post-LN block
                                        and blocks.1
↕     norm_1  LayerNorm                 [B,T,C]   role norm → residual
                                        before attention → after x · residual
      attention  MultiHeadAttention · causal self-attention  20 tensors, same
      x · residual  +                   [B,T,C]
↕     norm_2  LayerNorm                 [B,T,C]   role norm → residual
                                        before feed_forward → after x · residual
      feed_forward  FeedForward         3 tensors, same
      …
-   norm_f  LayerNorm                   [B,T,C]
    head · logits  Linear               [B,T,V]
    …
2 moved · 1 removed · 1 changed · 37 same
""",
        "",
    )


def test_each_side_has_options_of_its_own_and_letters_are_of_both(run: Run) -> None:
    status, out, err = run("net.py:net", "net.py:net[width=16]", "--B", "3")
    assert (status, err) == (1, "hello from build\n" * 2)
    assert (
        out
        == """\
--- net.py:net            Sequential
+++ net.py:net[width=16]  Sequential
    B=3   float32 cpu
~   C 8 → 16: explains 1 shape
sizes differ, nothing else · 3 same
"""
    )


def test_a_file_is_compared_with_what_runs_now(run: Run) -> None:
    assert run(GPT, "gpt")[0] == 0
    status, out, _ = run(GPT, "gpt[B=3]")
    assert status == 1
    assert "~   B 2 → 3: explains" in out
    assert out.endswith("sizes differ, nothing else · 40 same\n")


def test_a_side_comes_through_a_pipe(run: Run) -> None:
    reading, writing = os.pipe()
    os.write(writing, Path(GPT).read_bytes())
    os.close(writing)
    assert run(f"/dev/fd/{reading}", GPT)[0] == 0
    os.close(reading)


def test_a_side_is_read_from_stdin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    given(Path(POSTLN).read_bytes())
    status, out, _ = run(GPT, "-")
    assert (status, out) == (1, run(GPT, POSTLN)[1])
    given(b"")
    assert run("-", GPT)[2].startswith("shapetrace: stdin is empty; `shapetrace run TARGET --output")
    assert run("-", "-")[2].startswith("shapetrace: Invalid value: stdin is one trace: only one of both sides can be -")


def test_what_is_no_difference_has_no_sign_in_the_header(run: Run) -> None:
    assert run(GPT, "gpt")[1].splitlines()[2:] == [
        "    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu",
        "40 same",
    ]
    status, out, _ = run("net.py:net", "net.py:net[device=meta]")
    assert (status, out.splitlines()[2:]) == (0, ["    B=2 C=8", "    float32 cpu → meta", "3 same"])
    status, out, _ = run("gpt", "gqa", "--only", "dtype")
    assert (status, [line for line in out.splitlines() if line.startswith("~")]) == (0, [])
    assert run("gpt", "gpt[B=3]", "--ignore", "shape")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt", "gqp"], "shapetrace: no model is called 'gqp': did you mean gpt, gqa, gpt2?\n"),
        ([GPT, "gone.jsonl"], "shapetrace: gone.jsonl cannot be read: No such file or directory\n"),
        ([GPT, GPT, "--only", "shapes"], "shapetrace: no field is called 'shapes': did you mean shape?\n"),
        ([GPT, GPT, "--exact"], "shapetrace: an exact comparison needs strides and memory, and"),
        ([GPT, GPT, "--output", "a.md"], "shapetrace: a.md: the end of its name does not say what to write; use .txt"),
        ([GPT], "shapetrace: Missing argument"),
        (["net.py:fails", GPT], "Traceback (most recent call last)"),
    ],
)
def test_what_cannot_be_compared_is_trouble(run: Run, words: list[str], said: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert err.startswith(said)


def test_what_a_file_says_is_shown_in_an_error_and_not_obeyed(run: Run) -> None:
    text = Path(GPT).read_text(encoding="utf-8")
    Path("red.jsonl").write_text(text.replace('"target":"gpt"', r'"target":"\u001b[31mgpt"', 1), encoding="utf-8")
    _, _, err = run("red.jsonl", GPT, "--exact")
    assert r"the trace of \x1b[31mgpt and that of gpt" in err


def test_options_of_a_target_are_those_of_both_sides(run: Run) -> None:
    linear = "torch.nn:Linear[in_features=8,out_features={}]"
    status, out, _ = run(linear.format(4), linear.format(5), "--input", "float32[B=2, 8]")
    assert (status, "(2,4) → (2,5)" in out) == (1, True)
    assert run("gpt[G=1]", "gpt", "--G", "1")[0] == 0


def test_fields_are_chosen(run: Run) -> None:
    assert run(GPT, POSTLN, "--only", "shape", "--only", "axes")[0] == 0
    assert run(GPT, POSTLN, "--ignore", "role")[1].endswith("2 moved · 1 removed · 37 same\n")


def test_context_and_all_change_what_is_shown(run: Run) -> None:
    shown = [run(GPT, POSTLN, *words)[1] for words in ([], ["-U", "0"], ["--unified", "3"], ["--all"])]
    assert len(set(shown)) == 4
    assert len(shown[1].splitlines()) < len(shown[0].splitlines()) < len(shown[2].splitlines())


def test_json_is_for_programs_and_goes_into_files(run: Run) -> None:
    status, out, _ = run(GPT, POSTLN, "--format", "json")
    assert (status, json.loads(out)["counts"]) == (1, {"changed": 1, "moved": 2, "removed": 1})
    assert run(GPT, POSTLN, "--output", "d.json") == (1, "", f"d.json: written, {GPT} against {POSTLN}\n")
    assert Path("d.json").read_text(encoding="utf-8") == out
    assert run(GPT, POSTLN, "--output", "d.txt")[0] == 1
    assert Path("d.txt").read_text(encoding="utf-8") == run(GPT, POSTLN, "--width", "80")[1]


def test_two_files_are_compared_without_torch() -> None:
    script = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is imported")

sys.meta_path.insert(0, NoTorch())
from shapetrace.cli import main
sys.exit(main(["diff", *sys.argv[1:]]))
"""
    done = [
        subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True)
        for words in ((GPT, GPT), (GPT, POSTLN), (GPT, "gpt"))
    ]
    assert [each.returncode for each in done] == [0, 1, 1]
    assert done[2].stderr.endswith("ImportError: torch is imported\n")  # the test can fail


def test_options_of_what_is_run_are_refused_where_both_sides_are_files(run: Run) -> None:
    status, out, err = run(GPT, POSTLN, "--B", "3", "--seed", "1")
    assert (status, out) == (2, "")
    assert "--B, --seed are of what is run, and both sides are files." in " ".join(err.split())


def test_files_of_one_target_are_told_apart_by_their_names(run: Run) -> None:
    for name in ("old", "new"):
        Path(f"{name}.jsonl").write_bytes(Path(GPT).read_bytes())
    _, out, _ = run("old.jsonl", "new.jsonl")
    assert [line.partition("  ")[0] for line in out.splitlines()[:2]] == ["--- old.jsonl (gpt)", "+++ new.jsonl (gpt)"]
