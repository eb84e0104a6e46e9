"""Which call of one run of a model is which call of another run of it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ..schema import Call, TensorMeta
from .roles.functions import ACTIVATIONS, CASTS, DROPOUTS, QUOTIENTS, SUMS, TIMES, short_name

__all__ = ["align", "flows_alike", "place"]

ELEMENTWISE = SUMS | TIMES | QUOTIENTS | ACTIVATIONS | CASTS | DROPOUTS | {"clone", "detach", "clamp"}

LONGEST = 2_000
"""Calls that are compared one with another, where two runs part: the time for that grows with the square."""


def align(calls: Sequence[Call], others: Sequence[Call]) -> list[Call | None]:
    """For each of `calls` the one of `others` that does the same at the same place; None where there is none."""
    ours, theirs = list(map(place, calls)), list(map(place, others))
    if ours == theirs:
        return list(others)
    found: list[Call | None] = [None] * len(calls)
    start = common(ours, theirs)
    found[:start] = others[:start]
    end = common(ours[start:][::-1], theirs[start:][::-1])
    if end:
        found[-end:] = others[-end:]
    middle, other = ours[start : len(ours) - end], theirs[start : len(theirs) - end]
    if max(len(middle), len(other)) <= LONGEST:
        for block in SequenceMatcher(None, middle, other, autojunk=False).get_matching_blocks():
            first, second = start + block.a, start + block.b
            found[first : first + block.size] = others[second : second + block.size]
    return found


def flows_alike(calls: Sequence[Call], others: Sequence[Call]) -> bool:
    """Whether what goes into each call of one run is, in the other, made by the call that does the same there.

    What only the first run does to it, element by element, does not count.
    """
    places = {id(call): index for index, call in enumerate(others)}
    theirs = [None if call is None else places[id(call)] for call in align(calls, others)]
    ours, made = origins(calls), origins(others)
    for call, at in zip(calls, theirs, strict=True):
        given = {} if at is None else others[at].inputs
        for key, tensor in call.inputs.items():
            other = given.get(key)
            if other is None or tensor.number not in ours or other.number not in made:
                continue
            origin = ours[tensor.number]
            while theirs[origin] is None and (before := kept(calls[origin])) is not None and before.number in ours:
                origin = ours[before.number]
            if theirs[origin] != made[other.number]:
                return False
    return True


def kept(call: Call) -> TensorMeta | None:
    """What goes into a call and comes out with each dim where it was; None if it is not such a call."""
    result = next(iter(call.outputs.values()), None)
    if result is None or short_name(call) not in ELEMENTWISE:
        return None
    return next((tensor for tensor in call.inputs.values() if tensor.shape == result.shape), None)


def origins(calls: Sequence[Call]) -> dict[int | None, int]:
    """Number of a tensor -> the first function that gives it, or else the first module."""
    found: dict[int | None, int] = {}
    for kinds in (("function", "op"), ("module",)):
        for index, call in enumerate(calls):
            for tensor in call.outputs.values() if call.kind in kinds else ():
                found.setdefault(tensor.number, index)
    return found


def place(call: Call) -> tuple[str, str, str, int]:
    """A module is what stands at its path: a lazy one is of another class once it has run."""
    return call.kind, call.path, "" if call.kind == "module" else call.name, call.depth


def common(ours: Sequence[object], theirs: Sequence[object]) -> int:
    """How many are equal from the first on."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
