"""Which call of one run of a model is which call of another run of it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ..schema import Call

__all__ = ["align", "place"]

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


def place(call: Call) -> tuple[str, str, str, int]:
    """A module is what stands at its path: a lazy one is of another class once it has run."""
    return call.kind, call.path, "" if call.kind == "module" else call.name, call.depth


def common(ours: Sequence[object], theirs: Sequence[object]) -> int:
    """How many are equal from the first on."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(ours), len(theirs)))
