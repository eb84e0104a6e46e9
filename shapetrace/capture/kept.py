"""A trace that is kept, and what it takes to say more of it once that is asked for; also by an exception."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from ..passes.diagnosis import diagnosis
from ..passes.failure import failing, failure
from ..schema import Trace
from .notes import note
from .tensors import Numbers, TensorTable

if TYPE_CHECKING:
    from .naming import Naming

__all__ = ["Kept", "explain", "leave", "left"]

NOT_OF_SHAPES = (MemoryError, RecursionError, torch.OutOfMemoryError)
"""What no axes explain, and what may come again if the model runs once more."""


class Kept:
    """A trace, and what it takes to name axes, once that is asked for, and to find its tensors while they live."""

    def __init__(self, trace: Trace, naming: Naming | None, numbers: Numbers | TensorTable | None = None) -> None:
        self.trace = trace
        self.naming = naming
        self.numbers = numbers

    def named(self) -> Trace:
        if self.naming is not None:
            self.trace, self.naming = self.naming.name(self.trace), None
        return self.trace

    def __reduce__(self) -> Any:
        """Of an exception that goes to another process, or is copied, the record goes along, and no model."""
        return Kept, (self.trace, None)


def leave(error: BaseException, kept: Kept) -> None:
    """Leave with an exception the record of what it ended."""
    with suppress(Exception):
        error.__dict__["__shapetrace__"] = kept


def left(error: BaseException) -> Kept | None:
    """What was left with an exception."""
    found = getattr(error, "__shapetrace__", None)
    return found if isinstance(found, Kept) else None


def explain(error: BaseException, kept: Kept) -> None:
    """Tell an exception where in the model it was raised, by what, and what is wrong, with axes if they can be told.

    For the axes the model runs again: at once where a function failed or a layer of torch, later where the user's own
    code did, and never after what was to end the process.
    """
    if not isinstance(error, Exception) or isinstance(error, NOT_OF_SHAPES):
        kept.naming = None
    with suppress(Exception):
        index = failing(kept.trace)
        if index is not None:
            can_help = kept.trace.calls[index].kind == "function" or diagnosis(kept.trace) is not None
            note(error, failure(kept.named() if can_help else kept.trace))
