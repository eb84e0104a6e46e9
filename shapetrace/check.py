"""A target compared with the golden trace in a file, for scripts and hooks; the exit status is that of diff(1)."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from .errors import FileError
from .files import shown
from .golden import accept, differences, kept
from .streams import aside, complain, say
from .targets import Request, record

__all__ = ["Check", "check"]


class Check(msgspec.Struct, frozen=True):
    """What to compare, as it was written.

    file      of the golden trace
    request   what to run
    words     of the command line, after the command
    update    whether to write the file
    """

    file: str
    request: Request
    words: tuple[str, ...]
    update: bool

    @property
    def accepting(self) -> str:
        """The command that writes the file."""
        return shlex.join(("shapetrace", "check", "--update", *self.words))


def check(asked: Check) -> int:
    """0 if the target makes the trace in the file, or it has been written; 1 after what differs has been shown."""
    if asked.request.target.endswith(".jsonl"):
        swapped = shlex.join(("shapetrace", "check", asked.request.target, asked.file))
        raise FileError(f"the file comes first, then the target: {swapped} …")
    path = Path(asked.file)
    before = None if asked.update else kept(path, asked.accepting)
    with aside():
        after = record(asked.request)
    if before is None:
        where = "" if path.parent.is_dir() else " in a new folder"
        count = len(after.calls)
        written = f"written{where}, {count} {'call' if count == 1 else 'calls'} of {after.target}"
        complain(f"{shown(path)}: {written if accept(path, after) else 'the same, left alone'}")
        return 0
    changes = differences(before, after, asked.file)
    if changes:
        say(changes)
        complain(f"if this is meant: {asked.accepting}")
    return 1 if changes else 0
