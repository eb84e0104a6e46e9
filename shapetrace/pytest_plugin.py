"""Golden traces in tests: `golden` fails if a trace is no longer the one that was accepted.

    def test_gpt(golden):
        golden(shapetrace.trace(model, ids), "gpt")     # compares with traces/gpt.jsonl

pytest --update-traces       writes the files that are missing or hold another trace; review them with `git diff`
shapetrace_traces = traces   in the configuration of pytest: the folder, seen from its rootdir

pytest imports this file wherever shapetrace is installed. It imports no torch, and the rest when a trace is compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .errors import FileError
from .files import encode, load, shown, write
from .schema import Trace

__all__ = ["Golden", "golden"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shapetrace")
    group.addoption("--update-traces", action="store_true", help="write golden traces that are missing or differ")
    parser.addini("shapetrace_traces", "folder of the golden traces, seen from the rootdir", default="traces")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUN] = Run(config)
    config.pluginmanager.register(config.stash[RUN])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a trace with the one that was accepted: golden(trace, "gpt") looks into traces/gpt.jsonl."""
    return Golden(request.config.stash[RUN], request.node)


class Golden:
    """What a test calls with its traces."""

    def __init__(self, run: Run, item: pytest.Item) -> None:
        self._run = run
        self._item = item

    def __call__(self, trace: Trace, name: str | None = None) -> None:
        """Fail unless `trace` is the golden trace called `name`; without a name it is called as the test is."""
        __tracebackhide__ = True
        if not isinstance(trace, Trace):
            raise TypeError(
                f"golden takes a trace, as shapetrace.trace(model, …) gives it, not a {type(trace).__name__}"
            )
        if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(
                f"{name!r} is no name of a golden trace: it is made of letters, digits and any of ._-+=[]; "
                "the file is called NAME.jsonl"
            )
        trouble = self._run.hold(trace, own_name(self._item) if name is None else name, self._item)
        if trouble:
            pytest.fail(trouble, pytrace=False)


# --- names ------------------------------------------------------------------------------------------------------------

NAME = re.compile(r"[\w+=\[\]-][\w.+=\[\]-]*(?<!\.jsonl)")
LONGEST = 150


def parts(item: pytest.Item) -> list[str]:
    """The names of a test and of the classes it is in."""
    return [node.name for node in item.listchain() if isinstance(node, pytest.Class | pytest.Item)]


def own_name(item: pytest.Item) -> str:
    """The name of a test's own trace, that every file system takes: "test_models.TestGPT.test_forward[pre]".

    Where letters had to be replaced, a digest tells it from the names that would be equal then.
    """
    whole = ".".join((item.path.stem, *parts(item)))
    name = re.sub(r"[^\w.+=\[\]-]", "_", whole)[:LONGEST]
    return name if name == whole else f"{name}-{digest(whole)[:8]}"


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")).hexdigest()


# --- a run of pytest --------------------------------------------------------------------------------------------------


class Seen:
    """What a run has come by; with pytest-xdist each worker has its own and tells the process that reports.

    asked     tests that take `golden`, and `passed` those that passed
    used      names of golden traces, and `written` of those that were written
    partial   whether tests were left out, or could not be collected
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.passed: set[str] = set()
        self.used: set[str] = set()
        self.written: set[str] = set()
        self.partial = False

    def add(self, other: dict[str, Any]) -> None:
        for field, value in other.items():
            setattr(self, field, getattr(self, field) | value)

    @property
    def is_all(self) -> bool:
        """Whether each test that could have used a golden trace has had its chance to."""
        return not self.partial and self.asked <= self.passed


class Run:
    """The golden traces of one run: where they are, and what the tests do with them. pytest calls its hooks."""

    def __init__(self, config: pytest.Config) -> None:
        told: dict[str, Any] = getattr(config, "workerinput", {})  # what pytest-xdist tells a worker
        self.config = config
        self.folder = Path(config.rootpath, config.getini("shapetrace_traces"))
        self.is_update: bool = config.getoption("update_traces")
        self.is_worker = bool(told)
        self.seen = Seen()
        self.claims = Path(told.get("shapetrace_claims") or tempfile.gettempdir())
        if self.is_update and not self.is_worker:
            self.claims = Path(tempfile.mkdtemp(prefix="shapetrace-"))

    def hold(self, trace: Trace, name: str, item: pytest.Item) -> str:
        """What is to be said of a trace that is not the golden one; empty if it is, or has been written."""
        path = self.folder / f"{name}.jsonl"
        self.seen.used.add(name)
        try:
            trouble = self.write(trace, path, item) if self.is_update else self.compare(trace, path, item)
        except FileError as error:
            trouble = str(error)
        return trouble.replace(shown(self.folder), self.here(self.folder))

    def compare(self, trace: Trace, path: Path, item: pytest.Item) -> str:
        from .golden import differences, kept

        test = "::".join((self.here(item.path), *parts(item)))
        accepting = shlex.join(("pytest", "--update-traces", test))
        changes = differences(kept(path, accepting), trace, self.here(path))
        return changes and f"the trace is not the one in {shown(path)}\n{changes}\nif this is meant: {accepting}"

    def write(self, trace: Trace, path: Path, item: pytest.Item) -> str:
        from .golden import accept

        other = self.claim(path.stem, trace, item.nodeid)
        if other:
            return f"{shown(path)}: {other} keeps another trace in it; give each a name: golden(trace, NAME)"
        if accept(path, trace):
            self.seen.written.add(path.stem)
        return ""

    def claim(self, name: str, trace: Trace, test: str) -> str:
        """The test that has kept something else under `name` in this run; empty if none has.

        A claim is a file: it says in its name what is kept, and holds by which test. It is made before the others are
        looked at, so that of two tests at the same time in two workers one sees the other.
        """
        from .golden import comparable

        mine = self.claims / f"{digest(name.casefold())[:32]}-{digest(encode(comparable(trace)))[:32]}"
        if not mine.exists():
            write(mine, test.encode())
        others = sorted(self.claims.glob(f"{mine.name.partition('-')[0]}-*"))
        return next((other.read_text("utf-8") for other in others if other != mine), "")

    def here(self, path: Path) -> str:
        """The path as seen from where pytest was called."""
        with suppress(ValueError):  # on another drive
            return shown(os.path.relpath(path, self.config.invocation_params.dir))
        return shown(path)

    # --- hooks --------------------------------------------------------------------------------------------------------

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.seen.partial |= not report.passed

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.seen.partial |= bool(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.seen.asked.update(item.nodeid for item in session.items if "golden" in getattr(item, "fixturenames", ()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seen.passed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["shapetrace_claims"] = str(self.claims)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.seen.add(getattr(node, "workeroutput", {}).get("shapetrace", {}))

    def pytest_sessionfinish(self) -> None:
        if self.is_worker:
            self.config.workeroutput["shapetrace"] = vars(self.seen)  # type: ignore[attr-defined]

    def pytest_unconfigure(self) -> None:
        if self.is_update and not self.is_worker:
            shutil.rmtree(self.claims, ignore_errors=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = [f"{self.here(self.folder / f'{name}.jsonl')}: written" for name in sorted(self.seen.written)]
        if self.seen.used and self.seen.is_all and is_whole(self.config):
            lines += (f"{self.here(path)}: {UNUSED[0]}{how}; {UNUSED[1]}" for path, how in self.orphans())
        if lines:
            terminalreporter.section("golden traces")
            for line in lines:
                terminalreporter.line(line)

    def orphans(self) -> Iterator[tuple[Path, str]]:
        """The files in the folder, and in those inside of it, that no test has used, and what is wrong with them. What
        is no trace, and was none, is somebody's."""
        from .golden import kind_of

        for path in sorted(self.folder.rglob("*.jsonl")):
            if path.relative_to(self.folder).with_suffix("").as_posix() in self.seen.used or not path.is_file():
                continue
            if (kind := kind_of(path)) != "foreign":
                yield path, wrong(path) if kind == "ours" else ", and it cannot be read"


def wrong(path: Path) -> str:
    if not path.stat().st_size:
        return ", and it is empty"
    with suppress(FileError):
        load(path)
        return ""
    return ", and it is damaged"


UNUSED = "no test has used it", "remove it if nothing else does"

RUN = pytest.StashKey[Run]()


def is_whole(config: pytest.Config) -> bool:
    """Whether the command line leaves no tests out: it names none, or the folders that hold all of them."""
    if config.getoption("lf", False) or any(str(word).startswith("--ignore") for word in config.invocation_params.args):
        return False
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return True
    named = [Path(config.invocation_params.dir, word).resolve() for word in config.args]
    wanted = [Path(config.rootpath, word).resolve() for word in config.getini("testpaths") or ["."]]
    return all(any(path in (folder, *folder.parents) for path in named) for folder in wanted)
