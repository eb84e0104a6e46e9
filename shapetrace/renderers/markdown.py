"""A table in GitHub's Markdown, for issues and notes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..passes.copies import totals
from ..schema import Trace
from .cells import axes, escape, sizes
from .head import does_of, letters, named
from .row import Row
from .style import Style
from .summary import said
from .table import flat
from .words import NOTHING, full_name, memory_of, said_below

__all__ = ["cells", "code", "markdown", "opening", "plain"]

TITLES = ("tensor", "role", "made by", "axes", "shape", "stride", "memory")

OPTIONAL = frozenset(map(TITLES.index, ("role", "axes")))
"""Columns that are not there when they are empty."""


def markdown(trace: Trace, style: Style) -> str:
    rows = [shown(row) for row in flat(trace, style)]
    places = [place for place in range(len(TITLES)) if place not in OPTIONAL or any(row[place] for row in rows)]
    table = [TITLES, ["---"] * len(TITLES), *rows]
    lines = [cells([row[place] for place in places]) for row in table] if rows else [NOTHING]
    last = [plain(text)] if (text := said(totals(trace))) and rows else []
    return "\n\n".join([*opening(trace), "\n".join(lines), *last])


def opening(trace: Trace) -> list[str]:
    """What was run, the notes, and the error."""
    name, *target = named(trace)
    words = (does_of(trace), trace.description, letters(trace), trace.dtype, trace.device)
    title = " ".join([f"**{plain(name)}**", *map(code, target), *(plain(word) for word in words if word)])
    notes = [f"> {plain(note)}" for note in trace.notes]
    errors = [] if trace.error is None else [f"**failed:** {plain(trace.error)}"]
    return [title, *notes, *errors]


def shown(row: Row) -> list[str]:
    if row.kind == "error":
        return [code(row.path), *[""] * (len(TITLES) - 2), plain(row.name)]
    sign, said = said_below(row)
    memory = "".join(text for text, _ in memory_of(row, sign + said, whole=True))
    made_by = " ".join(word for word in (row.maker, row.cls) if word)
    tensor = row.tensor
    form = (axes(tensor.axes), sizes(tensor.shape), sizes(tensor.stride)) if tensor is not None else ("", "", "")
    return [code(full_name(row)), plain(row.role or row.does), code(made_by), *map(code, form), plain(memory)]


def cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def plain(text: str) -> str:
    """Text that Markdown and HTML take for nothing else."""
    return re.sub(r"([\\`*_\[\]<>|~$#&])", r"\\\1", escape(text))


def code(text: str) -> str:
    """Text as code, in as many backticks as it needs; nothing for nothing."""
    if not text:
        return ""
    text = escape(text).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"
