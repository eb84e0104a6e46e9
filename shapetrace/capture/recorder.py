"""The one mutable object of a recording: hooks and modes tell it what is called, it keeps what they saw.

All of this runs once for each call of the watched model. Most calls are of a module, or of a function that changes none
of its arguments, with tensors that are known, and these take a short way: `FunctionCalls.__torch_function__` and
`ModuleSlot.__call__` look up each argument by its `id`, run the call, look up or read its result, and append one note,
which becomes data when the trace is read. On that way

- a tensor that is known is not read again while its version stays;
- what a call changes is not asked: a function that may change something goes the long way, and what a module changed is
  told by the functions inside of it. Where these are not seen (`is_blind`) modules are asked, too;
- a place in the code is looked up by the code object and the instruction.

All else goes the long way: `Recorder.run` for a function or op, `HookRegistry.run` for a module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import takewhile
from types import FrameType
from typing import Any

from torch import Tensor
from torch._C import DisableTorchFunction

from ..schema import TensorMeta
from .noted import INDEX, NONE, Function, Noted, NotedModule, keys_of
from .places import PLACES, Place
from .structures import ARGUMENTS, ATOMS, FLAT, MOST_WRITTEN, Structure, collect
from .tensors import PLAIN, Stamp, TensorTable
from .writes import Writes

__all__ = ["Recorder", "said"]

LISTS = frozenset({tuple, list})


class Recorder:
    """Keeps the calls of one trace. `names` holds a weak reference and the dotted name of each parameter and buffer.

    is_blind   whether functions are not seen, so that only versions tell what was changed in place
    is_quick   whether most calls of functions may go the short way: not where each must come by `run`
    """

    is_quick = True

    def __init__(self) -> None:
        self.names: dict[int, tuple[Callable[[], Any], str]] = {}
        self.thread = threading.get_ident()
        self.is_blind = False
        self.restart()

    def restart(self) -> None:
        """Begin the next trace."""
        self.table = TensorTable(self.names)
        self.known = self.table.known
        self.calls: list[Noted] = []
        """A module that still runs, or was left without a word, has no result in its note."""
        self.short = self.known.get, self.table.read, self.calls.append
        """What the short way takes of all this."""
        self.writes: list[tuple[int, int | None]] = []
        """Number of calls by then, and the storage that was written to."""
        self.open: list[tuple[NotedModule, int, list[Stamp]]] = []
        """The modules that run, each in the one before it; number of calls before it, and what tells of a change."""
        self.path = ""
        self.depth = 0
        self.notes: dict[str, None] = {}
        """What a reader must know of the trace, beside what is noted of its calls."""

    # A module

    def enter(
        self, name: str, path: str, place: Place, keys: tuple[str, ...], args: Any, kwargs: Any, note: str | None
    ) -> NotedModule:
        """It begins; `leave` adds how it ended."""
        if kwargs:
            keys, args = keys_of(keys, args, kwargs), (*args, *kwargs.values())
        stamps: list[Stamp] = []
        given: list[Any] = []
        with DisableTorchFunction():
            if self.is_blind or note is not None:
                self.take(args, keys, given, stamps)
            else:
                known = self.short[0]
                for value in args:
                    kind = type(value)
                    if kind is Tensor or kind in PLAIN:
                        seen = known(id(value))
                        if seen is not None and seen() is value and seen.version == value._version:
                            given.append(seen.meta)
                        else:
                            given.append(self.table.describe(value))
                    elif kind in ATOMS:
                        given.append(value)
                    else:
                        given.append(self.look(value, keys, len(given)))
        calls = self.calls
        noted = NotedModule(name, path, self.depth, place, (*given,), keys, note)
        self.open.append((noted, len(calls), stamps))
        calls.append(noted)
        self.path = path
        self.depth += 1
        return noted

    def leave(self, noted: NotedModule, result: object, error: BaseException | None) -> None:
        """It ends, and with it what it left open inside: a `KeyboardInterrupt` passes hooks by."""
        inner, at, stamps = self.open.pop()
        while inner is not noted:
            inner.error = None if error is None else said(error)
            inner, at, stamps = self.open.pop()
        self.path = self.open[-1][0].path if self.open else ""
        self.depth = noted.depth
        if error is not None:
            noted.error = said(error)
            return
        if stamps or (self.writes and self.writes[-1][0] > at):
            noted.written = self.written_within(noted, at, stamps)
        with DisableTorchFunction():
            noted.result = self.seen(result)

    def written_within(self, noted: NotedModule, at: int, stamps: list[Stamp]) -> tuple[int, ...]:
        """The numbers of those of its arguments that a module changed: by their versions, or by calls inside of it."""
        storages = {storage for _, storage in takewhile(lambda write: write[0] > at, reversed(self.writes))}
        with DisableTorchFunction():
            moved = self.table.moved([stamp for stamp in stamps if stamp[2] is not None])
        found = [seen for seen in tensors_in(noted.given) if seen in moved or seen.storage in storages]
        return tuple([seen.number or 0 for seen in found])

    # A function, or an op

    def run(
        self, what: Function, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, frame: FrameType | None
    ) -> Any:
        """Run it; keep it if a tensor came of it or was changed by it, if it failed, or if others ran inside."""
        calls, depth, path = self.calls, self.depth, self.path
        keys, values = INDEX, args
        if kwargs:
            keys, values = keys_of(keys, args, kwargs), (*args, *kwargs.values())
        stamps: list[Stamp] = []
        given: list[Any] = []
        self.take(values, keys, given, stamps)
        place = PLACES.place(frame)
        at = len(calls)
        self.depth = depth + 1
        writes = Writes() if what.changes is None and may_write(what.name, given, keys, stamps) else None
        try:
            with writes or nullcontext():
                result = function(*args, **kwargs) if kwargs else function(*args)
        except BaseException as error:
            calls.insert(at, (what, path, depth, place, (*given,), None, keys, NONE, said(error)))
            raise
        finally:
            self.depth = depth
        written = NONE
        if what.changes is not None:
            written = changed_by(what.changes, given, keys)
        elif stamps and (moved := self.table.moved(stamps)):
            written = self.written(given, keys, stamps, moved, writes)
        seen = self.seen(result)
        if seen is not None or written or len(calls) > at:
            calls.insert(at, (what, path, depth, place, (*given,), seen, keys, written, None))
        return result

    def written(
        self,
        given: Sequence[Any],
        keys: tuple[str, ...],
        stamps: Sequence[Stamp],
        moved: Sequence[TensorMeta],
        writes: Writes | None,
    ) -> tuple[int, ...]:
        """The numbers of those tensors that a function changed.

        Views share a version, so of several on one memory it is `out`, or the first, as is torch's way. And so it
        is where the first stands for what was written to, as under `vmap`.
        """
        changed: dict[int | None, TensorMeta] = {}
        out = given[keys.index("out")] if keys is not INDEX and "out" in keys else None
        storages = set() if writes is None else {self.table.storage_at(address) for address in writes.storages}
        for seen, key, version in stamps:
            if version is not None:
                is_changed = seen in moved
            else:
                is_changed = writes is not None and (
                    key in writes.tensors
                    or seen.storage in storages - {None}
                    or (seen.storage is None and seen is stamps[0][0] and bool(writes.tensors))
                )
            if is_changed and (seen.storage is None or seen.storage not in changed or seen is out):
                changed[seen.storage] = seen
        self.writes += [(len(self.calls), storage) for storage in changed]
        return tuple([seen.number or 0 for seen in changed.values()])

    # What a call is given and gives

    def take(self, values: Sequence[Any], keys: tuple[str, ...], given: list[Any], stamps: list[Stamp]) -> None:
        """Look at the arguments before the call; to `stamps` is added what tells later whether they have changed."""
        describe, stamp = self.table.describe, self.table.stamp
        for value in values:
            if type(value) in PLAIN:
                seen = describe(value)
                given.append(seen)
                stamps.append(stamp(seen, id(value)))
            elif type(value) in ATOMS:
                given.append(value)
            else:
                structure = self.look(value, keys, len(given))
                given.append(structure)
                if type(structure) is Structure:
                    stamps += [stamp(seen, key) for _, seen, key in structure.tensors]

    def look(self, value: Any, keys: tuple[str, ...], at: int) -> Any:
        """An argument that is no atom, nor a tensor that is known."""
        kind = type(value)
        if kind in FLAT and len(value) <= MOST_WRITTEN and ARGUMENTS.issuperset(map(type, value)):
            return tuple(value)
        with DisableTorchFunction():
            return self.structure(value, keys[at] if at < len(keys) else str(at))

    def structure(self, value: Any, key: str) -> Structure:
        describe = self.table.describe
        if type(value) in LISTS and value and len(value) <= len(INDEX) and PLAIN.issuperset(map(type, value)):
            before, after = (f"{key}[", "]") if key else ("", "")
            return Structure(
                tuple([(f"{before}{i}{after}", describe(inner), id(inner)) for i, inner in enumerate(value)]), {}
            )
        literals: dict[str, str] = {}
        found = collect(value, key, literals)
        return Structure(tuple([(inner, describe(tensor), id(tensor)) for inner, tensor in found]), literals)

    def seen(self, result: Any) -> Any:
        """A result: what was seen of the tensors in it; None if there are none."""
        kind = type(result)
        if kind in PLAIN:
            return self.table.describe(result)
        if kind in ATOMS:
            return None
        if kind is tuple and PLAIN.issuperset(map(type, result)) and len(result) <= len(INDEX):
            return tuple(map(self.table.describe, result)) or None
        found = self.structure(result, "")
        return found if found.tensors else None


IN_PLACE = frozenset(
    """__setitem__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__
    __ixor__ __ilshift__ __irshift__ __idiv__""".split()
)


def may_write(name: str, given: Sequence[Any], keys: tuple[str, ...], stamps: Sequence[Stamp]) -> bool:
    """Whether a function may change a tensor without a version, by torch's way of naming. Whether it does is asked of
    the ops that it runs; not of each function, for some run others where they are watched."""
    if all(version is not None for *_, version in stamps):
        return False
    in_place = name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    return in_place or "out" in keys or ("inplace" in keys and given[keys.index("inplace")] is True)


def tensors_in(given: Sequence[Any]) -> Iterator[TensorMeta]:
    for seen in given:
        if type(seen) is TensorMeta:
            yield seen
        elif type(seen) is Structure:
            yield from (inner for _, inner, _ in seen.tensors)


def changed_by(changes: frozenset[str], given: Sequence[Any], keys: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of the tensors at those keys, for an op that writes to them."""
    changed: list[int] = []
    for key, seen in zip(keys, given):  # noqa: B905
        if key in changes and type(seen) is TensorMeta:
            changed.append(seen.number or 0)
        elif key in changes and type(seen) is Structure:
            changed += [inner.number or 0 for _, inner, _ in seen.tensors]
    return tuple(changed)


def said(error: BaseException) -> str:
    """The exception as one line of a traceback; its text is the user's code, and may fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
