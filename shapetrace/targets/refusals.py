"""What a library raises while it builds a model of a configuration is what the configuration says: a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from traceback import walk_tb
from types import FrameType

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from ..contexts import context
from ..errors import ShapetraceError, TargetError, brief
from .blame import hidden, posix

__all__ = ["WEIGHTLESS", "refused", "remedy", "said"]

WEIGHTLESS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
"""What is raised of a model that cannot be weightless: no fault of its configuration."""


@context
def refused(what: str, advice: str, fields: Iterable[tuple[str, object]]) -> Iterator[None]:
    """What is raised in this block leaves it as a `TargetError`: that `what` cannot be, why, where, and the `advice`.

    fields   of the configuration, with their values: those that the message speaks of are said
    """
    try:
        yield
    except (ShapetraceError, *WEIGHTLESS):
        raise
    except Exception as error:
        lines = [what, f"  {said(error)}", *spoken(error, fields), remedy(error) or advice]
        raise TargetError("\n".join(lines)) from None


EXTRAS = ("timm", "torchvision")
"""Libraries that an extra of shapetrace brings, of the same name."""

LACKS = re.compile(r"requires the (\w+) library but it was not found")
INSTALL = re.compile(r"pip install ([\w-]+)")


def remedy(error: Exception, library: str = "") -> str | None:
    """How `library` gets what is not installed; None if that is not what is wrong."""
    lacks, told = LACKS.search(str(error)), INSTALL.search(str(error))
    if not isinstance(error, ImportError) or not (lacks or isinstance(error, ModuleNotFoundError)):
        return None
    name = lacks[1] if lacks else (error.name or "").partition(".")[0]
    if name in EXTRAS or (name and library in EXTRAS):
        return f"pip install 'shapetrace[{library if library in EXTRAS else name}]' brings {name}"
    return f"pip install {told[1]} brings it" if told else f"{name} is not installed" if name else None


def said(error: Exception) -> str:
    """Its type and its words, and the last line that is not torch's."""
    places = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    file, line = next((place for place in reversed(places) if not is_of_torch(place[0])), places[-1])
    short = posix(file).rpartition("-packages/")[2]
    return f"{type(error).__name__}: {brief(' '.join(str(error).split()))} ({short}, line {line})"


def is_of_torch(file: str) -> bool:
    return hidden(file) or "-packages/torch/" in posix(file)


def spoken(error: Exception, fields: Iterable[tuple[str, object]]) -> Iterator[str]:
    """The fields whose values the message has, and, where a name is not known, those that are."""
    words = set(re.findall(r"-?\w+(?:\.\w+)?", str(error)))
    found = [f"{name}={value!r}" for name, value in fields if type(value) in (str, int) and str(value) in words]
    if found:
        yield f"  fields that have such a value: {brief(', '.join(dict.fromkeys(found)))}"
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        known = [name for frame in frames[-2:] for name in keys(frame) if isinstance(name, str)]
        if known:
            yield f"  {error.args[0]!r} is none of {brief(', '.join(known))}"


def keys(frame: FrameType) -> Iterator[object]:
    """Of the tables that a function looks into: its globals, and itself if it is of one."""
    for table in (frame.f_locals.get("self"), *map(frame.f_globals.get, frame.f_code.co_names)):
        if isinstance(table, Mapping):
            yield from table
