"""Contexts made of generators are as contextlib's are, but for exceptions that let nothing be set."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from traceback import extract_tb

import pytest

from shapetrace.contexts import context

made: list[str] = []


def plain() -> Iterator[int]:
    made.append("before")
    try:
        yield 3
    finally:
        made.append("after")


def swallowing() -> Iterator[int]:
    try:
        yield 3
    except Exception:
        made.append("swallowed")


def replacing() -> Iterator[int]:
    try:
        yield 3
    except Exception as error:
        raise RuntimeError("another") from error


@dataclass(frozen=True)
class Frozen(Exception):
    size: int


def left(make: Callable[[], AbstractContextManager[int]], error: BaseException | None) -> object:
    """What of it leaves the block, with the functions in its traceback, and what was done meanwhile."""
    made.clear()
    try:
        with make() as given:
            made.append(f"in {given}")
            if error is not None:
                raise error
    except BaseException as raised:
        return type(raised), str(raised), [frame.name for frame in extract_tb(raised.__traceback__)], [*made]
    return [*made]


@pytest.mark.parametrize("function", [plain, swallowing, replacing])
@pytest.mark.parametrize(
    "kind", [None, ValueError, KeyboardInterrupt, StopIteration, RuntimeError, GeneratorExit], ids=str
)
def test_it_is_as_contextlib_has_it(
    function: Callable[[], Iterator[int]], kind: Callable[[str], BaseException] | None
) -> None:
    errors = [None if kind is None else kind("of the user") for _ in range(2)]
    assert left(context(function), errors[0]) == left(contextmanager(function), errors[1])


def test_an_exception_that_lets_nothing_be_set_passes() -> None:
    error = Frozen(3)
    with pytest.raises(Frozen) as raised, context(plain)():
        raise error
    assert raised.value is error


def test_a_second_yield_is_an_error() -> None:
    def twice() -> Iterator[None]:
        try:
            yield
        except ValueError:
            yield

    with pytest.raises(RuntimeError, match="one yield"), context(twice)():
        raise ValueError
