"""Imports point down only, and the heavy ones stay where they belong. What a function imports counts, too.

cli    check    pytest_plugin    wire the layers
golden
renderers                        rich only here
capture    targets    passes     torch only in capture, targets and values
schema    files    records    letters    msgspec and the standard library
errors    contexts
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import shapetrace
import shapetrace.models

MAY_IMPORT = {
    "errors": "",
    "contexts": "",
    "schema": "msgspec errors",
    "files": "msgspec errors schema",
    "records": "msgspec errors schema",
    "streams": "errors contexts schema files",
    "letters": "errors",
    "passes": "msgspec errors schema files records letters",
    "diff": "msgspec errors schema records letters passes",
    "capture": "msgspec torch errors contexts schema records letters passes",
    "targets": "msgspec torch errors contexts schema letters capture",
    "values": "msgspec torch errors contexts schema records passes diff capture",
    "renderers": "msgspec rich errors schema files records letters passes diff",
    "view": "msgspec errors schema files streams renderers",
    "golden": "msgspec errors schema files diff renderers",
    "check": "msgspec errors files streams targets golden",
    "options": "typer targets renderers",
    "valuation": "msgspec errors streams targets diff values",
    "comparison": "typer errors contexts schema files streams targets diff renderers options valuation",
    "__init__": "errors schema files records",
    "pytest_plugin": "pytest errors schema files golden",
    "cli": "msgspec typer __init__ errors files streams view targets renderers check options comparison",
    "__main__": "cli",
    "models": "torch",
}
"""Each file or folder of the package -> what it may import, beside itself and the standard library."""

LATER = {
    ("schema", "records"): "trace[path] searches the records",
    ("records", "passes"): "a norm that is the stream is told by the flow of data",
    ("schema", "files"): "trace.save(path) writes a file",
    ("schema", "renderers"): "print(trace) shows it",
    ("diff", "renderers"): "print(diff) shows it",
    ("__init__", "values"): "and when two are run",
    ("targets", "transformers"): "only targets of its own need it",
    ("__init__", "capture"): "torch is imported when a model is recorded, not before",
    ("__init__", "diff"): "pytest imports the package at each start, to find the plugin",
}
"""What may be imported besides, but only inside of a function, or for the type checker: with the reason."""


class Import(NamedTuple):
    line: int
    name: str
    is_later: bool


def imports(source: str, package: str) -> Iterator[Import]:
    """What a file of `package` imports, by its dotted names."""
    tree = ast.parse(source)
    later = {id(node) for block in ast.walk(tree) if runs_later(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            names = [".".join(filter(None, (*above, node.module, alias.name))) for alias in node.names]
        else:
            continue
        yield from (Import(node.lineno, name, id(node) in later) for name in names)


def runs_later(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def area(name: str) -> str:
    """What of the package, or which other package, a dotted name belongs to."""
    root, _, rest = name.partition(".")
    if root != "shapetrace":
        return root
    part = rest.partition(".")[0]
    return part if part in MAY_IMPORT else "__init__"


def violations(sources: dict[str, str]) -> Iterator[str]:
    """What files of the package, by their dotted names, import and may not."""
    for name, source in sources.items():
        here = name.split(".")[1]
        if here not in MAY_IMPORT:
            yield f"{name} is new: say in MAY_IMPORT what it may import"
            continue
        allowed = {here, *MAY_IMPORT[here].split(), *sys.stdlib_module_names}
        for line, imported, is_later in imports(source, name.rpartition(".")[0]):
            there = area(imported)
            if there not in allowed and not (is_later and (here, there) in LATER):
                yield f"{name}, line {line} imports {imported}"


def sources() -> dict[str, str]:
    """Dotted name -> source, of all files of the package; that of a folder ends in `__init__`."""
    folders = {"shapetrace": shapetrace.__file__, "shapetrace.models": shapetrace.models.__file__}
    return {
        ".".join((package, *file.relative_to(folder).with_suffix("").parts)): file.read_text(encoding="utf-8")
        for package, folder in ((package, Path(found).parent) for package, found in folders.items())
        for file in sorted(folder.rglob("*.py"))
    }


def test_imports_point_down_only() -> None:
    assert list(violations(sources())) == []


def test_down_is_what_stands_above_in_the_table() -> None:
    places = list(MAY_IMPORT)
    for here, allowed in MAY_IMPORT.items():
        ours = [there for there in allowed.split() if there in places]
        assert [there for there in ours if places.index(there) >= places.index(here)] == []


def test_the_table_speaks_of_what_is_there() -> None:
    assert {name.split(".")[1] for name in sources()} == set(MAY_IMPORT)


def test_each_exception_is_made_use_of() -> None:
    made = {
        (name.split(".")[1], area(found.name))
        for name, source in sources().items()
        for found in imports(source, name.rpartition(".")[0])
    }
    assert set(LATER) - made == set()


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("renderers.tree", "import torch.nn as nn", "line 1 imports torch.nn"),
        ("renderers.tree", "from torch import nn", "line 1 imports torch.nn"),
        ("renderers.tree", "def f():\n    import torch", "line 2 imports torch"),
        ("renderers.tree", "from ..capture import trace", "line 1 imports shapetrace.capture.trace"),
        ("renderers.__init__", "from .. import capture", "line 1 imports shapetrace.capture"),
        ("renderers.tree", "from .. import Trace", "line 1 imports shapetrace.Trace"),
        ("renderers.tree", "from shapetrace.cli import app", "line 1 imports shapetrace.cli.app"),
        ("passes.memory", "from rich.text import Text", "line 1 imports rich.text.Text"),
        ("passes.memory", "from ..renderers import tree", "line 1 imports shapetrace.renderers.tree"),
        ("passes.memory", "class C:\n    async def f(self):\n        import numpy", "line 3 imports numpy"),
        ("schema", "from .renderers import render", "line 1 imports shapetrace.renderers.render"),
        ("schema", "if True:\n    from . import files", "line 2 imports shapetrace.files"),
        ("__init__", "from .capture import trace", "line 1 imports shapetrace.capture.trace"),
        ("errors", "from .schema import Trace", "line 1 imports shapetrace.schema.Trace"),
        ("errors", "import msgspec", "line 1 imports msgspec"),
        ("models.gpt", "from shapetrace import trace", "line 1 imports shapetrace.trace"),
        ("models.gpt", "from .. import schema", "line 1 imports shapetrace.schema"),
    ],
)
def test_the_first_of_these_tests_can_fail(name: str, source: str, found: str) -> None:
    assert list(violations({f"shapetrace.{name}": source})) == [f"shapetrace.{name}, {found}"]


def test_a_new_file_must_say_where_it_stands() -> None:
    new = {"shapetrace.utils": "", "shapetrace.helpers.text": ""}
    assert list(violations(new)) == [f"{name} is new: say in MAY_IMPORT what it may import" for name in new]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("renderers.tree", "from __future__ import annotations\nimport os.path\nfrom rich.text import Text"),
        ("renderers.tree", "from .rows import rows\nfrom . import style\nfrom ..passes.fold import fold"),
        ("capture.hooks", "import torch\nfrom ..schema import Call"),
        ("schema", "def f():\n    from .renderers import render"),
        ("schema", "if TYPE_CHECKING:\n    from .records import Scope"),
        ("cli", "from . import __version__, files\nfrom .targets.options import whole"),
        ("models.gpt", "from torch import nn\nfrom .block import Block\nfrom . import masks"),
    ],
)
def test_what_points_down_is_allowed(name: str, source: str) -> None:
    assert list(violations({f"shapetrace.{name}": source})) == []
