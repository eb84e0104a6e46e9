"""Contexts made of generators, as `contextlib` makes them, which any exception passes as it is.

`contextlib` sets the traceback of an exception that passes, and one that lets nothing be set, as a frozen dataclass, is
replaced there by what says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast

__all__ = ["context"]

P = ParamSpec("P")
T = TypeVar("T")


def context(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """What `function` does before and after its `yield` as a context."""

    @wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        return Context(cast(Generator[T, Any, Any], function(*args, **kwargs)))

    return made


class Context(AbstractContextManager[T], Generic[T]):
    def __init__(self, steps: Generator[T, Any, Any]) -> None:
        self.steps = steps

    def __enter__(self) -> T:
        return next(self.steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool | None:
        if error is None:
            next(self.steps, None)
            return None
        try:
            self.steps.throw(error)
        except StopIteration as end:  # it has taken the exception for its own
            return end is not error
        except BaseException as raised:
            if raised is not error and not (isinstance(error, StopIteration) and raised.__cause__ is error):
                raise
            with suppress(Exception):
                error.__traceback__ = where  # without the frames of the generator
            return False
        raise RuntimeError("a context has one yield")
