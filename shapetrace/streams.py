"""stdin, stdout and stderr, which may be closed, full, in an encoding without `├`, or a pipe nobody reads on."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress

from . import files
from .contexts import context
from .errors import FileError, printable
from .files import reason
from .schema import Trace

__all__ = ["STDIN", "aside", "complain", "hush", "names_trace", "read", "say", "set_encoding"]

STDIN = "-"


def set_encoding() -> None:
    """From now on write UTF-8, whatever the locale says, and what it has no bytes for (a broken file name) as \\\\x…"""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


@context
def aside() -> Iterator[None]:
    """What the user's code prints meanwhile goes to stderr: it is not the record."""
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch says so where there is none; none is needed
    with redirect_stdout(sys.stderr):
        yield


def names_trace(word: str) -> bool:
    """Whether a word names a trace, and nothing to run: what there is, be it a pipe, or would be a trace file."""
    return word == STDIN or word.endswith(".jsonl") or (os.path.exists(word) and not os.path.isdir(word))


def read(word: str) -> Trace:
    """The trace in a file, or on stdin. `FileError` if it is none."""
    if word != STDIN:
        return files.load(word)
    if sys.stdin is None:
        raise FileError("stdin is closed")
    return files.read(iter(lambda: sys.stdin.buffer.readline(files.LONGEST), b""), "stdin")


def say(text: str) -> None:
    """Print on stdout. That nobody reads on, or that it is closed, is no error; `FileError` if it is full."""
    if sys.stdout is None:
        return
    try:
        print(text, flush=True)
    except BrokenPipeError:
        hush()
    except OSError as error:
        hush()
        raise FileError(f"the output cannot be written: {reason(error)}") from None


def complain(text: str) -> None:
    """Print on stderr, if anything can be; what a terminal would obey is shown, for a file can say anything."""
    if sys.stderr is not None:
        with suppress(OSError):
            print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)


def hush() -> None:
    """Let go of what stdout still holds: Python would complain, when it ends, that it cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
