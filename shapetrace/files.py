"""Trace files: JSON Lines, a header, then a line a call, then an end. A changed call is one line of a `git diff`.

The place of a call among the others is its line and its `depth`; nothing is numbered. Nothing in a file is ever run,
and what cannot be a trace is refused with the file, the line and what is wrong with it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import time
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike
from stat import S_IMODE
from typing import BinaryIO

import msgspec

from .errors import FileError, brief, printable
from .schema import Call, Trace

__all__ = ["FORMAT", "LONGEST", "encode", "load", "read", "reason", "save", "write"]

FORMAT = 1
"""The version of the format. What an older shapetrace would refuse or misread, a new field for one, raises it."""

BEGIN = b'{"shapetrace":'
"""How the first line begins."""

END = b'{"end":true}'
"""The last line: without it the file was cut short."""

SHOWN = {".txt": "text", ".md": "Markdown", ".json": "one JSON object", ".html": "a page"}
"""Ends of names that say something else than a trace file."""

SPACES = b" \t\r\n"
"""That stand between words where another program has written the file anew."""

LONGEST = 1 << 26
"""Bytes of a line: of a file that has no lines, or no end, no more is read."""

CALL = msgspec.json.Decoder(Call)
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
HOW_TO_MAKE_ONE = "`shapetrace run TARGET --output FILE.jsonl` writes a trace file"


def save(trace: Trace, path: str | PathLike[str]) -> None:
    """Write `trace` to `path`, whole or not at all. `FileError` if it cannot be written, could not be read again, or
    if the end of its name says that it is something else."""
    if (suffix := os.path.splitext(path)[1]) in SHOWN:
        raise FileError(
            f"{shown(path)} would be taken for {SHOWN[suffix]}, and a record is kept: name it .jsonl; "
            "str(trace) is the tree, and `shapetrace show FILE.jsonl --output` writes it"
        )
    deepest = 0
    for number, call in enumerate(trace.calls):
        try:
            deepest = below(call, deepest)
        except ValueError as error:
            raise FileError(f"{shown(path)} cannot be written: call {number}, {call.name}: {error}") from None
    header = msgspec.to_builtins(msgspec.structs.replace(trace, calls=()))
    lines = [encode({"shapetrace": FORMAT, **header}), *map(encode, trace.calls), END, b""]
    write(path, b"\n".join(lines))


def encode(value: object) -> bytes:
    """JSON in UTF-8. What a terminal would obey is escaped; half a character, as in a file name that is no UTF-8, is
    written as Python shows it: \\udcff."""
    try:
        found = msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        found = re.sub(r"[\ud800-\udfff]", lambda half: rf"\\u{ord(half[0]):x}", text).encode()
    if found.isascii():
        return found
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in found.decode()).encode()


def load(path: str | PathLike[str]) -> Trace:
    """Read a trace. `FileError` if `path` is no trace file, is cut short, or is of a newer format."""
    try:
        with open(path, "rb") as file:
            return read(iter(lambda: file.readline(LONGEST), b""), shown(path), is_cut=not ends(file))
    except OSError as error:
        raise FileError(f"{shown(path)} cannot be read: {reason(error)}") from None


def ends(file: BinaryIO) -> bool:
    """Whether the last line is there; of a pipe nobody knows. Of a file that is cut no call need be kept."""
    if not file.seekable():
        return True
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2 * len(END)))
    is_there = END in file.read(2 * len(END)).translate(None, SPACES)
    file.seek(0)
    return is_there


def read(lines: Iterator[bytes], name: str, *, is_cut: bool = False) -> Trace:
    """is_cut   whether it is known that the end is not there, so that only what is wrong is looked for"""
    header = read_header(next(lines, b""), name)
    calls: list[Call] = []
    deepest, number = 0, 1
    for number, line in enumerate(lines, 2):
        if len(line) < 4 * len(END) and line.translate(None, SPACES) == END:
            if next(lines, None) is not None:
                raise FileError(f"{name}, line {number + 1}: the trace ended above; a file holds no more than one")
            if is_cut:  # somebody has only now written it
                break
            return msgspec.structs.replace(header, calls=tuple(calls))
        try:
            call = CALL.decode(line)
            deepest = below(call, deepest)
        except UNREADABLE as error:
            raise unreadable(line, name, number, error) from None
        if not is_cut:
            calls.append(call)
    raise FileError(
        f"{name} is cut short: it ends after line {number}, without the last, {END.decode()}; record it again"
    )


def read_header(line: bytes, name: str) -> Trace:
    """The trace without its calls, from the first line."""
    line = line.removeprefix(BOM_UTF8)
    if not line:
        raise FileError(f"{name} is empty; {HOW_TO_MAKE_ONE}")
    is_ours = line.startswith(BEGIN) or BEGIN.startswith(line)
    try:
        fields = msgspec.json.decode(line, type=dict[str, object])
    except UNREADABLE as error:
        if is_ours:
            raise unreadable(line, name, 1, error) from None
        fields = {}
    version = fields.pop("shapetrace", None)
    if type(version) is not int or version < 1:
        raise FileError(f"{name} is no trace file: line 1 is no header; {HOW_TO_MAKE_ONE}")
    if version > FORMAT:
        raise FileError(
            f"{name}, line 1: its format is {version}, and {FORMAT} is read here: pip install -U shapetrace"
        )
    if "calls" in fields:
        raise FileError(f"{name} is one JSON object, made for other programs to read; {HOW_TO_MAKE_ONE}")
    try:
        return msgspec.convert(fields, Trace)
    except UNREADABLE as error:
        raise unreadable(line, name, 1, error) from None


def below(call: Call, deepest: int) -> int:
    """How deep the call after `call` can be. ValueError if `call` itself is deeper than `deepest`."""
    if not 0 <= call.depth <= deepest:
        can = f"0 to {deepest}" if deepest else "0"
        raise ValueError(f"depth {call.depth} cannot stand here, {can} can")
    return call.depth + 1


def unreadable(line: bytes, name: str, number: int, error: Exception) -> FileError:
    if len(line) == LONGEST:
        return FileError(f"{name}, line {number}: it has more than {LONGEST} bytes, which no call has; record it again")
    if not line.endswith(b"\n"):
        return FileError(f"{name} is cut short: line {number} is not whole; record it again")
    what = printable(brief(str(error))) if line.strip() else "it is empty"
    return FileError(f"{name}, line {number}: {what}; restore the file or record it again")


def write(path: str | PathLike[str], content: bytes) -> None:
    """Put `content` at `path`, or leave what is there as it was. `FileError` if it cannot be written."""
    try:
        if is_stream(os.fspath(path)):
            # "wb" would empty the file that stdout was sent to with >>; and who reads a pipe may stop
            with suppress(BrokenPipeError), open(path, "ab") as stream:
                stream.write(content)
        else:
            replace(os.path.realpath(path), content)  # a link stays, what it points to is replaced
    except OSError as error:
        raise FileError(f"{shown(path)} cannot be written: {reason(error)}") from None


STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def is_stream(path: str) -> bool:
    """Whether `path` is a pipe, a device, or what the shell has opened: there is nothing to keep, and no whole."""
    return path.startswith(STREAMS) or (os.path.exists(path) and not os.path.isfile(path))


def replace(target: str, content: bytes) -> None:
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise OSError(f"there is no folder {shown(folder)}")
    scratch = scratch_of(target)
    mode = S_IMODE(os.stat(target).st_mode) if os.path.lexists(target) else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        with open(scratch, "xb") as file:
            if mode is not None:
                os.chmod(scratch, mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


OLD = 3600.0
"""Seconds after which nobody is still writing."""


def scratch_of(target: str) -> str:
    """A new file beside the target, called so that one that is found tells whose it is.

    Who is killed while writing leaves it: the next one that writes there removes those that are old.
    """
    folder, name = os.path.split(target)
    start = f".{name[:100]}.shapetrace-"
    for other in os.listdir(folder or "."):
        if other.startswith(start):
            left = os.path.join(folder, other)
            with suppress(OSError):
                if time.time() - os.stat(left).st_mtime > OLD:
                    os.unlink(left)
    return os.path.join(folder, f"{start}{secrets.token_hex(8)}")


def shown(path: str | PathLike[str]) -> str:
    return printable(os.fspath(path))


def reason(error: OSError) -> str:
    """What went wrong, and what to do where there is more to do than the system says."""
    if isinstance(error, IsADirectoryError):
        return "it is a folder; name a file in it"
    return error.strerror or str(error)
