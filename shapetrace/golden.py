"""Traces that were accepted once and are kept in files, and what differs from them now.

What is kept is the portable trace: it survives another machine, device, torch version and Python. How the trace was
asked for, its target and seed, is kept for the reader and is no difference.
"""

from __future__ import annotations

import os
import re
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from . import files
from .errors import FileError
from .schema import Trace

__all__ = ["accept", "comparable", "differences"]

HEADER = re.compile(rb'^\{"shapetrace":([0-9]+)', re.MULTILINE)


def comparable(trace: Trace) -> Trace:
    """What of a trace has to stay as it is."""
    return msgspec.structs.replace(trace.portable(), target="", seed=None)


def differences(before: Trace, after: Trace) -> str:
    """What has changed, for a reader; empty if nothing has."""
    one, other = comparable(before), comparable(after)
    return "" if one == other else changed_lines(one, other)


def changed_lines(before: Trace, after: Trace) -> str:
    """The lines of the two files that differ."""
    old, new = ([files.encode(part).decode() for part in (header(trace), *trace.calls)] for trace in (before, after))
    return "\n".join(
        f"{sign} {line}"
        for what, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if what != "equal"
        for sign, lines in (("-", old[i:j]), ("+", new[k:n]))
        for line in lines
    )


def header(trace: Trace) -> Trace:
    return msgspec.structs.replace(trace, calls=())


def accept(path: Path, trace: Trace) -> bool:
    """Keep `trace` in the file at `path`. False if it is what the file holds: then the file stays untouched.

    `FileError` if it cannot be written, or would replace what no older shapetrace, and nothing else, has written.
    """
    try:
        kept = files.load(path)
    except FileError:
        refuse_to_replace(path)
    else:
        if kept == kept.portable() and not differences(kept, trace):
            return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{files.shown(path.parent)} cannot be made: {files.reason(error)}") from None
    trace.portable().save(path)
    return True


def refuse_to_replace(path: Path) -> None:
    """`FileError` if the file is not ours. One that was cut, or that a merge has left its marks in, can be replaced."""
    if not os.path.isfile(path):
        return
    content = path.read_bytes()
    formats = [int(number) for number in HEADER.findall(content)]
    if (content and not formats) or max(formats, default=0) > files.FORMAT:
        files.load(path)
