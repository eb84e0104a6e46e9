"""Trace files: JSON Lines, a header, then a line a call, then an end, so that one changed call is one line of a `git diff`.

The place of a call among the others is its line and its `depth`; nothing is numbered. Nothing in a file is ever run, and
what cannot be a trace is refused with the file, the line and what is wrong with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TypeVar

import msgspec

from .errors import FileError
from .schema import Call, Trace

__all__ = ["FORMAT", "load", "save", "write"]

FORMAT = 1
"""The version of the format. A change that an older shapetrace would misread raises it."""

END = b'{"end":true}'
"""The last line: without it the file was cut short."""


class Header(Trace, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The first line: the trace without its calls."""

    shapetrace: int


def save(trace: Trace, path: str | PathLike[str]) -> None:
    """Write `trace` to `path`, whole or not at all. `FileError` if it cannot be written."""
    header = msgspec.to_builtins(msgspec.structs.replace(trace, calls=()))
    lines = [msgspec.json.encode({"shapetrace": FORMAT, **header}), *map(msgspec.json.encode, trace.calls), END, b""]
    write(path, b"\n".join(lines))


def load(path: str | PathLike[str]) -> Trace:
    """Read a trace. `FileError` if `path` is no trace file, is cut short, or is of a newer format."""
    try:
        with open(path, "rb") as file:
            return read(file, os.fspath(path))
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be read: {reason(error)}") from None


def read(lines: Iterator[bytes], name: str) -> Trace:
    first = next(lines, b"")
    try:
        version = msgspec.json.decode(first, type=dict[str, object]).get("shapetrace")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        version = None
    if type(version) is not int:
        what = "is empty" if not first else "is not a shapetrace file: its first line is not a header"
        raise FileError(f"{name} {what}; `shapetrace run TARGET --output FILE.jsonl` writes one")
    if version > FORMAT:
        raise FileError(f"{name} has format {version}, this shapetrace reads up to {FORMAT}: pip install -U shapetrace")
    header = decode(HEADER, first, name, 1)
    calls: list[Call] = []
    for number, line in enumerate(lines, 2):
        if line.rstrip(b"\r\n") == END:
            fields = {field: getattr(header, field) for field in Trace.__struct_fields__ if field != "calls"}
            return Trace(**fields, calls=tuple(calls))
        call = decode(CALL, line, name, number)
        deepest = calls[-1].depth + 1 if calls else 0
        if not 0 <= call.depth <= deepest:
            raise FileError(f"{name}, line {number}: depth {call.depth} cannot follow here, from 0 to {deepest} can")
        calls.append(call)
    raise FileError(f"{name} is cut short: it ends after line {len(calls) + 1}, without its last line, {END.decode()}")


T = TypeVar("T")
HEADER = msgspec.json.Decoder(Header)
CALL = msgspec.json.Decoder(Call)


def decode(decoder: msgspec.json.Decoder[T], line: bytes, name: str, number: int) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise FileError(f"{name} is cut short: line {number} is not whole") from None
        raise FileError(f"{name}, line {number}: {error}") from None


def write(path: str | PathLike[str], content: bytes) -> None:
    """Put `content` at `path`, or leave what is there as it was. `FileError` if it cannot be written."""
    target = Path(path)
    scratch = None
    try:
        target = target.resolve()  # a link stays, what it points to is replaced
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a device or a pipe: there is nothing to keep
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask()
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            scratch = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(scratch, mode)
        os.replace(scratch, target)
    except OSError as error:
        raise FileError(f"{os.fspath(path)} cannot be written: {reason(error)}") from None
    finally:
        if scratch is not None and os.path.exists(scratch):
            os.unlink(scratch)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def reason(error: OSError) -> str:
    return error.strerror or str(error)
