"""Models that have a name: entry points of the group "shapetrace.models", of any installed package.

    [project.entry-points."shapetrace.models"]
    my-gpt = "my_package.models:my_gpt"

Each names a builder. What it refuses with a ValueError is the user's doing, and is shown without a traceback.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

import msgspec

from ..errors import TargetError
from .blame import blame
from .options import option
from .place import Place, hint

__all__ = ["Summary", "find", "names", "summaries"]

GROUP = "shapetrace.models"


def names() -> list[str]:
    return sorted(entry_points(group=GROUP).names)


def find(name: str) -> Place:
    """The model called `name`; case does not count. `TargetError`, with what can be run instead, if there is none."""
    entry = registered(name)
    if entry is not None:
        return Place(entry.name, partial(load, entry), registered=True)
    if name.endswith(".py"):
        raise TargetError(f"{name} is a file; name what in it gives the model as well, {name}:build")
    if name.endswith(".jsonl"):
        raise TargetError(f"{name} is no model; if it is a trace, shapetrace show {name} shows it")
    raise TargetError(
        f"no model is called {name!r}{hint(name, names())}\n"
        f"  by name              {', '.join(names()) or 'none is registered'}\n"
        "  in a file            path/file.py:build\n"
        "  in a module          package.module:build"
    )


def registered(name: str) -> EntryPoint | None:
    entries = {entry.name: entry for entry in reversed(list(entry_points(group=GROUP)))}  # of equal names the first
    folded = {known.casefold(): entry for known, entry in entries.items()}
    return entries.get(name) or folded.get(name.casefold())


def load(entry: EntryPoint) -> object:
    with blame(f"{entry.name}: {entry.value}, which it stands for, raised this while it was imported"):
        return entry.load()


class Summary(msgspec.Struct, frozen=True):
    """What is known of a model without importing it: a line, and its options as they are written."""

    name: str
    line: str
    options: tuple[str, ...] = ()


def summaries() -> Iterator[Summary]:
    for name in names():
        entry = registered(name)
        assert entry is not None
        yield read(entry) or Summary(name, entry.value)


def read(entry: EntryPoint) -> Summary | None:
    """From the source of the builder, since to import it is to import torch. None if no function is found there."""
    try:
        spec = find_spec(entry.module)
        tree = ast.parse(Path(spec.origin or "").read_bytes()) if spec is not None else ast.Module([], [])
    except (ImportError, OSError, SyntaxError, ValueError):
        return None
    for node, following in zip_longest(tree.body, tree.body[1:]):
        if isinstance(node, ast.FunctionDef) and node.name == entry.attr:
            line, _, _ = (ast.get_docstring(node) or "").partition("\n")
            return Summary(entry.name, line, tuple(written(node.args)))
        match node, following:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str() as line)):
                if name == entry.attr:
                    return Summary(entry.name, line.partition("\n")[0])
    return None


def written(arguments: ast.arguments) -> Iterator[str]:
    """Each option, with its default if it has one and that is not None: "--B 2", "--F", "--head tied"."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = [None] * (len(positional) - len(arguments.defaults))
    defaults = [*without, *arguments.defaults, *arguments.kw_defaults]
    for argument, default in zip([*positional, *arguments.kwonlyargs], defaults, strict=True):
        value = default.value if isinstance(default, ast.Constant) else None
        if isinstance(value, bool):
            yield option(f"no_{argument.arg}" if value else argument.arg)
        else:
            yield option(argument.arg) + ("" if value is None else " " + str(value))
