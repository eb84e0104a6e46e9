"""A trace that is kept, and what it takes to say more of it once that is asked for; also by an exception."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

from ..passes.diagnosis import diagnosis
from ..passes.failure import failing, failure
from ..passes.roles import name_roles
from ..schema import Trace
from .held import HeldElements
from .notes import note
from .outliers import outlier
from .raised import statement
from .tensors import Numbers, TensorTable
from .unread import Unread

if TYPE_CHECKING:
    from .naming import Naming

__all__ = ["Kept", "explain", "leave", "left"]

NOT_OF_SHAPES = (MemoryError, RecursionError, torch.OutOfMemoryError)
"""What no axes explain, and what may come again if the model runs once more."""


class Kept:
    """A trace, which is read and named once it is asked for, and what it takes to find its tensors while they live."""

    def __init__(
        self,
        trace: Trace | Unread,
        naming: Naming | None,
        numbers: Numbers | TensorTable | None = None,
        held: HeldElements | None = None,
    ) -> None:
        self.trace = trace
        self.naming = naming
        self.numbers = numbers
        self.held = held

    def plain(self) -> Trace:
        """With roles, if it is known what the model held."""
        if isinstance(self.trace, Unread):
            trace = self.trace.read()
            self.trace = trace if self.held is None else name_roles(trace, self.held)
            self.held = None
        return self.trace

    def named(self) -> Trace:
        """With axes too."""
        if self.naming is not None:
            self.trace, self.naming = self.naming.name(self.plain()), None
        return self.plain()

    def __reduce__(self) -> Any:
        """Of an exception that goes to another process, or is copied, the record goes along, and no model."""
        return Kept, (self.plain(), None)


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

    For the axes the model runs again: at once where there are tensors that the call was given or the user's own code
    had made, later where it had made none, and never after what was to end the process.
    """
    if not isinstance(error, Exception) or isinstance(error, NOT_OF_SHAPES):
        kept.naming = None
    with suppress(Exception):
        plain = kept.plain()
        index = failing(plain)
        if index is not None:
            can_help = (
                plain.calls[index].kind == "function"
                or any(call.outputs for call in plain.calls[index + 1 :])
                or diagnosis(plain) is not None
            )
            note(error, failure(kept.named() if can_help else plain, statement(error), outlier(error)))
