"""Traces that were accepted once and are kept in files, and what differs from them now.

What is kept is the portable trace: it survives another machine, device, torch version and Python. How the trace was
asked for, its target and seed, is kept for the reader and is no difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

import msgspec

from . import errors, files
from .errors import FileError
from .schema import Call, Trace

__all__ = ["accept", "comparable", "differences", "kept", "kind_of"]

HEADER = re.compile(rb'^\{"shapetrace":([0-9]+)', re.MULTILINE)


def comparable(trace: Trace) -> Trace:
    """What of a trace has to stay as it is."""
    return msgspec.structs.replace(trace.portable(), target="", seed=None)


def differences(before: Trace, after: Trace, file: str = "") -> str:
    """What has changed, for a reader; empty if nothing has. `file` is where `before` is kept."""
    one, other = comparable(before), comparable(after)
    if one == other:
        return ""
    from .diff import compare  # these, and rich, only when there is something to say
    from .renderers import changes

    named = msgspec.structs.replace(before, target=file or before.target)
    diff = compare(named.portable(), after.portable())
    return changes(diff) if diff else "\n".join(details(one, other))


# --- what differs, field by field -------------------------------------------------------------------------------------


def details(before: Trace, after: Trace) -> Iterator[str]:
    """Each field that differs, also what a diff does not compare: variables, literals, notes. Of equal ones the first.

    "~ dropout in blocks.0.drop and 1 more: literals.p 0.1 -> 0.2"
    """
    yield from (f"~ {text}" for text in fields(header(before), header(after)))
    said: dict[tuple[str, str], list[str]] = {}
    for sign, call, text in changed_calls(before.calls, after.calls):
        said.setdefault((f"{sign} {call.name}", text), []).append(call.path or "the model")
    for (name, text), paths in said.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield f"{name} in {paths[0]}{more}{text and f': {text}'}"


def changed_calls(before: Sequence[Call], after: Sequence[Call]) -> Iterator[tuple[str, Call, str]]:
    """A sign, "~", "-" or "+", a call, and what of it has changed."""
    old, new = ([files.encode(call) for call in calls] for calls in (before, after))
    for what, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pairs = list(zip(before[i:j], after[k:n], strict=False)) if what == "replace" and j - i == n - k else []
        if pairs and all(kind(one) == kind(other) for one, other in pairs):
            yield from (("~", other, ", ".join(fields(one, other))) for one, other in pairs)
        elif what != "equal":
            yield from (("-", call, "") for call in before[i:j])
            yield from (("+", call, "") for call in after[k:n])


def kind(call: Call) -> tuple[str, str, int]:
    return call.path, call.name, call.depth


def header(trace: Trace) -> Trace:
    return msgspec.structs.replace(trace, calls=())


def fields(before: msgspec.Struct, after: msgspec.Struct) -> Iterator[str]:
    """Each field that differs: "literals.diagonal 1 -> 0"."""
    old, new = (dict(flat(msgspec.to_builtins(value))) for value in (before, after))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name} {printable(old.get(name))} -> {printable(new.get(name))}"


def flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """The values in a dict of dicts, each with the way to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}" if name and key else name or key)
    else:
        yield name, value


def printable(value: object) -> str:
    return errors.printable(
        "none" if value is None else files.encode(value).decode() if not isinstance(value, str) else value
    )


# --- files ------------------------------------------------------------------------------------------------------------


def kept(path: Path, accepting: str) -> Trace:
    """The trace in a file. `FileError`, with the command that writes it, if there is none."""
    if not os.path.exists(path):
        raise FileError(f"{files.shown(path)} is not there: no trace has been accepted yet\nto make it: {accepting}")
    try:
        return files.load(path)
    except FileError as error:
        raise FileError(f"{error}{advice(path, f'to write it anew: {accepting}')}") from None


def accept(path: Path, trace: Trace) -> bool:
    """Keep `trace` in the file at `path`. False if it is what the file holds: then the file stays untouched.

    `FileError` if it cannot be written, or if what is there is not ours to replace.
    """
    try:
        old = files.load(path)
    except FileError as error:
        if os.path.exists(path) and kind_of(path) != "ours":
            raise FileError(f"{error}{advice(path)}") from None
    else:
        if old == old.portable() and not differences(old, trace):
            return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{files.shown(path.parent)} cannot be made: {files.reason(error)}") from None
    trace.portable().save(path)
    return True


def advice(path: Path, anew: str = "") -> str:
    """What to do about a file that cannot be read; nothing where what was said of it tells that.

    anew   what to do about a trace that is not whole any more, which may be replaced
    """
    found = kind_of(path)
    if found == "foreign":
        return "\nit may be someone's, and stays: move it away, or keep the golden trace under another name"
    return f"\n{anew}" if found == "ours" and anew else ""


def kind_of(path: Path) -> Literal["ours", "foreign", "closed"]:
    """Whose a file is: ours is a trace of this format, if only what was cut, or a merge has left its marks in; and one
    that is empty. Closed is what cannot be read at all, or not by this version."""
    try:
        content = path.read_bytes()
    except OSError:
        return "closed"
    if not content:
        return "ours"
    formats = [int(number) for number in HEADER.findall(content)]
    if not formats:
        return "foreign"
    return "ours" if 0 < max(formats) <= files.FORMAT else "closed"
