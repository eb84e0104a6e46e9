"""A trace as something a person reads. rich is used here and nowhere else; torch is not."""

from __future__ import annotations

from collections.abc import Callable

from ..schema import Trace
from . import undrawn  # noqa: F401  # before all that imports rich
from .changes import CONTEXT, changes
from .changes_json import changes_json
from .copies import copy_list
from .json import json
from .markdown import markdown
from .output import html
from .style import Style
from .table import table
from .tree import tree, tree_lines
from .values import values
from .values_json import values_json

__all__ = [
    "CONTEXT",
    "FORMATS",
    "Style",
    "changes",
    "changes_json",
    "copy_list",
    "notebook",
    "render",
    "values",
    "values_json",
]

FORMATS: dict[str, Callable[[Trace, Style], str]] = {
    "tree": tree,
    "table": table,
    "json": json,
    "markdown": markdown,
}
"""Name -> what makes a text of a trace, as asked for in a style."""

NOTEBOOK_WIDTH = 120


def render(trace: Trace, style: Style | None = None, format: str = "tree") -> str:
    """`trace` as text, in one of `FORMATS`."""
    return FORMATS[format](trace, style or Style())


def notebook(trace: Trace) -> str:
    """The tree as HTML."""
    return html(tree_lines(trace, NOTEBOOK_WIDTH))
