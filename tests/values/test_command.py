"""`shapetrace diff --values`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shapetrace.cli import main

Run = Callable[..., tuple[int, str, str]]

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False)
        self.name = name
        self.linear.weight.data.fill_(1.0 if name == "x" else 2.0)

    def forward(self, **inputs):
        y = self.linear(inputs[self.name])
        return y

def old(): return Net("x"), (), {"x": torch.ones(2, 3)}
def new(): return Net("z"), (), {"z": torch.zeros(2, 3)}
def half(): return Net("x").bfloat16(), (), {"x": torch.zeros(2, 3).bfloat16()}
def broken():
    net = Net("x")
    net.linear.weight.data.fill_(torch.nan)
    return net, (), {"x": torch.ones(2, 3)}
def nowhere(): return Net("x").to("meta"), (), {"x": torch.ones(2, 3, device="meta")}
def failing(): return Net("x"), (), {"z": torch.zeros(2, 3)}

class Picky(Net):
    def forward(self, z):
        if z.any():
            raise ValueError("only zeros")
        return self.linear(z)

def picky(): return Picky("z"), (), {"z": torch.zeros(2, 3)}

def stray(before, after):
    after.linear.bias.data.copy_(before.linear.bias)

def port(before, after):
    after.linear.weight.data.copy_(before.linear.weight)
"""


LAZY = """
import importlib, layers, torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        importlib.import_module(f"late_{layers.FACTOR}")
        return x * layers.FACTOR

def build(): return Net(), (torch.ones(3),)
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(["diff", *words])
        return status, *capsys.readouterr()

    return run


def test_the_first_tensor_that_diverges_is_shown_and_the_status_is_1(run: Run) -> None:
    # on the ones of old the linear layers give 3 · 1 and 3 · 2
    assert run("nets.py:old", "nets.py:new", "--values", "--width", "80") == (
        1,
        "--- nets.py:old  Net\n"
        "+++ nets.py:new  Net\n"
        "    inputs   x as z\n"
        "    weights  each its own\n"
        "!   y  [B,3]\n"
        "      the first tensor that diverges: 6 of 6 elements, rtol 1.3e-06, atol 1e-05\n"
        "      largest absolute difference  3 at [0,0]: 3 → 6\n"
        "      largest relative difference  1 at [0,0]: 3 → 6\n"
        "1 diverge · 0 same\n",
        "",
    )


@pytest.mark.parametrize(("how", "said"), [("copy", "1 copied"), ("nets.py:port", "put in by port")])
def test_with_the_same_weights_they_are_the_same_and_the_status_is_0(run: Run, how: str, said: str) -> None:
    status, out, err = run("nets.py:old", "nets.py:new", "--values", "--weights", how)
    assert (status, out.splitlines()[3:], err) == (0, [f"    weights  {said}", "3 same"], "")


def test_within_a_tolerance_they_are_the_same(run: Run) -> None:
    status, _, _ = run("nets.py:old", "nets.py:new", "--values", "--rtol", "1")
    assert status == 0


def test_the_inputs_have_the_dtype_that_the_second_side_takes(run: Run) -> None:
    status, out, _ = run("nets.py:old", "nets.py:half", "--values", "--weights", "copy")
    assert (status, out.splitlines()[-1]) == (0, "3 same")


def test_each_side_imports_what_stands_beside_it_also_while_it_runs(run: Run, tmp_path: Path) -> None:
    for name, factor in (("one", 2), ("two", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(LAZY)
        (tmp_path / name / "layers.py").write_text(f"FACTOR = {factor}")
        (tmp_path / name / f"late_{factor}.py").write_text("")
    status, out, _ = run("one/net.py:build", "two/net.py:build", "--values")
    assert (status, "0.5 at [0]: 2 → 3" in out) == (1, True)


def test_it_is_written_to_a_file(run: Run, tmp_path: Path) -> None:
    words = ("nets.py:old", "nets.py:old", "--values", "--output", "same.txt")
    assert run(*words) == (0, "", "same.txt: written, nets.py:old against nets.py:old\n")
    assert (tmp_path / "same.txt").read_text().endswith("\n3 same\n")


def test_json_is_for_programs_and_goes_into_files(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("nets.py:old", "nets.py:new", "--values", "--format", "json")
    found = json.loads(out)
    assert status == 1
    assert (found["inputs"], found["same"], found["within"]) == ("x as z", 0, [])
    assert found["weights"] == {"said": "each its own", "pairs": []}
    (first,) = found["diverging"]
    y = {"path": "", "name": "y", "by": "Linear", "role": None, "axes": ["B", 3], "shape": [2, 3]}
    assert first["before"] == first["after"] == y
    extreme = {"index": [0, 0], "difference": 3.0, "before": 3.0, "after": 6.0}
    assert first["apart"]["absolute"] == extreme
    assert first["apart"]["relative"] == {**extreme, "difference": 1.0}
    assert (first["apart"]["elements"], first["apart"]["differing"]) == (6, 6)
    run("nets.py:old", "nets.py:new", "--values", "--output", "v.json")
    assert (tmp_path / "v.json").read_text() == out


def test_what_is_not_finite_is_text_in_json(run: Run) -> None:
    _, out, _ = run("nets.py:old", "nets.py:broken", "--values", "--format", "json")
    found = json.loads(out)
    assert found["strange"][1]["nan"]["by"] == "linear"
    assert found["diverging"][0]["apart"]["absolute"]["after"] == "nan"
    assert found["diverging"][0]["apart"]["absolute"]["difference"] == "inf"


def test_where_nothing_can_be_compared_that_is_trouble(run: Run) -> None:
    status, out, err = run("nets.py:old", "nets.py:nowhere", "--values")
    assert (status, out) == (2, "")
    assert err == (
        "shapetrace: nets.py:old and nets.py:nowhere: of 3 tensors that correspond none has values that can be "
        "compared: they are weightless, or of other shapes\n"
    )


def test_a_model_that_raises_is_trouble(run: Run) -> None:
    status, out, err = run("nets.py:old", "nets.py:failing", "--values")
    assert (status, out) == (2, "")
    assert "KeyError: 'x'" in err
    assert err.splitlines()[-2:] == [
        "shapetrace: raised by nets.py:failing, given its own inputs",
        "shapetrace: nets.py:old against nets.py:failing: without values of both nothing is compared",
    ]


def test_a_model_that_raises_on_the_inputs_of_the_other_is_told_them(run: Run) -> None:
    status, out, err = run("nets.py:old", "nets.py:picky", "--values")
    assert (status, out) == (2, "")
    assert "ValueError: only zeros" in err
    assert "\nshapetrace: raised by nets.py:picky, given x as z\n" in err


def test_a_function_for_the_weights_that_raises_is_shown_from_its_own_line_on(run: Run, tmp_path: Path) -> None:
    status, out, err = run("nets.py:old", "nets.py:new", "--values", "--weights", "nets.py:stray")
    line = 1 + next(n for n, text in enumerate(NETS.splitlines()) if text.startswith("    after.linear.bias"))
    assert (status, out) == (2, "")
    assert err.splitlines()[:3] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "nets.py"}", line {line}, in stray',
        "    after.linear.bias.data.copy_(before.linear.bias)",
    ]
    assert err.splitlines()[-2:] == [
        "AttributeError: 'NoneType' object has no attribute 'data'",
        "shapetrace: --weights nets.py:stray: it raised this, given copies of both models",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.jsonl", "gpt", "--values"], "a.jsonl is a trace, which holds no values; --values runs two models"),
        (["gpt", "gpt", "--values", "--weights", "same"], "--weights is copy, own or file.py:function, not 'same'"),
    ],
)
def test_what_cannot_be_run_is_refused(run: Run, words: list[str], said: str) -> None:
    assert run(*words) == (2, "", f"shapetrace: {said}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--values", "--exact"], "--values compares values and does not go with --exact."),
        (["--weights", "copy"], "--weights goes with --values."),
        (["--rtol", "1", "--atol", "1"], "--rtol, --atol go with --values."),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, words: list[str], said: str) -> None:
    status, out, err = run("gpt", "gpt", *words)
    assert (status, out, err.splitlines()[0]) == (2, "", f"shapetrace: Invalid value: {said}")


def test_all_shows_which_weight_went_where(run: Run) -> None:
    _, out, _ = run("nets.py:old", "nets.py:new", "--values", "--weights", "copy", "--all")
    assert out.splitlines()[-3:] == ["    weights", "      linear.weight", "3 same"]


def test_what_has_no_weights_by_itself_is_made_with_them(run: Run) -> None:
    pytest.importorskip("transformers")
    small = "hf:gpt2[n_layer=1,n_embd=8,n_head=2,vocab_size=16]"
    status, out, _ = run(small, small, "--values")
    assert status == 0
    assert out.splitlines()[-1].endswith(" same")


def test_weights_that_are_large_are_not_made_without_being_asked_for(run: Run) -> None:
    pytest.importorskip("transformers")
    what = "and --values runs it with them: make it smaller, as [num_hidden_layers=2] does, or say [no-weightless]\n"
    assert run("hf:llama", "gpt", "--values") == (2, "", f"shapetrace: hf:llama has 27 GB of weights, {what}")
    asked = "gpt[weightless]"
    assert run(asked, "gpt", "--values") == (2, "", f"shapetrace: {asked} is asked for without weights, {what}")
