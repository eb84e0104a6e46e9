"""The one mutable object of a recording: hooks and modes tell it what is called, it keeps what they saw.

All of this runs once for each call of the watched model, so it is written for speed where it does not read worse: a tensor
that is known is not read again, a place in the code is looked up once, and a call becomes data once, when it ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import CodeType, FrameType
from typing import Any, Literal

import msgspec
import torch

from ..schema import Call, TensorMeta
from .names import destination
from .tensors import ARGUMENTS, PLAIN, Known, TensorTable, collect, join_keys, version_of

__all__ = ["INDEX", "MODULE_CALL", "Open", "Recorder"]

INDEX = tuple(map(str, range(256)))
DISPATCH = torch.overrides.__file__
PLUMBING = frozenset({torch._jit_internal.__file__, torch.utils._contextlib.__file__})
MODULE_CALL = torch.nn.modules.module.__file__
"""Files of torch whose frames stand between a call and the code that made it."""

FARTHEST = 8
"""Frames that a result is followed through as one returns it to the next."""

Seen = list[tuple[torch.Tensor, Known]]
Place = tuple[dict[str, str], tuple[str, int] | None]
NOWHERE: Place = ({}, None)


class Open(msgspec.Struct):
    """A call that has begun: what will be known of it, and, until it ends, what it was given."""

    kind: Literal["module", "function", "op"]
    path: str
    name: str
    depth: int
    place: Place = NOWHERE
    inputs: dict[str, TensorMeta] = {}
    literals: dict[str, str] = {}
    seen: Seen = []
    note: str | None = None
    at: int = 0
    module: torch.nn.Module | None = None
    handled: BaseException | None = None
    """The exception that was being handled when it began, so that it is not taken for one of its own."""

    def close(self, outputs: dict[str, TensorMeta], written: tuple[int, ...] = (), error: str | None = None) -> Call:
        variables, source = self.place
        return Call(
            self.kind, self.path, self.name, self.depth, variables, source, self.inputs, outputs, self.literals, written,
            self.note, error,
        )  # fmt: skip


class Recorder:
    """Keeps the calls of one trace. `names` gives the `id` of a parameter or buffer its dotted name."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.thread = threading.get_ident()
        self.places: dict[tuple[int, int], tuple[CodeType, Place, str | None]] = {}
        self.restart()

    def restart(self) -> None:
        """Begin the next trace."""
        self.table = TensorTable(self.names)
        self.calls: list[Call | Open] = []
        self.open: list[Open] = []
        self.path = ""
        self.depth = 0

    def finish(self) -> tuple[Call, ...]:
        """The calls so far. One that still runs, or was left without a word, has no result."""
        return tuple(call if isinstance(call, Call) else call.close({}) for call in self.calls)

    # A call that others run inside of: a module

    def enter(self, call: Open) -> None:
        call.at = len(self.calls)
        self.calls.append(call)
        self.open.append(call)
        self.path = call.path
        self.depth = call.depth + 1

    def leave(self, call: Open, result: object, error: BaseException | None) -> None:
        """It ends, and with it what it left open inside: a `KeyboardInterrupt` passes hooks by."""
        if call not in self.open:
            return
        while (inner := self.open.pop()) is not call:
            self.calls[inner.at] = inner.close({}, error=None if error is None else said(error))
        self.path = self.open[-1].path if self.open else ""
        self.depth = call.depth
        if error is None:
            self.calls[call.at] = call.close(self.outputs(result), self.written(call.name, call.seen))
        else:
            self.calls[call.at] = call.close({}, error=said(error))

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
        place = NOWHERE if frame is None else self.place(frame)
        inputs, literals, seen = self.take(INDEX, args, kwargs)
        calls, depth, path = self.calls, self.depth, self.path
        at = len(calls)
        calls.append(Open(kind, path, name, depth, place, inputs, literals))
        self.depth = depth + 1
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            calls[at] = Call(kind, path, name, depth, *place, inputs, {}, literals, (), None, said(error))
            raise
        finally:
            self.depth = depth
        outputs, written = self.outputs(result), self.written(name, seen)
        if outputs or written or len(calls) > at + 1:
            calls[at] = Call(kind, path, name, depth, *place, inputs, outputs, literals, written)
        else:
            del calls[at]
        return result

    # What a call is given and gives

    def take(
        self, keys: Iterable[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, TensorMeta], dict[str, str], Seen]:
        """Describe arguments as they are before the call: tensors by key, all else by key, and the tensors themselves."""
        inputs: dict[str, TensorMeta] = {}
        literals: dict[str, str] = {}
        seen: Seen = []
        described = self.table.known
        if len(args) > len(INDEX):
            keys = map(str, range(len(args)))
        for key, value in chain(zip(keys, args), kwargs.items()):  # noqa: B905  (there are more keys)
            kind = type(value)
            if kind in PLAIN:
                known = described.get(id(value))
                if known is None or known.ref() is not value or known.version != value._version:
                    known = self.table.describe(value)
                inputs[key] = known.meta
                seen.append((value, known))
            elif kind in ARGUMENTS:
                literals[key] = repr(value)
            else:
                tensors: dict[str, torch.Tensor] = {}
                collect(value, key, tensors, literals)
                for inner, tensor in tensors.items():
                    known = self.table.describe(tensor)
                    inputs[inner] = known.meta
                    seen.append((tensor, known))
        return inputs, literals, seen

    def outputs(self, result: object) -> dict[str, TensorMeta]:
        kind = type(result)
        if kind is torch.Tensor:
            return {"": self.table.describe(result).meta}
        if kind in ARGUMENTS:
            return {}
        tensors: dict[str, torch.Tensor] = {}
        collect(result, "", tensors, {})
        return {key: self.table.describe(tensor).meta for key, tensor in tensors.items()}

    def written(self, name: str, seen: Seen) -> tuple[int, ...]:
        """The numbers of the tensors that the call changed in place."""
        written: tuple[int, ...] = ()
        for tensor, known in seen:
            if known.version is None:
                changed = tensor is seen[0][0] and writes_first(name)
            else:
                changed = known.version != (tensor._version if type(tensor) in PLAIN else version_of(tensor))
            if changed:
                written += (known.meta.number or 0,)
        return written

    def place(self, frame: FrameType | None) -> Place:
        """The variables that a result goes to, in this frame or one that it is returned to, and where the call was made."""
        frame = calling_frame(frame)
        if frame is None:
            return NOWHERE
        place, returned = self._place(frame)
        way = ""
        for _ in range(FARTHEST):
            if returned is None or (frame := calling_frame(frame.f_back)) is None or frame.f_code.co_filename == MODULE_CALL:
                break
            way = join_keys(way, returned)
            (variables, _), returned = self._place(frame)
            if variables:
                return {join_keys(way, key): variable for key, variable in variables.items()}, place[1]
        return place

    def _place(self, frame: FrameType) -> tuple[Place, str | None]:
        code = frame.f_code
        key = id(code), frame.f_lasti
        known = self.places.get(key)
        if known is None:
            names, returned = destination(code, frame.f_lasti)
            known = self.places[key] = code, (dict(names), (code.co_filename, frame.f_lineno or 0)), returned
        return known[1:]


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
    """Whether a function changes its first tensor, by torch's way of naming, for tensors that no version tells it of."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def said(error: BaseException) -> str:
    """The exception as one line of a traceback; its text is the user's code, and may fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
