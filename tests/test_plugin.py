"""The pytest plugin, as its users see it: the files before, the command, the screen, the files after."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import shapetrace

pytest_plugins = ["pytester"]

NET = """\
from shapetrace import Call, TensorMeta, Trace


def mlp(width):
    x, hidden, y = (TensorMeta((2, size), axes=("B", size)) for size in (8, width, 4))
    calls = (
        Call("module", "", "MLP", 0, inputs={"x": x}, outputs={"": y}),
        Call("module", "up", "Linear", 1, inputs={"input": x}, outputs={"": hidden}),
        Call("module", "down", "Linear", 1, inputs={"input": hidden}, outputs={"": y}),
    )
    return Trace("MLP", "MLP", sizes={"B": 2}, dtype="float32", calls=calls)
"""
"""Traces as torch would have them made, without torch: the workers of pytest-xdist start at once."""

TEST = """\
from net import mlp


def test_mlp(golden):
    golden(mlp(16), "mlp")
"""

Screen = tuple[int, str]
"""Exit status and what is printed, without the time that it took."""

Run = Callable[..., Screen]


NO_WARNING = "ignore::pytest.PytestAssertRewriteWarning"
"""Of a package that is installed from the folder that the outer run is in, and so is there before the inner one."""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a folder that holds net.py and test_net.py; on request in a process of its own."""
    for variable in ("CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    pytester.makeini("[pytest]")
    pytester.makepyfile(net=NET, test_net=TEST)

    def run(*words: str, process: bool = False) -> Screen:
        done = (pytester.runpytest_subprocess if process else pytester.runpytest_inprocess)(
            "--quiet", "-rN", "-p", "no:cacheprovider", "-W", NO_WARNING, *words
        )
        return int(done.ret), re.sub(r" in [0-9.]+s", "", done.stdout.str().rstrip("\n"))

    return run


def text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def write(path: str, content: str) -> None:
    Path(path).write_text(content, encoding="utf-8")


def traces() -> list[str]:
    return sorted(path.name for path in Path("traces").iterdir())


def heading(text: str, fill: str) -> str:
    """As pytest writes it, 80 columns wide."""
    width = (78 - len(text)) // 2
    return f"{fill * width} {text} {fill * width}".ljust(80, fill)


def dots(results: str) -> str:
    return f"{results:<72} [100%]\n"


def failed(*reports: tuple[str, str], dot: str = "F", end: str = "1 failed") -> Screen:
    """The screen of a run in which tests fail: each with its name and what is said of it."""
    told = "".join(f"{heading(name, '_')}\n{said}\n" for name, said in reports)
    return 1, f"{dots(dot)}{heading('FAILURES', '=')}\n{told}{end}"


def passed(*summary: str, dot: str = ".", end: str = "1 passed") -> Screen:
    """The screen of a run in which all tests pass, with what is said of the golden traces."""
    told = "\n".join((heading("golden traces", "="), *summary, end)) if summary else end
    return 0, f"{dots(dot)}{told}"


# --- the story --------------------------------------------------------------------------------------------------------

MISSING = """\
traces/mlp.jsonl is not there: no trace has been accepted yet
to make it: pytest --update-traces test_net.py::test_mlp"""

WRITTEN = "traces/mlp.jsonl: written"

FILE = """\
{"shapetrace":1,"target":"MLP","model":"MLP","sizes":{"B":2},"dtype":"float32"}
{"kind":"module","path":"","name":"MLP","depth":0,"inputs":{"x":{"shape":[2,8],"axes":["B",8]}},\
"outputs":{"":{"shape":[2,4],"axes":["B",4]}}}
{"kind":"module","path":"up","name":"Linear","depth":1,"inputs":{"input":{"shape":[2,8],"axes":["B",8]}},\
"outputs":{"":{"shape":[2,16],"axes":["B",16]}}}
{"kind":"module","path":"down","name":"Linear","depth":1,"inputs":{"input":{"shape":[2,16],"axes":["B",16]}},\
"outputs":{"":{"shape":[2,4],"axes":["B",4]}}}
{"end":true}
"""


def test_a_trace_is_made_accepted_and_held(run: Run) -> None:
    assert run() == failed(("test_mlp", MISSING))
    assert not Path("traces").exists()
    assert run("--update-traces") == passed(WRITTEN)
    assert text("traces/mlp.jsonl") == FILE
    assert run() == passed()


def test_an_equal_file_stays_untouched(run: Run) -> None:
    run("--update-traces")
    os.utime("traces/mlp.jsonl", (1, 1))
    assert run("--update-traces") == passed()
    assert os.stat("traces/mlp.jsonl").st_mtime == 1


CHANGED = """\
the trace is not the one in traces/mlp.jsonl
--- traces/mlp.jsonl  MLP
+++ MLP               MLP
    B=2   float32
    x  input      [B,8]
~   up  Linear    [B,32]   (2,16) → (2,32)
    down  Linear  [B,4]
1 changed · 2 same
if this is meant: pytest --update-traces test_net.py::test_mlp"""


def test_another_trace_fails_with_what_differs_and_the_command_that_accepts_it(run: Run) -> None:
    run("--update-traces")
    write("test_net.py", TEST.replace("16", "32"))
    assert run() == failed(("test_mlp", CHANGED))
    assert text("traces/mlp.jsonl") == FILE
    command = CHANGED.rpartition("if this is meant: pytest ")[2]
    assert run(*shlex.split(command)) == passed(WRITTEN)
    assert text("traces/mlp.jsonl") == FILE.replace("16", "32")
    assert run() == passed()


def test_a_variable_or_literal_of_another_name_or_value_is_another_trace_too(run: Run) -> None:
    run("--update-traces")
    literal = 'calls = (trace.calls[0], replace(trace.calls[1], literals={"p": "0.1"}), *trace.calls[2:])'
    write(
        "test_net.py",
        f"""\
from msgspec.structs import replace
from net import mlp


def test_mlp(golden):
    trace = mlp(16)
    {literal}
    golden(replace(trace, calls=calls, notes=("compiled",)), "mlp")
""",
    )
    said = (
        "the trace is not the one in traces/mlp.jsonl\n"
        '~ notes none -> ["compiled"]\n'
        "~ Linear in up: literals.p none -> 0.1\n"
        "if this is meant: pytest --update-traces test_net.py::test_mlp"
    )
    assert run() == failed(("test_mlp", said))


def test_a_real_model_is_held(run: Run) -> None:
    write(
        "test_net.py",
        """\
import shapetrace
import torch
from torch import nn


def test_mlp(golden):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    golden(shapetrace.trace(model, torch.zeros(2, 8)), "mlp")
""",
    )
    assert run("--update-traces", process=True) == passed(WRITTEN)
    trace = shapetrace.load("traces/mlp.jsonl")
    assert trace == trace.portable()
    assert [call.name for call in trace.calls] == [
        *["Sequential", "Linear", "linear", "ReLU", "relu", "Linear", "linear"]
    ]
    assert run(process=True) == passed()


def test_what_another_machine_would_change_is_no_difference(run: Run) -> None:
    run("--update-traces")
    elsewhere = """\
def test_mlp(golden):
    trace = mlp(16)
    hidden = replace(trace.calls[1].outputs[""], device="cuda:0", stride=(1, 16), number=7, storage=7)
    calls = (trace.calls[0], replace(trace.calls[1], outputs={"": hidden}, source=("net.py", 7)), trace.calls[2])
    golden(replace(trace, target="net.py:mlp", seed=7, torch="2.99", device="cuda:0", calls=calls), "mlp")
"""
    write("test_net.py", f"from msgspec.structs import replace\nfrom net import mlp\n\n\n{elsewhere}")
    assert run() == passed()
    assert run("--update-traces") == passed()
    assert text("traces/mlp.jsonl") == FILE


def test_what_a_machine_would_change_leaves_a_file_that_holds_it(run: Run) -> None:
    """As one that `shapetrace run … --output` has written."""
    Path("traces").mkdir()
    write("traces/mlp.jsonl", FILE.replace('"dtype":"float32"}', '"dtype":"float32","device":"cpu","torch":"2.6"}'))
    assert run() == passed()
    assert run("--update-traces") == passed(WRITTEN)
    assert text("traces/mlp.jsonl") == FILE


# --- names ------------------------------------------------------------------------------------------------------------


def test_without_a_name_a_trace_is_called_as_its_test(run: Run) -> None:
    write(
        "test_net.py",
        """\
import pytest
from net import mlp


def test_plain(golden):
    golden(mlp(1))


@pytest.mark.parametrize("width", [2, "a/b", "a:b", "é", "x" * 200], ids=str)
def test_widths(golden, width):
    golden(mlp(2))


class TestNet:
    class TestDeep:
        @pytest.mark.parametrize("norm", ["pre", "post"])
        @pytest.mark.parametrize("bias", [True])
        def test_norms(self, golden, norm, bias):
            golden(mlp(3))
""",
    )
    files = [
        "test_net.TestNet.TestDeep.test_norms[True-post].jsonl",
        "test_net.TestNet.TestDeep.test_norms[True-pre].jsonl",
        "test_net.test_plain.jsonl",
        "test_net.test_widths[2].jsonl",
        "test_net.test_widths[_xe9]-0.jsonl",
        "test_net.test_widths[a_b]-0.jsonl",
        "test_net.test_widths[a_b]-0.jsonl",
        f"test_net.test_widths[{'x' * 129}-0.jsonl",
    ]
    status, _ = run("--update-traces")
    assert status == 0
    assert [re.sub("-[0-9a-f]{8}.jsonl", "-0.jsonl", name) for name in traces()] == files
    assert run()[0] == 0


NAMES = ["", "a/b", "../a", "a\\b", ".hidden", "a b", "a:b", "gpt.jsonl", "a\n", "a\0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_name_is_refused(run: Run, name: str) -> None:
    write("test_net.py", TEST.replace('"mlp"', repr(name)))
    _, screen = run("--update-traces")
    assert (
        f"E       ValueError: {name!r} is no name of a golden trace: it is made of letters, digits and any of ._-+=[]; "
        "the file is called NAME.jsonl\n"
    ) in screen
    assert not Path("traces").exists()


@pytest.mark.parametrize(
    ("given", "kind"), [("None", "NoneType"), ("mlp", "function"), ("[mlp(16)]", "list"), ("'mlp'", "str")]
)
def test_what_is_no_trace_is_refused(run: Run, given: str, kind: str) -> None:
    write("test_net.py", TEST.replace("mlp(16)", given))
    _, screen = run("--update-traces")
    said = f"E       TypeError: golden takes a trace, as shapetrace.trace(model, …) gives it, not a {kind}\n"
    assert said in screen
    assert f'>       golden({given}, "mlp")\n' in screen


# --- files that cannot be read ----------------------------------------------------------------------------------------

ANEW = "\nto write it anew: pytest --update-traces test_net.py::test_mlp"
BROKEN = {
    "cut": (FILE[:200], f"traces/mlp.jsonl is cut short: line 2 is not whole; record it again{ANEW}"),
    "without its end": (
        FILE.replace('{"end":true}\n', ""),
        f'traces/mlp.jsonl is cut short: it ends after line 4, without the last, {{"end":true}}; record it again{ANEW}',
    ),
    "empty": (
        "",
        f"traces/mlp.jsonl is empty; `shapetrace run TARGET --output FILE.jsonl` writes a trace file{ANEW}",
    ),
    "a merge's": (
        f"<<<<<<< HEAD\n{FILE}=======\n{FILE}>>>>>>> other\n",
        "traces/mlp.jsonl is no trace file: line 1 is no header; "
        f"`shapetrace run TARGET --output FILE.jsonl` writes a trace file{ANEW}",
    ),
    "edited": (
        FILE.replace("module", "modul", 1),
        "traces/mlp.jsonl, line 2: Invalid enum value 'modul' - at `$.kind`; "
        f"restore the file or record it again{ANEW}",
    ),
}
"""Files that are not whole, and what is said of them."""

KEPT = (
    "traces/mlp.jsonl is no trace file: line 1 is no header; "
    "`shapetrace run TARGET --output FILE.jsonl` writes a trace file\n"
    "it may be someone's, and stays: move it away, or keep the golden trace under another name"
)
FOREIGN = {
    "newer": (
        FILE.replace(":1", ":99", 1),
        "traces/mlp.jsonl, line 1: its format is 99, and 1 is read here: pip install -U shapetrace",
    ),
    "no trace": ('{"text": "hello"}\n', KEPT),
    "binary": ("\0\x1f\x7f\n" * 9, KEPT),
}
"""Files that another program has written, and what is said of them."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_broken_is_said_to_be_and_written_anew(run: Run, kind: str) -> None:
    content, said = BROKEN[kind]
    Path("traces").mkdir()
    write("traces/mlp.jsonl", content)
    assert run() == failed(("test_mlp", said))
    assert text("traces/mlp.jsonl") == content
    assert run("--update-traces") == passed(WRITTEN)
    assert text("traces/mlp.jsonl") == FILE


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("words", [(), ("--update-traces",)], ids=["compared", "updated"])
def test_a_file_of_another_program_is_never_replaced(run: Run, kind: str, words: tuple[str, ...]) -> None:
    content, said = FOREIGN[kind]
    Path("traces").mkdir()
    write("traces/mlp.jsonl", content)
    assert run(*words) == failed(("test_mlp", said))
    assert text("traces/mlp.jsonl") == content


def test_what_is_in_the_way_of_a_file_is_said(run: Run) -> None:
    Path("traces/mlp.jsonl").mkdir(parents=True)
    said = "traces/mlp.jsonl cannot be read: it is a folder; name a file in it"
    assert run() == run("--update-traces") == failed(("test_mlp", said))
    Path("traces/mlp.jsonl").rmdir()
    Path("traces").rmdir()
    write("traces", "")
    assert run("--update-traces") == failed(("test_mlp", "traces cannot be made: File exists"))


# --- where the files are ----------------------------------------------------------------------------------------------


def test_the_folder_can_be_configured_and_is_named_as_seen_from_the_shell(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nshapetrace_traces = data/golden")
    Path("data").mkdir()
    monkeypatch.chdir("data")
    said = MISSING.replace("traces/", "golden/", 1).replace("test_net", "../test_net")
    assert run("../test_net.py") == failed(("test_mlp", said))
    assert run("--update-traces", "../test_net.py") == passed("golden/mlp.jsonl: written")
    assert text("golden/mlp.jsonl") == FILE


def test_a_test_may_change_the_folder_it_runs_in(run: Run) -> None:
    write("test_net.py", TEST.replace("(golden):\n", '(golden, monkeypatch):\n    monkeypatch.chdir("/")\n'))
    assert run() == failed(("test_mlp", MISSING))
    assert run("--update-traces") == passed(WRITTEN)
    assert text("traces/mlp.jsonl") == FILE


# --- files that no test uses ------------------------------------------------------------------------------------------

ORPHAN = "traces/old.jsonl: no test has used it; remove it if nothing else does"

TWO = f"""\
import pytest
{TEST}

def test_other(golden):
    golden(mlp(8), "other")


def test_without():
    pass
"""


@pytest.fixture
def orphaned(run: Run) -> Run:
    """After a test and its name have gone; a file of another program has always been there."""
    write("test_net.py", TWO)
    run("--update-traces")
    Path("traces/other.jsonl").rename("traces/old.jsonl")
    write("traces/data.jsonl", '{"text": "hello"}\n')
    write("test_net.py", TWO.replace('golden(mlp(8), "other")', "pass"))
    return run


def test_a_file_that_no_test_has_used_is_reported_and_left(orphaned: Run) -> None:
    assert orphaned() == passed(ORPHAN, dot="...", end="3 passed")
    assert orphaned(".") == passed(ORPHAN, dot="...", end="3 passed")
    assert orphaned("--update-traces") == passed(ORPHAN, dot="...", end="3 passed")
    assert traces() == ["data.jsonl", "mlp.jsonl", "old.jsonl"]


def test_a_file_that_no_test_has_used_is_reported_with_what_is_wrong_with_it(orphaned: Run) -> None:
    old = Path("traces/old.jsonl").read_bytes()
    write("traces/empty.jsonl", "")
    Path("traces/cut.jsonl").write_bytes(old[:-9])
    Path("traces/more").mkdir()
    Path("traces/more/mlp.jsonl").write_bytes(old)
    assert orphaned() == passed(
        "traces/cut.jsonl: no test has used it, and it is damaged; remove it if nothing else does",
        "traces/empty.jsonl: no test has used it, and it is empty; remove it if nothing else does",
        "traces/more/mlp.jsonl: no test has used it; remove it if nothing else does",
        ORPHAN,
        dot="...",
        end="3 passed",
    )


@pytest.mark.parametrize(
    "words", ["test_net.py", "test_net.py::test_mlp", "-k mlp", "--deselect test_net.py::test_other", "--ignore net.py"]
)
def test_a_run_of_a_part_of_the_tests_reports_no_file_as_unused(orphaned: Run, words: str) -> None:
    status, screen = orphaned(*words.split())
    assert (status, "old.jsonl" in screen) == (0, False)


@pytest.mark.parametrize(
    "instead",
    ["pytest.skip()", "pytest.xfail()", "assert False"],
)
def test_a_test_that_did_not_come_to_its_end_could_have_used_any_file(orphaned: Run, instead: str) -> None:
    write("test_net.py", TWO.replace('golden(mlp(8), "other")', instead))
    assert "old.jsonl" not in orphaned()[1]


def test_a_module_that_was_skipped_could_have_used_any_file(orphaned: Run) -> None:
    write("test_more.py", "import pytest\npytest.importorskip('no_such_module')")
    assert "old.jsonl" not in orphaned()[1]


def test_the_folders_of_a_project_are_all_of_its_tests(orphaned: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ntestpaths = tests")
    pytester.mkdir("tests")
    for name in ("net.py", "test_net.py"):
        Path(name).rename(f"tests/{name}")
    assert orphaned() == orphaned("tests") == passed(ORPHAN, dot="...", end="3 passed")
    assert orphaned("tests/test_net.py") == passed(dot="...", end="3 passed")


def test_a_project_without_golden_traces_hears_nothing_of_its_files(orphaned: Run) -> None:
    write("test_net.py", "def test_nothing():\n    pass\n")
    assert orphaned() == passed()


# --- one name, two tests ----------------------------------------------------------------------------------------------

SHARED = """\
from net import mlp


def test_one(golden):
    golden(mlp(16), "mlp")


def test_other(golden):
    golden(mlp(16), "mlp")
"""


def test_two_tests_may_hold_the_same_trace(run: Run) -> None:
    write("test_net.py", SHARED)
    assert run("--update-traces") == passed(WRITTEN, dot="..", end="2 passed")
    assert run() == passed(dot="..", end="2 passed")


def test_two_tests_with_different_traces_need_two_names(run: Run) -> None:
    write("test_net.py", SHARED[::-1].replace("61", "23", 1)[::-1])
    said = "traces/mlp.jsonl: test_net.py::test_one keeps another trace in it; give each a name: golden(trace, NAME)"
    screen = failed(("test_other", said), dot=".F", end="1 failed, 1 passed")
    assert run("--update-traces") == (
        1,
        screen[1].replace("1 failed,", f"{heading('golden traces', '=')}\n{WRITTEN}\n1 failed,"),
    )
    assert text("traces/mlp.jsonl") == FILE


def test_two_traces_of_one_test_need_two_names(run: Run) -> None:
    write("test_net.py", "from net import mlp\n\n\ndef test_mlp(golden):\n    golden(mlp(16))\n    golden(mlp(8))\n")
    assert "test_net.py::test_mlp keeps another trace in it" in run("--update-traces")[1]


# --- many processes ---------------------------------------------------------------------------------------------------


def test_workers_write_compare_and_report_as_one_process_does(orphaned: Run) -> None:
    workers = ("-n2", "--no-header")
    write("test_net.py", TWO.replace("mlp(16)", "mlp(32)").replace('"other"', '"new"'))
    status, screen = orphaned("--update-traces", *workers)
    assert (status, screen.partition(heading("golden traces", "="))[2]) == (
        0,
        f"\ntraces/mlp.jsonl: written\ntraces/new.jsonl: written\n{ORPHAN}\n3 passed",
    )
    assert "old.jsonl" not in orphaned(*workers, "-k", "mlp")[1]
    write("test_net.py", TWO)
    status, screen = orphaned(*workers)
    assert status == 1
    assert CHANGED.partition("\n")[0] in screen
    assert ORPHAN not in screen


def test_workers_that_keep_different_traces_under_one_name_are_told(run: Run) -> None:
    tests = "\n\n".join(f'def test_{n}(golden):\n    golden(mlp({n % 2}), "mlp")' for n in range(20))
    write("test_net.py", f"from net import mlp\n\n{tests}\n")
    status, screen = run("--update-traces", "-n2")
    assert status == 1
    assert re.search(r"traces/mlp.jsonl: test_net.py::test_\d+ keeps another trace in it", screen)
    assert shapetrace.load("traces/mlp.jsonl").calls
    assert traces() == ["mlp.jsonl"]


def test_nothing_is_left_in_the_temporary_folder(
    run: Run, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    run("--update-traces")
    run("--update-traces", "-n1")
    assert list(folder.glob("shapetrace-*")) == []


# --- what it costs those who do not use it ----------------------------------------------------------------------------


def imported(*words: str) -> set[str]:
    """The modules that are imported after pytest has run in a process of its own."""
    code = "import pytest, sys; pytest.main(sys.argv[1:]); print(*sys.modules)"
    options = ("-p", "no:cacheprovider", *words)
    done = subprocess.run(
        [sys.executable, "-c", code, *options],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return set(done.stdout.splitlines()[-1].split())


PLUGIN = ("-p", "shapetrace.pytest_plugin")


def test_pytest_starts_with_little_more_than_the_plugin(run: Run) -> None:
    write("test_net.py", "def test_nothing():\n    pass\n")
    ours = {name for name in imported(*PLUGIN) if name.startswith("shapetrace")}
    assert ours == {
        "shapetrace",
        *(f"shapetrace.{name}" for name in ("errors", "files", "pytest_plugin", "records", "schema")),
    }
    packages = {name.partition(".")[0] for name in imported(*PLUGIN) - imported()}
    assert packages - sys.stdlib_module_names <= {"shapetrace", "msgspec", "typing_extensions"}


def test_an_equal_trace_is_held_without_what_is_slow(run: Run) -> None:
    for words in (("--update-traces",), ()):
        assert imported(*PLUGIN, *words) & {"torch", "rich", "typer", "numpy", "shapetrace.diff"} == set()


def test_that_test_would_see_torch_imported(run: Run) -> None:
    write("test_net.py", "import torch")
    assert "torch" in imported(*PLUGIN)
