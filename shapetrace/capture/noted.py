"""What is noted of each call while the model runs, and how it becomes data when the trace is read.

To note little is what makes watching cheap: after an op the caches of the processor hold the op, not this code, so
each step of it costs several times what it does in the loop below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal

import msgspec

from ..schema import Call, TensorMeta
from .places import Place
from .structures import ARGUMENTS, FLAT, Structure, literal, text

__all__ = ["INDEX", "NONE", "Function", "Noted", "calls_of", "keys_of"]

INDEX = tuple(map(str, range(256)))
NONE: tuple[Any, ...] = ()
EMPTY: dict[str, Any] = {}
"""Shared by all calls that have none."""


class Function(msgspec.Struct, frozen=True, gc=False):
    """What all calls of a function have in common.

    is_special   more than to run it is to be done
    is_pure      it changes none of its arguments, so they need not be looked at again after it
    changes      of an aten op, the keys of the arguments it writes to, by its schema: below autograd no version moves
    """

    kind: Literal["function", "op"]
    name: str
    is_special: bool = False
    is_pure: bool = False
    changes: frozenset[str] | None = None


class Noted(msgspec.Struct, gc=False):
    """A call as it was noted. No tensor and no object of the user's is in it.

    given    what was seen of each argument: of tensors and structures their description, atoms as they are
    result   what was seen of it; None if there is no tensor in it
    keys     of the arguments; there may be more of them
    """

    kind: Literal["module", "function", "op"]
    name: str
    path: str
    depth: int
    place: Place
    given: tuple[Any, ...]
    result: Any
    keys: tuple[str, ...]
    written: tuple[int, ...] = NONE
    error: str | None = None
    note: str | None = None


def keys_of(keys: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Of positional arguments, and then of keyword arguments."""
    if len(args) > len(keys):
        keys = (*keys, *map(str, range(len(keys), len(args))))
    return (*keys[: len(args)], *kwargs)


def calls_of(calls_noted: Iterable[Noted]) -> tuple[Call, ...]:
    """The calls as data."""
    calls: list[Call] = []
    for noted in calls_noted:
        given, keys, result = noted.given, noted.keys, noted.result
        layout = layout_of(None if keys is INDEX else keys[: len(given)], *map(type, given))
        try:
            inputs, literals = layout(given) if layout is not None else arguments(noted)
        except ValueError:  # Python writes no int of more than 4300 digits
            inputs, literals = arguments(noted)
        variables, source = noted.place
        calls.append(
            Call(
                noted.kind, noted.path, noted.name, noted.depth, variables, source,
                inputs, {"": result} if type(result) is TensorMeta else results(result), literals,
                noted.written, noted.note, noted.error,
            )
        )  # fmt: skip
    return tuple(calls)


Arguments = tuple[dict[str, TensorMeta], dict[str, str]]
"""The tensors that a call was given, and all else as text, by key."""


@lru_cache(maxsize=4096)
def layout_of(keys: tuple[str, ...] | None, *kinds: type) -> Callable[[tuple[Any, ...]], Arguments] | None:
    """What sorts arguments of these kinds into tensors and literals; None if that takes a look at each of them."""
    if Structure in kinds or len(kinds) > len(INDEX):
        return None
    keys = INDEX if keys is None else keys
    tensors = [at for at, kind in enumerate(kinds) if kind is TensorMeta]
    others = [at for at, kind in enumerate(kinds) if kind is not TensorMeta]
    tensor_keys, other_keys = [keys[at] for at in tensors], [keys[at] for at in others]
    writers = [repr if kinds[at] in ARGUMENTS else text if kinds[at] in FLAT else literal for at in others]
    if not others:
        return lambda given: (dict(zip(tensor_keys, given)), EMPTY)  # noqa: B905
    if len(others) == 1 and len(tensors) == 1:
        (tensor_key,), (tensor,), (other_key,), (other,), (write,) = tensor_keys, tensors, other_keys, others, writers
        return lambda given: ({tensor_key: given[tensor]}, {other_key: write(given[other])})
    pick_tensors, pick = picker(tensors), picker(others)
    return lambda given: (
        dict(zip(tensor_keys, pick_tensors(given))) or EMPTY,  # noqa: B905
        {key: write(value) for key, write, value in zip(other_keys, writers, pick(given))},  # noqa: B905
    )


def picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if places == [*range(places[0], places[-1] + 1)] if places else True:
        return itemgetter(slice(places[0], places[-1] + 1) if places else slice(0))
    return itemgetter(*places)


def arguments(noted: Noted) -> Arguments:
    inputs: dict[str, TensorMeta] = {}
    literals: dict[str, str] = {}
    keys = noted.keys if len(noted.given) <= len(noted.keys) else map(str, range(len(noted.given)))
    for key, value in zip(keys, noted.given):  # noqa: B905
        kind = type(value)
        if kind is TensorMeta:
            inputs[key] = value
        elif kind is Structure:
            inputs.update({inner: meta for inner, meta, _ in value.tensors})
            literals.update(value.literals)
        else:
            literals[key] = text(value) if kind in FLAT else literal(value)
    return inputs or EMPTY, literals or EMPTY


def results(result: Any) -> dict[str, TensorMeta]:
    if result is None:
        return EMPTY
    if type(result) is tuple:
        return dict(zip(INDEX, result))  # noqa: B905
    return {key: meta for key, meta, _ in result.tensors}
