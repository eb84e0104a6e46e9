"""What is noted of each call while the model runs, and how it becomes data when the trace is read.

To note little is what makes watching cheap: after an op the caches of the processor hold the op, not this code, so
each step of it costs several times what it does in the loop below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from ..schema import Call, TensorMeta, package_of
from .places import Place
from .structures import ARGUMENTS, FLAT, Structure, literal, text

__all__ = ["INDEX", "NONE", "WRITTEN", "Function", "Noted", "NotedModule", "calls_of", "keys_of"]

INDEX = tuple(map(str, range(256)))
NONE: tuple[Any, ...] = ()
EMPTY: dict[str, Any] = {}
"""Shared by all calls that have none."""


class Function(msgspec.Struct, frozen=True, gc=False):
    """What all calls of a function have in common.

    is_pure      it changes none of its arguments, so they need not be looked at again after it
    changes      of an aten op, the keys of the arguments it writes to, by its schema: below autograd no version moves
    note         what a reader must know of each call
    """

    kind: Literal["function", "op"]
    name: str
    is_pure: bool = False
    changes: frozenset[str] | None = None
    note: str | None = None


NotedFunction = tuple[Function, str, int, Place, tuple[Any, ...], Any, tuple[str, ...], tuple[int, ...], "str | None"]
"""What was called, the path of the module it was called in, depth, place; then given, result, keys, written and error,
as of a module. A tuple is made in a fourth of the time that an object takes, and the garbage collector leaves it alone
once it has seen that nothing in it can be part of a cycle: no dict may be among it."""

WRITTEN: Final = 7
"""The place of `written` in it."""


class NotedModule(msgspec.Struct, gc=False):
    """A call of a module as it was noted. No tensor and no object of the user's is in it.

    given    what was seen of each argument: of tensors and structures their description, atoms as they are
    keys     of the arguments; those by position may go on beyond them
    result   what was seen of it; None if there is no tensor in it
    """

    name: str
    path: str
    depth: int
    place: Place
    given: tuple[Any, ...]
    keys: tuple[str, ...]
    note: str | None
    result: Any = None
    written: tuple[int, ...] = NONE
    error: str | None = None


Noted = NotedFunction | NotedModule


def keys_of(keys: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Of positional arguments, and then of keyword arguments."""
    if len(args) > len(keys):
        keys = (*keys, *map(str, range(len(keys), len(args))))
    return (*keys[: len(args)], *kwargs)


def calls_of(calls_noted: Iterable[Noted]) -> tuple[Call, ...]:
    """The calls as data."""
    calls: list[Call] = []
    handed: list[tuple[int, Place]] = []
    kind: Literal["module", "function", "op"]
    for noted in calls_noted:
        if isinstance(noted, tuple):
            what, path, depth, place, given, result, keys, written, error = noted
            kind, name, note = what.kind, what.name, what.note
        else:
            kind, name, path, depth, place = "module", noted.name, noted.path, noted.depth, noted.place
            given, result, keys, written = noted.given, noted.result, noted.keys, noted.written
            error, note = noted.error, noted.note
        if len(given) > len(keys):
            keys = (*keys, *map(str, range(len(keys), len(given))))
        inputs: dict[str, TensorMeta] = {}
        literals: dict[str, str] = {}
        for key, value in zip(keys, given):  # noqa: B905
            of = type(value)
            if of is TensorMeta:
                inputs[key] = value
            elif of is Structure:
                inputs.update({inner: meta for inner, meta, _ in value.tensors})
                literals.update(value.literals)
            else:
                literals[key] = text(value) if of in ARGUMENTS or of in FLAT else literal(value)
        outputs = {"": result} if type(result) is TensorMeta else results(result)
        if place.is_handed:
            handed.append((len(calls), place))
        calls.append(
            Call(
                kind, path, name, depth, place.variables, place.source,
                inputs or EMPTY, outputs, literals or EMPTY, written, note, error,
            )
        )  # fmt: skip
    return tuple(without_steps(calls, handed))


def without_steps(calls: list[Call], handed: Iterable[tuple[int, Place]]) -> list[Call]:
    """No step to what a library hands on has the name of that; nor one of the library's own, if it is a mere view."""
    places = dict(handed)
    for after, place in places.items():
        result = calls[after]
        numbers = {tensor.number for tensor in result.inputs.values()}
        for at in reversed(range(after)):
            call = calls[at]
            if call.depth > result.depth:
                continue
            is_handed = places.get(at) == place
            is_inner = is_handed or package_of(call.source) not in ("", package_of(place.source))
            if call.depth < result.depth or not is_inner:
                break
            if any(tensor.number in numbers for tensor in call.outputs.values()):
                numbers.update(tensor.number for tensor in call.inputs.values())
                if is_handed or is_view(call):
                    calls[at] = msgspec.structs.replace(call, variables=EMPTY)
    return calls


def is_view(call: Call) -> bool:
    storages = {tensor.storage for tensor in call.inputs.values()} - {None}
    return bool(call.outputs) and storages.issuperset(tensor.storage for tensor in call.outputs.values())


def results(result: Any) -> dict[str, TensorMeta]:
    if result is None:
        return EMPTY
    if type(result) is tuple:
        return dict(zip(INDEX, result))  # noqa: B905
    return {key: meta for key, meta, _ in result.tensors}
