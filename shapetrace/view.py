"""How a command shows a trace, or what of it goes into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from . import files
from .errors import FileError, ShapetraceError
from .streams import complain, say

if TYPE_CHECKING:
    from .schema import Trace

__all__ = ["CONTENT", "View", "emit", "view_of"]

CONTENT = {".jsonl": "trace", ".json": "json", ".md": "markdown", ".txt": "tree"}
"""What goes into a file, by its suffix; "trace" is what `shapetrace show` reads."""


class View(msgspec.Struct, frozen=True):
    """How a trace is shown, or what of it goes into which file."""

    format: str
    output: Path | None
    all: bool
    depth: int | None
    width: int | None
    copies: bool = False


def view_of(
    format: str | None, output: Path | None, all: bool, depth: int | None, width: int | None, copies: bool
) -> View:
    """The view that was asked for. `ShapetraceError` if what was asked for does not go together."""
    view = View(content(format, output), output, all, depth, width, copies)
    if copies and view.format == "trace":
        raise FileError(f"{output} would keep the record, which is not the copies alone: name it .txt, .md or .json")
    if copies and depth is not None:
        raise ShapetraceError(
            "--depth opens modules of the tree; --copies lists what is in all of them, and opens none"
        )
    return view


def content(format: str | None, output: Path | None) -> str:
    """What to write. `FileError` if neither `format` nor the name of the file says, or both do and differ."""
    if format is not None:
        if output is not None and output.suffix == ".jsonl":
            raise FileError(
                f"{output} would keep the record, which is not {format}: leave --format out, or name it .txt"
            )
        return format
    if output is None:
        return "tree"
    if output.suffix not in CONTENT:
        known = ", ".join(CONTENT)
        raise FileError(f"{output}: the end of its name does not say what to write; use {known}, or give --format")
    return CONTENT[output.suffix]


def emit(trace: Trace, view: View) -> None:
    """Show the trace, or write it to a file and say so on stderr."""
    if view.output is None:
        say(text(trace, view))
        return
    if view.format == "trace":
        trace.save(view.output)
    else:
        files.write(view.output, f"{text(trace, view)}\n".encode("utf-8", "backslashreplace"))
    complain(f"{view.output}: written, {len(trace.calls)} calls of {trace.target}")


def text(trace: Trace, view: View) -> str:
    from .renderers import Style, copy_list, render

    style = Style(width=view.width, all=view.all, depth=view.depth)
    if view.output is not None:  # the same as into a pipe
        style = msgspec.structs.replace(style, width=view.width or 80, color=False)
    shown = copy_list(trace, style, view.format) if view.copies else render(trace, style, format=view.format)
    return shown.rstrip("\n")
