"""The command line, as its users see it: what is printed, where, and with which exit status."""

import json
import os
from pathlib import Path

import pytest

import shapetrace
from shapetrace.renderers import FORMATS
from shapetrace.view import CONTENT
from tests.commands import Run

USER = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x + 1
        return y.view(7) if x.shape[0] == 3 else y


class Ids(nn.Module):
    def __init__(self, rows: int = 5):
        super().__init__()
        self.table = nn.Embedding(rows, 2)

    def forward(self, ids):
        return self.table(ids)


def talks(B: int = 2):
    print("hello from build")
    return Net(), (torch.zeros(B, 2),)


def fails():
    return Net(), (torch.zeros(3, 2),)


def raises(C: int = 8):
    raise KeyError(C)


def interrupted():
    raise KeyboardInterrupt


def nothing():
    pass


def own(depth: int = 1, seed: int = 0):
    print("depth", depth, "seed", seed)
    return Net(), (torch.zeros(1, 2),)


def strange():
    class Strange(nn.Module):
        def forward(self, x):
            y = x + 1
            raise GeneratorExit("enough")

    return Strange(), (torch.zeros(1, 2),)


def attends():
    class Attends(nn.Module):
        def forward(self, x):
            out = nn.functional.scaled_dot_product_attention(x, x, x)
            return out

    return Attends(), (torch.zeros(1, 2, 3, 4),)
"""


@pytest.fixture(autouse=True)
def net(tmp_path: Path) -> None:
    """The user's file, in the folder where the command runs."""
    (tmp_path / "net.py").write_text(USER)


# --- run and show ----------------------------------------------------------------------------------------------------


def test_a_registered_model_is_run_and_shown(run: Run) -> None:
    status, out, err = run("run", "gpt", "--B", "3")
    assert (status, err) == (0, "")
    assert out.startswith("GPT  decoder-only")
    assert "B=3 T=4 C=8 H=2 D=4 F=32 V=16 L=2" in out
    assert "(3,4,8)" in out


def test_a_saved_trace_is_shown_as_it_was_when_it_was_run(run: Run) -> None:
    _, shown, _ = run("run", "gpt", "--seed", "3")
    written = run("run", "gpt", "--seed", "3", "--output", "gpt.jsonl")
    calls = shapetrace.load("gpt.jsonl").calls
    assert written == (0, "", f"gpt.jsonl: written, {len(calls)} calls of gpt\n")
    assert run("show", "gpt.jsonl") == (0, shown, "")


def test_the_header_says_what_was_asked_for(run: Run) -> None:
    run("run", "GPT", "--F", "5", "--seed", "7", "--output", "gpt.jsonl")
    trace = shapetrace.load("gpt.jsonl")
    assert (trace.target, trace.seed, trace.model) == ("gpt", 7, "GPT")
    assert list(trace.sizes.items()) == [
        ("B", 2), ("T", 4), ("C", 8), ("H", 2), ("D", 4), ("F", 5), ("V", 16), ("L", 2),
    ]  # fmt: skip


def test_a_target_is_named_as_its_user_wrote_it(run: Run) -> None:
    run("run", "./net.py:Net", "--input", "x: float32[B=2, T, 8]", "--T", "4", "--output", "net.jsonl")
    trace = shapetrace.load("net.jsonl")
    assert (trace.target, trace.sizes) == ("./net.py:Net", {"B": 2, "T": 4})


def test_what_the_users_code_prints_is_kept_out_of_the_record(run: Run) -> None:
    status, out, err = run("run", "net.py:talks", "--format", "json")
    assert (status, err) == (0, "hello from build\n")
    json.loads(out)


def test_ops_are_shown_on_request(run: Run) -> None:
    run("run", "gpt", "--ops", "--output", "gpt.jsonl")
    assert {call.kind for call in shapetrace.load("gpt.jsonl").calls} == {"module", "function", "op"}


def test_of_a_file_that_is_shown_what_was_recorded_can_be_left_out(run: Run) -> None:
    run("run", "gpt", "--ops", "--stats", "--output", "both.jsonl")
    run("run", "gpt", "--output", "neither.jsonl")
    both, plain = run("show", "both.jsonl")[1], run("show", "neither.jsonl")
    assert run("show", "both.jsonl", "--ops", "--stats")[1] == both != plain[1]
    assert run("show", "both.jsonl", "--no-ops", "--no-stats") == plain
    assert run("show", "neither.jsonl", "--ops") == (
        2,
        "",
        "shapetrace: --ops: there are none in this record; `shapetrace run … --ops` keeps them\n",
    )


def test_fused_attention_is_written_out_on_request(run: Run) -> None:
    assert run("run", "net.py:attends", "--output", "fused.jsonl")[0] == 0
    status, out, err = run("run", "net.py:attends", "--materialise", "--output", "written.jsonl")
    assert (status, out) == (0, "")
    fused, written = shapetrace.load("fused.jsonl"), shapetrace.load("written.jsonl")
    assert [record.materialised for record in fused.roles("scores")] == [False]
    assert [record.materialised for record in written.roles("scores")] == [True]
    assert written[""]["scores"].shape == (1, 2, 3, 3)
    said = "scaled_dot_product_attention was written out"
    assert [any(note.startswith(said) for note in trace.notes) for trace in (fused, written)] == [False, True]


def test_the_view_options_change_what_is_shown(run: Run) -> None:
    run("run", "gpt", "--output", "gpt.jsonl")
    shown = [run("show", "gpt.jsonl", *words)[1] for words in ([], ["--all"], ["--depth", "0"], ["--width", "120"])]
    assert len(set(shown)) == 4


def test_models_lists_what_has_a_name(run: Run) -> None:
    assert run("models") == (
        0,
        """\
bert         encoder under another name: learned positions, post-LN, GELU
encoder      encoder-only: learned positions, post-LN, GELU, bidirectional
             --B 2 --T 4 --C 8 --H 2 --F --V 16 --L 2
gpt          decoder-only: learned positions, pre-LN, GELU, causal
             --B 2 --T 4 --C 8 --H 2 --F --V 16 --L 2 --G --norm pre --norm-kind
             layer --positions learned --activation gelu --qkv fused --attention
             explicit --head tied --no-bias
gpt2         gpt with all choices of GPT-2
gqa          gpt with grouped-query attention: two query heads share a key and value head
llama        gpt with all choices of Llama: RMSNorm, RoPE, GQA, SwiGLU
mqa          gpt with multi-query attention: one key and value head
original     transformer under another name: the model of the paper
postln       gpt with norm(x + f(x)), as in the paper
preln        gpt with x + f(norm(x)), as it is anyway
rope         gpt with rotary positions: nothing added, q and k turned
transformer  encoder-decoder: sinusoidal positions, post-LN, ReLU, cross-attention
             --B 2 --T 4 --S 3 --C --H --F --V --L --size seed
""",
        "",
    )


# --- output ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "format"), CONTENT.items())
def test_the_suffix_of_a_file_says_what_is_written(run: Run, suffix: str, format: str) -> None:
    run("run", "gpt", "--output", "gpt.jsonl")
    written = f"again{suffix}"
    assert run("show", "gpt.jsonl", "--output", written)[:2] == (0, "")
    if format == "trace":
        assert shapetrace.load(written) == shapetrace.load("gpt.jsonl")
    else:
        assert run("show", "gpt.jsonl", "--format", format) == (0, Path(written).read_text(encoding="utf-8"), "")


def test_a_format_goes_into_a_file_of_any_name(run: Run) -> None:
    assert run("run", "gpt", "--format", "json", "--output", "gpt.trace")[0] == 0
    json.loads(Path("gpt.trace").read_text(encoding="utf-8"))


def test_every_content_is_a_format_or_the_trace_itself() -> None:
    assert set(CONTENT.values()) - {"trace"} <= set(FORMATS)


def test_a_file_that_cannot_be_replaced_by_a_whole_one_stays(run: Run) -> None:
    Path("gpt.jsonl").write_text("precious")
    assert run("run", "net.py:nothing", "--output", "gpt.jsonl")[0] == 2
    assert Path("gpt.jsonl").read_text() == "precious"


# --- copies ----------------------------------------------------------------------------------------------------------

COPIES = """\
GPT  decoder-only · pre-LN · learned positions
B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32 cpu
13.3 kB in activations · 2 copies, 512 B: contiguous 2
bytes      copy    made by     in
256 B  ×2  concat  contiguous  blocks.*.attention
           head_output.transpose(1, 2) was not contiguous · attention.py:113
copies inside of functions, as matmul makes them, are seen with --ops
"""


def test_the_copies_are_shown_of_a_run_and_of_its_file(run: Run) -> None:
    run("run", "gpt", "--output", "gpt.jsonl")
    for words in (["run", "gpt"], ["show", "gpt.jsonl"]):
        assert run(*words, "--copies", "--width", "80") == (0, COPIES, "")


def test_copies_go_into_files_by_their_suffix_and_are_folded_unless_all_is_asked_for(run: Run) -> None:
    run("run", "gpt", "--output", "gpt.jsonl")
    assert run("show", "gpt.jsonl", "--copies", "--output", "copies.txt")[:2] == (0, "")
    assert Path("copies.txt").read_text(encoding="utf-8") == COPIES
    run("show", "gpt.jsonl", "--copies", "--output", "copies.json")
    assert [copy["path"] for copy in json.loads(Path("copies.json").read_text())["copies"]] == [
        "blocks.0.attention",
        "blocks.1.attention",
    ]
    assert run("show", "gpt.jsonl", "--copies", "--format", "markdown")[1].count("`concat`") == 1
    assert run("show", "gpt.jsonl", "--copies", "--format", "markdown", "--all")[1].count("`concat`") == 2


def test_copies_inside_of_functions_are_shown_with_ops(run: Run) -> None:
    status, out, err = run("run", "gpt", "--copies", "--ops")
    assert (status, err) == (0, "")
    assert "clone in matmul" in out
    assert "--ops" not in out


def test_what_copies_cannot_be_is_refused(run: Run) -> None:
    assert run("run", "gpt", "--copies", "--output", "gpt.jsonl") == (
        2,
        "",
        "shapetrace: gpt.jsonl would keep the record, which is not the copies alone: name it .txt, .md or .json\n",
    )
    assert run("run", "gpt", "--copies", "--depth", "1") == (
        2,
        "",
        "shapetrace: --depth opens modules of the tree; --copies lists what is in all of them, and opens none\n",
    )


# --- a forward that raises -------------------------------------------------------------------------------------------


def test_a_forward_that_raises_is_shown_until_then_followed_by_its_own_traceback(run: Run) -> None:
    status, out, err = run("run", "net.py:fails", "--output", "net.jsonl")
    trace = shapetrace.load("net.jsonl")
    assert (status, trace.target, trace.seed) == (2, "net.py:fails", 0)
    assert trace.error == "RuntimeError: shape '[7]' is invalid for input of size 6"
    assert run("show", "net.jsonl") == (0, out, "")
    lines = [line for line in err.replace(os.getcwd(), "…").split("\n") if not set(line) <= set(" ~^")]
    assert lines[0] == f"net.jsonl: written, {len(trace.calls)} calls of net.py:fails"
    assert lines[1:5] == [
        "Traceback (most recent call last):",
        '  File "…/net.py", line 8, in forward',
        "    return y.view(7) if x.shape[0] == 3 else y",
        "RuntimeError: shape '[7]' is invalid for input of size 6",
    ]
    assert lines[5].startswith("shapetrace: raised in ")
    assert lines[-1] == "shapetrace: net.py:fails: the forward of Net raised this"
    assert run("run", "net.py:fails")[2].endswith(
        "raised this; shapetrace run … --output FILE.jsonl keeps what ran until then\n"
    )


def test_a_forward_that_was_given_nothing_is_told_how_to_give_it_something(run: Run) -> None:
    _, _, err = run("run", "torch.nn:Identity", "--input", "float32[2]")
    assert err == ""
    Path("opt.py").write_text("from torch import nn\nclass Net(nn.Module):\n  def forward(self, x=None): return x + 1")
    assert run("run", "opt.py:Net")[2].split("\n")[-2] == (
        "shapetrace: opt.py:Net: the forward of Net raised this; it was given no input, "
        "--input 'x: float32[2, 4, 8]' gives it one"
    )


def test_what_is_no_users_error_is_not_said_to_be_one(run: Run) -> None:
    Path("odd.py").write_text("from torch import nn\nclass Net(nn.Module):\n  def __hash__(self): 1 / 0")
    with pytest.raises(ZeroDivisionError):
        run("run", "odd.py:Net")


def test_an_interrupt_ends_it_silently(run: Run) -> None:
    assert run("run", "net.py:interrupted") == (130, "", "")


# --- errors ----------------------------------------------------------------------------------------------------------

TARGETS = """\
  by name              bert, encoder, gpt, gpt2, gqa, llama, mqa, original, postln, preln, rope, transformer
  in a file            path/file.py:build
  in a module          package.module:build"""

GPT = "--B --T --C --H --F --V --L --G --norm --norm-kind --positions --activation --qkv --attention --head --bias"

ERRORS = {
    "run net.py:own --depth 5 --seed 3": (
        "both net.py:own and `run` take --depth and --seed; what follows -- is for net.py:own: "
        "run net.py:own -- --depth …"
    ),
    "run gpt --format json --output gpt.jsonl": (
        "gpt.jsonl would keep the record, which is not json: leave --format out, or name it .txt"
    ),
    "run gtp": f"no model is called 'gtp': did you mean gpt, gpt2?\n{TARGETS}",
    "run zzz": f"no model is called 'zzz'\n{TARGETS}",
    "run nte.py:build": "nte.py:build: there is no file nte.py: did you mean net.py?",
    "run net.py": "net.py is a file; name what in it gives the model as well, net.py:build",
    "run net.py:fials": "net.py:fials: there is no 'fials' in net.py: did you mean fails, talks, Ids?",
    "run os.pth:join": "os.pth:join: there is no module 'pth' in os",
    "run gpt.jsonl": "gpt.jsonl is no model; if it is a trace, shapetrace show gpt.jsonl shows it",
    "run --size paper transformer": "the target comes first, then its options: shapetrace run TARGET --size …",
    "run gpt --C 7": "gpt: C=7 is not divisible by H=2: take C=8 or another multiple of H",
    "run gpt --C 9 --H 4 --B 1": "gpt: C=9 is not divisible by H=4: take C=12 or another multiple of H",
    "run transformer --V 1": "transformer: V=1 leaves no id for words (id 0 is padding): take V=2 or more",
    "run gpt --T -1": "--T is the size of an axis, a whole number from 1 on, not '-1'",
    "run gpt --T x": "--T is the size of an axis, a whole number from 1 on, not 'x'",
    "run gpt --S 3": f"gpt takes no --S; it takes {GPT}",
    "run gpt --hed tied": f"gpt takes no --hed: did you mean --head? it takes {GPT}",
    "run gpt --fromat json": f"gpt takes no --fromat: did you mean --format? it takes {GPT}",
    "run gpt --head both": "gpt: --head is tied or untied, not 'both'",
    "run gpt --head": "gpt: --head needs a value: tied or untied",
    "run gpt extra": "gpt: 'extra' is no option; what follows the target is --name VALUE",
    "run gpt --input ids:int64[2]": "gpt makes its own inputs; --input is for what gives a model alone",
    "run net.py:nothing": "net.py:nothing returned None; it must return a model, (model, args) or "
    "(model, args, kwargs), where args is a tuple and kwargs a dict",
    "run net.py:torch": "net.py:torch is of type module; it must be a model or return one",
    "run net.py:Ids": "Ids needs ids\n  Ids.forward(ids)\nfor example: --input 'ids: int64[2, 4]'",
    "run net.py:Ids --input id:int64[2]": "Ids has no input 'id': did you mean ids?\n  Ids.forward(ids)",
    "run net.py:Ids --input ids:int64[B]": "--input cannot be read\n  ids:int64[B]\n            "
    "^ B has no size: write B=2 here, or give --B 2\nfor example: --input 'ids: int64[2, 4]'",
    "run net.py:Ids --input ids": "--input cannot be read\n  ids\n     "
    "^ expected ':' after the name 'ids', then a dtype\nfor example: --input 'ids: int64[2, 4]'",
    "run gpt --output gpt.pdf": "gpt.pdf: the end of its name does not say what to write; "
    "use .jsonl, .json, .md, .txt, or give --format",
    "run gpt --output gone/gpt.jsonl": "gone/gpt.jsonl cannot be written: there is no folder {here}/gone",
    "run gpt --output folder.txt": "folder.txt cannot be written: it is a folder; name a file in it",
    "show gone.jsonl": "gone.jsonl cannot be read: No such file or directory",
    "show folder.txt": "folder.txt cannot be read: it is a folder; name a file in it",
    "show empty": "empty is empty; `shapetrace run TARGET --output FILE.jsonl` writes a trace file",
    "show net.py": "net.py is no trace file: line 1 is no header; "
    "`shapetrace run TARGET --output FILE.jsonl` writes a trace file",
    "show newer": "newer, line 1: its format is 99, and 1 is read here: pip install -U shapetrace",
    "show cut": 'cut is cut short: it ends after line 1, without the last, {"end":true}; record it again',
}

USAGE = {
    "shwo gpt": ("No such command 'shwo'.", "[OPTIONS] COMMAND [ARGS]..."),
    "--verson": ("No such option: --verson", "[OPTIONS] COMMAND [ARGS]..."),
    "run": ("Missing argument 'TARGET'.", "run [OPTIONS] TARGET"),
    "show": ("Missing argument 'FILE'.", "show [OPTIONS] FILE"),
    "show a --seed 3": ("No such option: --seed", "show [OPTIONS] FILE"),
    "show a b": ("Got unexpected extra argument", "show [OPTIONS] FILE"),
    "run gpt --depth": ("Option '--depth' requires an argument.", ""),
    "run gpt --depth x": (
        "Invalid value for '--depth': it is a whole number from 0 to 1000, not 'x'.",
        "run [OPTIONS] TARGET",
    ),
    "run gpt --width 0": (
        "Invalid value for '--width': it is a whole number from 1 to 10000, not '0'.",
        "run [OPTIONS] TARGET",
    ),
    "run gpt --seed -1": (
        "Invalid value for '--seed': it is a whole number from 0 to 18446744073709551615, not '-1'.",
        "run [OPTIONS] TARGET",
    ),
    "show a --format pdf": (
        "Invalid value for '--format': it is tree, table, json, markdown, not 'pdf'.",
        "show [OPTIONS] FILE",
    ),
}
"""Beginnings: how typer goes on, and whether it puts braces around arguments, goes by its version."""


@pytest.mark.parametrize("line", ERRORS)
def test_what_a_user_gets_wrong_is_said_in_one_message(run: Run, line: str) -> None:
    Path("folder.txt").mkdir()
    for name, text in {"empty": "", "newer": '{"shapetrace":99}\n', "cut": '{"shapetrace":1,"target":"gpt"}\n'}.items():
        Path(name).write_text(text)
    assert run(*line.split()) == (2, "", f"shapetrace: {ERRORS[line]}\n".replace("{here}", os.getcwd()))


@pytest.mark.parametrize("line", USAGE)
def test_a_wrong_use_is_said_with_the_right_one(run: Run, line: str) -> None:
    message, usage = USAGE[line]
    status, out, err = run(*line.split())
    said, *shown, tried = err.translate({ord("{"): None, ord("}"): None}).splitlines()
    assert (status, out) == (2, "")
    assert said.startswith(f"shapetrace: {message}")
    assert shown == ([f"Usage: shapetrace {usage}"] if usage else [])
    assert tried.startswith("Try 'shapetrace ")
    assert tried.endswith("--help' for help.")


def test_what_the_users_builder_raises_is_its_own_traceback_and_what_to_do(run: Run) -> None:
    status, out, err = run("run", "net.py:raises", "--C", "3")
    lines = [line for line in err.replace(os.getcwd(), "…").split("\n") if not set(line) <= set(" ~^")]
    assert (status, out, lines) == (
        2,
        "",
        [
            "Traceback (most recent call last):",
            '  File "…/net.py", line 30, in raises',
            "    raise KeyError(C)",
            "KeyError: 3",
            "shapetrace: net.py:raises: raises(C=3) raised this and gave no model; it takes --C",
        ],
    )


# --- help ------------------------------------------------------------------------------------------------------------


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    status, out, err = run()
    assert (status, err) == (0, "")
    assert run("--help") == (0, out, "")
    assert [line.split()[0] for line in out.partition("Commands:\n")[2].splitlines()] == [
        *["run", "check", "show", "models", "diff"]
    ]


@pytest.mark.parametrize("command", ["", "run", "check", "show", "models", "diff"])
def test_help_shows_examples_before_options_and_fits_80_columns(run: Run, command: str) -> None:
    _, out, _ = run(*command.split(), "--help")
    assert 0 < out.index(f"    shapetrace {command}") < out.index("Options:")
    assert max(map(len, out.splitlines())) <= 80


def test_the_help_names_every_format(run: Run) -> None:
    _, out, _ = run("show", "--help")
    assert f"tree (the default), {', '.join(list(FORMATS)[1:])}" in out


def test_the_version_is_shown(run: Run) -> None:
    assert run("--version") == (0, f"shapetrace {shapetrace.__version__}\n", "")


def test_an_option_that_both_have_goes_to_the_builder_after_two_dashes(run: Run) -> None:
    status, out, err = run("run", "net.py:own", "--", "--depth", "5", "--seed", "3")
    assert (status, err) == (0, "depth 5 seed 3\n")
    status, out, err = run("run", "net.py:own", "--depth", "0", "--", "--depth", "5")
    assert (status, err) == (0, "depth 5 seed 0\n")


def test_a_forward_that_raises_what_is_no_exception_is_shown_up_to_there(run: Run) -> None:
    status, out, err = run("run", "net.py:strange")
    assert status == 2
    assert "├─ y  +" in out
    assert "GeneratorExit: enough" in err


def test_a_note_speaks_of_the_options_of_the_command(run: Run) -> None:
    _, out, _ = run("run", "torch.nn:Identity", "--input", "float32[2, 4, 8]")
    assert "note: axes: nothing tells which of the input's axes (2, 4) is which; --axes" in out
    assert "'B=2 T=4' or --axes 'B=4 T=2' says so" in " ".join(out.split())
