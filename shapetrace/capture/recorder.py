"""The one mutable object of a recording: hooks and modes tell it what is called, it keeps what they saw.

All of this runs once for each call of the watched model, so it is written for speed: a tensor that is known is not read
again, a place in the code is looked up once, and a call becomes data once, when it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, takewhile
from types import FrameType
from typing import Any, Literal, cast

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..schema import Call, TensorMeta
from .places import Place, Places
from .structures import ARGUMENTS, CONSTANT_TEXTS, CONSTANTS, MOST_WRITTEN, SEQUENCES, collect, text
from .tensors import PLAIN, Known, TensorTable, version_of

__all__ = ["INDEX", "Open", "Recorder", "said"]

INDEX = tuple(map(str, range(256)))
EMPTY: dict[str, Any] = {}
"""Shared by all calls that have none."""


class Open(msgspec.Struct, eq=False):
    """A module's call that has begun. `handled` is the exception that was being handled then: it is not its own.

    `seen` are the tensors it was given, to see later which have changed.
    """

    path: str
    name: str
    depth: int
    place: Place
    inputs: dict[str, TensorMeta]
    literals: dict[str, str]
    note: str | None
    at: int
    seen: Sequence[Known]
    module: torch.nn.Module | None
    handled: BaseException | None

    def close(self, outputs: dict[str, TensorMeta], written: tuple[int, ...] = (), error: str | None = None) -> Call:
        variables, source = self.place
        return Call(
            "module", self.path, self.name, self.depth, variables, source, self.inputs, outputs, self.literals, written,
            self.note, error,
        )  # fmt: skip


class Recorder:
    """Keeps the calls of one trace. `names` holds a weak reference and the dotted name of each parameter and buffer."""

    def __init__(self) -> None:
        self.names: dict[int, tuple[Callable[[], Any], str]] = {}
        self.thread = threading.get_ident()
        self.place = Places().place
        self.restart()

    def restart(self) -> None:
        """Begin the next trace."""
        self.table = TensorTable(self.names)
        self.calls: list[Call | Open] = []
        self.writes: list[tuple[int, int | None]] = []
        """Number of calls by then, and the storage that was written to."""
        self.open: list[Open] = []
        self.path = ""
        self.depth = 0

    def finish(self) -> tuple[Call, ...]:
        """The calls so far. A module that still runs, or was left without a word, has no result."""
        if not self.open:
            return cast(tuple[Call, ...], tuple(self.calls))  # what has ended is a Call
        return tuple([call if type(call) is Call else cast(Open, call).close(EMPTY) for call in self.calls])

    # A module

    def leave(self, call: Open, result: object, error: BaseException | None) -> None:
        """It ends, and with it what it left open inside: a `KeyboardInterrupt` passes hooks by."""
        opened = self.open
        while (inner := opened.pop()) is not call:
            self.calls[inner.at] = inner.close(EMPTY, error=None if error is None else said(error))
        self.path = opened[-1].path if opened else ""
        self.depth = call.depth
        if error is None:
            written = self.written_inside(call) if self.has_written(call) else ()
            self.calls[call.at] = call.close(self.outputs(result), written)
        else:
            self.calls[call.at] = call.close(EMPTY, error=said(error))

    # A function, or an op

    def run(
        self,
        kind: Literal["function", "op"],
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType | None,
        changes: Callable[[str], bool] | None = None,
    ) -> Any:
        """Run it; keep it if a tensor came of it or was changed by it, if it failed, or if others ran inside.

        `changes` says of an op whether it writes to the argument at a key; below autograd no version moves.
        """
        variables, source = self.place(frame)
        inputs, literals, seen = self.take(INDEX, args, kwargs)
        calls, depth, path = self.calls, self.depth, self.path
        at = len(calls)
        self.depth = depth + 1
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            calls.insert(
                at, Call(kind, path, name, depth, variables, source, inputs, EMPTY, literals, (), None, said(error))
            )
            raise
        finally:
            self.depth = depth
        outputs = self.outputs(result)
        written: tuple[int, ...] = ()
        for known in seen:
            if not known.plain or known.version != known.ref()._version:
                written = self.written(name, inputs, literals, seen)
                break
        if changes is not None:
            written = tuple([meta.number or 0 for key, meta in inputs.items() if changes(key)])
        if outputs or written or len(calls) > at:
            calls.insert(at, Call(kind, path, name, depth, variables, source, inputs, outputs, literals, written))
        return result

    # What a call is given and gives

    def take(
        self, keys: tuple[str, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, TensorMeta], dict[str, str], Sequence[Known]]:
        """Describe arguments as they are before the call: tensors by key, all else as text by key, and what is known of
        the tensors, to see later which have changed."""
        described = self.table.known
        if args and not kwargs and type(args[0]) in PLAIN and ARGUMENTS.issuperset(map(type, rest := args[1:])):
            value = args[0]
            known = described.get(id(value))
            if known is None or known.ref() is not value or not known.plain or known.version != value._version:
                known = self.table.describe(value)
            return {keys[0]: known.meta}, dict(zip(keys[1:], map(text, rest))) if rest else EMPTY, (known,)  # noqa: B905
        inputs: dict[str, TensorMeta] = {}
        literals: dict[str, str] = {}
        seen: list[Known] = []
        if len(args) > len(keys):
            keys = tuple(map(str, range(len(args))))
        for key, value in chain(zip(keys, args), kwargs.items()) if kwargs else zip(keys, args):  # noqa: B905
            kind = type(value)
            if kind in PLAIN:
                known = described.get(id(value))
                if known is None or known.ref() is not value or not known.plain or known.version != value._version:
                    known = self.table.describe(value)
                inputs[key] = known.meta
                seen.append(known)
            elif kind in ARGUMENTS or (
                kind in SEQUENCES and len(value) <= MOST_WRITTEN and ARGUMENTS.issuperset(map(type, value))
            ):
                literals[key] = text(value)
            elif kind in CONSTANTS:
                literals[key] = CONSTANT_TEXTS[value]
            else:
                for inner, tensor in collect(value, key, literals):
                    known = self.table.describe(tensor)
                    inputs[inner] = known.meta
                    seen.append(known)
        return inputs, literals, seen

    def outputs(self, result: Any) -> dict[str, TensorMeta]:
        kind = type(result)
        if kind is torch.Tensor or kind is FakeTensor:
            table = self.table
            known = table.known.get(id(result))
            if known is None or known.ref() is not result:
                known = table.add(result)
            elif not known.plain or known.version != result._version:
                known = table.describe(result)
            return {"": known.meta}
        if kind in ARGUMENTS:
            return EMPTY
        if kind is tuple and PLAIN.issuperset(map(type, result)) and len(result) <= len(INDEX):
            return {key: self.table.describe(tensor).meta for key, tensor in zip(INDEX, result)}  # noqa: B905
        return {key: self.table.describe(tensor).meta for key, tensor in collect(result, "", {})}

    def written(
        self, name: str, inputs: Mapping[str, TensorMeta], literals: Mapping[str, str], seen: Sequence[Known]
    ) -> tuple[int, ...]:
        """The numbers of those tensors that a function changed.

        Views share a version, so of several on one memory it is `out`, or the first, as is torch's way. An inference
        tensor has none, and tells only by the function's name.
        """
        changed: dict[int | None, TensorMeta] = {}
        for known in seen:
            meta = known.meta
            if known.version is None:
                moved = meta is inputs.get("out") or (known is seen[0] and writes_first(name, literals))
            else:
                moved = known.version != version_of(known.ref())
            if moved and (meta.storage is None or meta.storage not in changed or meta is inputs.get("out")):
                changed[meta.storage] = meta
        self.writes += [(len(self.calls), storage) for storage in changed]
        return tuple([meta.number or 0 for meta in changed.values()])

    def has_written(self, call: Open) -> bool:
        """Whether a module may have written to what it was given; to know what takes longer."""
        if self.writes and self.writes[-1][0] > call.at:
            return True
        return any(not known.plain or known.version != known.ref()._version for known in call.seen)

    def written_inside(self, call: Open) -> tuple[int, ...]:
        """The numbers of those tensors given to a module whose memory something inside of it wrote to."""
        storages = {storage for _, storage in takewhile(lambda write: write[0] > call.at, reversed(self.writes))}
        return tuple(
            [
                known.meta.number or 0
                for known in call.seen
                if known.meta.storage in storages
                or (known.version is not None and known.version != version_of(known.ref()))
            ]
        )


IN_PLACE = frozenset(
    """__setitem__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__
    __ixor__ __ilshift__ __irshift__ __idiv__""".split()
)


def writes_first(name: str, literals: Mapping[str, str]) -> bool:
    """Whether a function changes its first tensor, by torch's way of naming: for tensors without a version."""
    in_place = name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return in_place or literals.get("inplace") == "True"


def said(error: BaseException) -> str:
    """The exception as one line of a traceback; its text is the user's code, and may fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
