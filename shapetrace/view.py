"""How a command shows a trace, or what of it goes into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from . import files
from .errors import FileError, ShapetraceError
from .streams import complain, say

if TYPE_CHECKING:
    from .schema import Call, Trace

__all__ = ["CONTENT", "View", "emit", "narrowed", "view_of"]

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


def narrowed(trace: Trace, *, ops: bool | None, stats: bool | None) -> Trace:
    """The trace without what is not to be shown. `ShapetraceError` if it has not what is."""
    has_ops = any(call.kind == "op" for call in trace.calls)
    has_stats = any(tensor.stats for call in trace.calls for tensor in (*call.inputs.values(), *call.outputs.values()))
    for option, is_asked, is_there in (("--ops", ops, has_ops), ("--stats", stats, has_stats)):
        if is_asked and not is_there:
            raise ShapetraceError(f"{option}: there are none in this record; `shapetrace run … {option}` keeps them")
    calls = trace.calls
    if ops is False:
        calls = tuple(call for call in calls if call.kind != "op")
    if stats is False:
        calls = tuple(without_stats(call) for call in calls)
    return msgspec.structs.replace(trace, calls=calls)


def without_stats(call: Call) -> Call:
    inputs, outputs = (
        {key: msgspec.structs.replace(tensor, stats=None) for key, tensor in tensors.items()}
        for tensors in (call.inputs, call.outputs)
    )
    return msgspec.structs.replace(call, inputs=inputs, outputs=outputs)


def emit(trace: Trace, view: View) -> None:
    """Show the trace, or write it to a file and say so on stderr."""
    if view.output is None:
        say(text(trace, view))
        return
    if view.format == "trace":
        trace.save(view.output)
    else:
        files.write(view.output, f"{text(trace, view)}\n".encode("utf-8", "backslashreplace"))
    count = len(trace.calls)
    complain(f"{view.output}: written, {count} call{'s' * (count != 1)} of {trace.target}")


def text(trace: Trace, view: View) -> str:
    from .renderers import Style, copy_list, render

    style = Style(width=view.width, all=view.all, depth=view.depth)
    if view.output is not None:  # the same as into a pipe
        style = msgspec.structs.replace(style, width=view.width or 80, color=False)
    shown = copy_list(trace, style, view.format) if view.copies else render(trace, style, format=view.format)
    return shown.rstrip("\n")
