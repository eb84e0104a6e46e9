"""How much speaks for two items being the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..schema import Call

__all__ = ["Key", "is_later", "score"]


class Key(NamedTuple):
    """What an item is paired by."""

    kind: str
    word: str
    is_indexed: bool
    role: str
    variable: str
    cls: str
    form: int
    holds: frozenset[str]
    aim: str


def score(one: Key, other: Key) -> int:
    """How much speaks for two items being the same; 0 if nothing that counts does."""
    if "shell" in one.kind + other.kind:
        return 0
    word = one.kind != "function" and other.kind != "function" and one.word == other.word
    role = 10 if one.role and one.role == other.role else 8 if alike(one.role, other.role) else 0
    variable, cls = one.variable == other.variable != "", one.cls == other.cls
    aim, apart = one.aim == other.aim != "", one.aim != other.aim and one.aim != "" != other.aim
    overlap = (
        one.kind == other.kind == "scope"
        and one.role == other.role
        and 2 * len(one.holds & other.holds) > len(one.holds | other.holds)
    )
    if one.kind == other.kind:
        counts = word or role or variable or cls or overlap or (aim and one.kind == "module")
    elif "function" in (one.kind, other.kind):
        counts = "scope" not in (one.kind, other.kind) and (role or variable)
    else:
        counts = word or role
    conflict = bool(one.role and other.role and not role)
    if not counts or (conflict and not word):
        return 0
    named = (3 if one.is_indexed else 6) if word else 0
    same_key = one.kind == other.kind == "function" and one.word == other.word
    fit = named + role + 6 * variable + 2 * cls + 3 * overlap + 4 * aim + (one.form == other.form) + same_key
    return max(fit - 2 * conflict - 2 * apart, 1)


def alike(one: str, other: str) -> bool:
    """Whether two roles of modules end alike: "causal self-attention" and "self-attention"."""
    return one.rpartition(" ")[2] == other.rpartition(" ")[2] != "" and " " in one + other


def is_later(ours: Sequence[Call], theirs: Sequence[Call]) -> bool:
    """One order of any two traces: of several pairings that are equally good, the same is found from either side."""
    parted = next((pair for pair in zip(ours, theirs, strict=False) if differ(*pair)), None)
    return len(ours) > len(theirs) if parted is None else seen(parted[0]) > seen(parted[1])


def differ(one: Call, other: Call) -> bool:
    return one != other and seen(one) != seen(other)


def seen(call: Call) -> tuple[object, ...]:
    """What of a call matters for pairing."""
    roles = [(key, tensor.role or "") for key, tensor in call.outputs.items()]
    said = call.kind, call.path, call.name, call.depth, list(call.variables.items()), call.role or "", call.error or ""
    inputs = [(key, tensor.role or "", tensor.name or "") for key, tensor in call.inputs.items()]
    return *said, list(call.unmade), roles, inputs
