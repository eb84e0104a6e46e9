"""What a user can get wrong. The command line prints the message and exits with status 2.

ShapetraceError
├── TargetError    a target that is not there, or that cannot be made with these options
├── InputError     an input spec that cannot be read
├── FileError      a file that cannot be read or written
└── LookupFailed   a path or a tensor's name that the trace does not hold (also a KeyError)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

__all__ = ["FileError", "InputError", "LookupFailed", "ShapetraceError", "TargetError", "brief", "near", "printable"]


class ShapetraceError(Exception):
    """The root of every error that shapetrace raises on purpose."""


class TargetError(ShapetraceError):
    """A target that is not there, or that cannot be made with these options."""


class InputError(ShapetraceError):
    """An input spec that cannot be read."""


class FileError(ShapetraceError):
    """A file that cannot be read or written."""


class LookupFailed(ShapetraceError, KeyError):
    """A path or a tensor's name that the trace does not hold."""

    def __str__(self) -> str:  # KeyError would print the repr
        return "\n".join(map(printable, str(self.args[0]).split("\n")))


def printable(text: str) -> str:
    """`text` on one line, without what a terminal would obey: a file, or a module's name, can say anything."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def brief(text: str, most: int = 300) -> str:
    """The beginning of what may be of any length."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


LONGEST = 100
"""Characters of a word that anybody meant: to compare others takes hours."""


def near(word: str, words: Iterable[str], *, most: int = 3) -> list[str]:
    """The words a user may have meant, best first, equally good ones in their order; case does not count."""
    if len(word) > LONGEST:
        return []
    by_fold = {known.casefold(): known for known in words}
    close = set(get_close_matches(word.casefold(), by_fold, n=max(1, len(by_fold)), cutoff=0.5))
    unlike = {fold: -SequenceMatcher(None, fold, word.casefold()).ratio() for fold in by_fold if fold in close}
    return [by_fold[fold] for fold in sorted(unlike, key=unlike.__getitem__)[:most]]
