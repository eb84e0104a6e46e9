"""The one mutable object of a recording: hooks and modes tell it what is called, it keeps what they saw.

All of this runs once for each call of the watched model, so it is written for speed: a tensor that is known is not read
again, a place in the code is looked up once, and a call becomes data once, when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import CodeType, FrameType
from typing import Any, Literal, cast

import msgspec
import torch

from ..schema import Call, TensorMeta
from .names import destination
from .tensors import ARGUMENTS, MOST_WRITTEN, PLAIN, Known, TensorTable, collect, join_keys, version_of

__all__ = ["INDEX", "MODULE_CALL", "NOWHERE", "Open", "Recorder"]

INDEX = tuple(map(str, range(256)))
DISPATCH = torch.overrides.__file__
PLUMBING = frozenset({torch._jit_internal.__file__, torch.utils._contextlib.__file__})
BETWEEN = PLUMBING | {DISPATCH}
MODULE_CALL = torch.nn.modules.module.__file__
"""Files of torch whose frames stand between a call and the code that made it."""

Place = tuple[dict[str, str], tuple[str, int] | None]
EMPTY: dict[str, Any] = {}
"""Shared by all calls that have none."""

NOWHERE: Place = (EMPTY, None)


class Open(msgspec.Struct, eq=False):
    """A call that has begun, and inside of which others run."""

    path: str
    name: str
    depth: int
    place: Place = NOWHERE
    inputs: dict[str, TensorMeta] = {}
    literals: dict[str, str] = {}
    note: str | None = None
    at: int = 0
    module: torch.nn.Module | None = None
    handled: BaseException | None = None
    """The exception that was being handled when it began, so that it is not taken for one of its own."""

    def close(self, outputs: dict[str, TensorMeta], error: str | None = None) -> Call:
        variables, source = self.place
        return Call(
            "module", self.path, self.name, self.depth, variables, source, self.inputs, outputs, self.literals, (),
            self.note, error,
        )  # fmt: skip


class Recorder:
    """Keeps the calls of one trace. `names` holds the dotted name of each parameter and buffer, by `id`."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.thread = threading.get_ident()
        self.places: dict[int, dict[int, tuple[Place, str | None]]] = {}
        self.codes: list[CodeType] = []
        self.restart()

    def restart(self) -> None:
        """Begin the next trace."""
        self.table = TensorTable(self.names)
        self.calls: list[Call | Open | tuple[Any, ...]] = []
        self.open: list[Open] = []
        self.path = ""
        self.depth = 0

    def finish(self) -> tuple[Call, ...]:
        """The calls so far. One that still runs, or was left without a word, has no result."""
        if not self.open and self.depth == 0:
            return cast(tuple[Call, ...], tuple(self.calls))  # what has ended is a Call
        return tuple(
            call if type(call) is Call else call.close(EMPTY) if isinstance(call, Open) else Call(*cast(Any, call))
            for call in self.calls
        )

    # A call that others run inside of: a module

    def enter(self, call: Open) -> None:
        self.calls.append(call)
        self.open.append(call)
        self.path = call.path
        self.depth = call.depth + 1

    def leave(self, call: Open, result: object, error: BaseException | None) -> None:
        """It ends, and with it what it left open inside: a `KeyboardInterrupt` passes hooks by."""
        opened = self.open
        while (inner := opened.pop()) is not call:
            self.calls[inner.at] = inner.close(EMPTY, None if error is None else said(error))
        self.path = opened[-1].path if opened else ""
        self.depth = call.depth
        self.calls[call.at] = call.close(self.outputs(result)) if error is None else call.close(EMPTY, said(error))

    # A call that is one step: a function, an op

    def run(
        self,
        kind: Literal["function", "op"],
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType | None,
    ) -> Any:
        """Run it; keep it if a tensor came of it or was changed by it, if it failed, or if others ran inside."""
        variables, source = self.place(frame)
        inputs, literals, seen, unversioned = self.take(INDEX, args, kwargs)
        calls, depth, path = self.calls, self.depth, self.path
        at = len(calls)
        calls.append((kind, path, name, depth, variables, source, inputs, EMPTY, literals))
        self.depth = depth + 1
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            calls[at] = Call(kind, path, name, depth, variables, source, inputs, EMPTY, literals, (), None, said(error))
            raise
        finally:
            self.depth = depth
        written: tuple[int, ...] = ()
        for known in seen:
            if known.version != known.ref()._version:
                written += (known.meta.number or 0,)
        if len(written) > 1:
            written = tuple(dict.fromkeys(written))
        if unversioned:
            written += self.written(name, unversioned)
        outputs = self.outputs(result)
        if outputs or written or len(calls) > at + 1:
            calls[at] = Call(kind, path, name, depth, variables, source, inputs, outputs, literals, written)
        else:
            del calls[at]
        return result

    # What a call is given and gives

    def take(
        self, keys: Iterable[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, TensorMeta], dict[str, str], list[Known], list[Known]]:
        """Describe arguments as they are before the call: tensors by key, and by key all else as text.

        Then come the tensors again, to see later which of them have changed: those whose version any code may read, and
        the rest.
        """
        inputs: dict[str, TensorMeta] = {}
        literals: dict[str, str] = {}
        seen: list[Known] = []
        unversioned: list[Known] = []
        table = self.table
        described = table.known
        if len(args) > len(INDEX):
            keys = map(str, range(len(args)))
        for key, value in chain(zip(keys, args), kwargs.items()) if kwargs else zip(keys, args):  # noqa: B905
            kind = type(value)
            if kind in PLAIN:
                known = described.get(id(value))
                if (
                    known is None
                    or known.ref() is not value
                    or known.version is None
                    or known.version != value._version
                ):
                    known = table.describe(value)
                inputs[key] = known.meta
                (unversioned if known.version is None else seen).append(known)
            elif kind in ARGUMENTS or (
                kind is tuple and len(value) <= MOST_WRITTEN and ARGUMENTS.issuperset(map(type, value))
            ):
                literals[key] = repr(value)
            else:
                for inner, tensor in collect(value, key, literals):
                    known = table.describe(tensor)
                    inputs[inner] = known.meta
                    unversioned.append(known)
        return inputs or EMPTY, literals or EMPTY, seen, unversioned

    def outputs(self, result: Any) -> dict[str, TensorMeta]:
        kind = type(result)
        if kind is torch.Tensor:
            known = self.table.known.get(id(result))
            if known is None or known.ref() is not result or known.version is None or known.version != result._version:
                known = self.table.describe(result)
            return {"": known.meta}
        if kind in ARGUMENTS:
            return EMPTY
        return {key: self.table.describe(tensor).meta for key, tensor in collect(result, "", {})}

    def written(self, name: str, unversioned: list[Known]) -> tuple[int, ...]:
        """The numbers of those tensors that the call changed; an inference tensor tells only by the function's name."""
        first = unversioned[0]
        return tuple(
            known.meta.number or 0
            for known in unversioned
            if known.version != version_of(known.ref())
            or (known.version is None and known is first and writes_first(name))
        )

    # Where a call was made

    def place(self, frame: FrameType | None) -> Place:
        """The variables that a result goes to, in this frame or one it is returned to, and where the call was made."""
        frame = frame if frame is None or frame.f_code.co_filename not in BETWEEN else calling_frame(frame)
        if frame is None:
            return NOWHERE
        place, returned = self._place(frame)
        way = ""
        found = place
        while (
            returned is not None and (frame := calling_frame(frame.f_back)) and frame.f_code.co_filename != MODULE_CALL
        ):
            way = join_keys(way, returned)
            found, returned = self._place(frame)
        if found is place or not found[0]:
            return place
        return {join_keys(way, key): variable for key, variable in found[0].items()}, place[1]

    def _place(self, frame: FrameType) -> tuple[Place, str | None]:
        code = frame.f_code
        try:
            return self.places[id(code)][frame.f_lasti]
        except KeyError:
            names, returned = destination(code, frame.f_lasti)
            self.codes.append(code)  # so that no other code gets its id
            place = dict(names) if names else EMPTY, (code.co_filename, frame.f_lineno or 0)
            return self.places.setdefault(id(code), {}).setdefault(frame.f_lasti, (place, returned))


def calling_frame(frame: FrameType | None) -> FrameType | None:
    """The frame that made a call, from the frame that torch was asked from.

    A function of torch that is written in Python asks through `handle_torch_function`, from a frame of its own.
    """
    if frame is not None and frame.f_code.co_filename == DISPATCH:
        frame = frame.f_back and frame.f_back.f_back
    while frame is not None and frame.f_code.co_filename in PLUMBING:
        frame = frame.f_back
    return frame


def writes_first(name: str) -> bool:
    """Whether a function changes its first tensor, by torch's way of naming: for tensors without a version."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def said(error: BaseException) -> str:
    """The exception as one line of a traceback; its text is the user's code, and may fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
