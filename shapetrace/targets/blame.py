"""Exceptions of the user's own code, shown as that code alone would show them: without the frames of what ran it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

from ..contexts import context
from ..errors import ShapetraceError, TargetError
from ..schema import Trace

__all__ = ["Raised", "blame", "hidden", "own_traceback", "posix"]

OURS = Path(__file__).parent.parent
IMPORTS = Path(importlib.__file__).parent
PLUMBING = (
    "/torch/nn/modules/module.py",
    "/torch/overrides.py",
    "/torch/_jit_internal.py",
    "/torch/utils/_contextlib.py",
)
"""Files of torch that only lead from one call to the next."""


class Raised(TargetError):
    """The user's own code raised its `__cause__`; the message says when, and what to do.

    partial   gives the record of the forward up to there, if it was one
    keeping   how that can be kept, for who has not kept it
    """

    partial: Callable[[], Trace] | None = None
    keeping = ""

    def __str__(self) -> str:
        return f"{super().__str__()}{self.keeping}"


@context
def blame(message: str) -> Iterator[None]:
    """What the user's own code raises in this block leaves it as `Raised`."""
    try:
        yield
    except ShapetraceError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Raised(message) from error


def own_traceback(error: BaseException) -> str:
    """The traceback of `error`, and of those it came from, from the first line of the user's code on."""
    whole = TracebackException.from_exception(error)
    for part in chain(whole):
        part.stack = StackSummary.from_list(own(part.stack))
    text = "".join(whole.format())
    notes = [note for note in getattr(error, "__notes__", ()) if note not in text]  # Python 3.10 leaves them out
    return "\n".join([text.removesuffix("\n"), *notes])


def chain(error: TracebackException) -> Iterator[TracebackException]:
    yield error
    for other in (error.__cause__, error.__context__, *(getattr(error, "exceptions", None) or ())):
        if other is not None:
            yield from chain(other)


def own(stack: StackSummary) -> list[FrameSummary]:
    """The frames from the first that is not torch's on, without what only leads from one call to the next."""
    frames = [
        frame
        for frame, inner in zip(stack, [*stack[1:], None], strict=False)  # a cause that was never raised has no frames
        if not hidden(frame.filename) and not (inner is not None and called_again(frame.filename, inner.filename))
    ]
    first = (place for place, frame in enumerate(frames) if "-packages/torch/" not in posix(frame.filename))
    return frames[next(first, 0) :]


def hidden(name: str) -> bool:
    """Whether a file is shapetrace's, but for its models, of the import machinery, or plumbing of torch."""
    if name.startswith("<frozen importlib") or posix(name).endswith(PLUMBING):
        return True
    folders = Path(name).parents
    return IMPORTS in folders or (OURS in folders and OURS / "models" not in folders)


def called_again(name: str, inner: str) -> bool:
    """Whether a function of torch only hands over to what watches it, which then calls it once more."""
    return posix(name).endswith("/torch/nn/functional.py") and posix(inner).endswith(PLUMBING)


def posix(name: str) -> str:
    return name.replace("\\", "/")
