"""What a library, or something that it needs, raises while it is imported is a message: what to install, or to mend."""

from __future__ import annotations

from collections.abc import Iterator
from traceback import walk_tb

from ..contexts import context
from ..errors import ShapetraceError, TargetError
from .refusals import remedy, said

__all__ = ["imported"]


@context
def imported(target: str, library: str) -> Iterator[None]:
    """What an import raises in this block leaves it as a `TargetError`: what cannot be imported, why, what to do."""
    try:
        yield
    except ShapetraceError:
        raise
    except Exception as error:
        first = innermost(error)
        if not is_of_import(error):
            raise
        raise TargetError(
            f"{target}: {library} cannot be imported\n  {said(first)}\n{remedy(first, library) or working(first)}"
        ) from None


def innermost(error: Exception) -> Exception:
    """The first that went wrong: libraries that import late say no more than that they could not."""
    while isinstance(found := error.__cause__ or error.__context__, Exception):
        error = found
    return error


def is_of_import(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ImportError) or list(loading(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def working(error: Exception) -> str:
    """What must be possible first: to import the package of which a module raised."""
    names = list(loading(error))
    return f"`python -c 'import {names[-1]}'` must work first" if names else "that import must work first"


def loading(error: BaseException) -> Iterator[str]:
    """The packages of the modules that were being run when it was raised, the innermost last."""
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_code.co_name == "<module>":
            yield str(frame.f_globals.get("__name__", "")).partition(".")[0]
