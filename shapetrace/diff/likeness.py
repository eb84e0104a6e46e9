"""How much speaks for two items being the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..schema import Call
from .items import NONE, Around, Item

__all__ = ["Key", "agree", "does_the_same", "is_later", "score", "stand_apart"]


class Key(NamedTuple):
    """What an item is paired by."""

    kind: str
    word: str
    is_indexed: bool
    role: str
    variable: str
    cls: str
    structure: int
    holds: frozenset[str]
    origin: Around = NONE
    aim: Around = NONE
    is_bound: bool = False
    """Whether a module of this very name and class is on both sides, once."""
    layer: str = ""
    """What it does with parameters: see `Side.layer`."""
    is_known: bool = False
    """Whether its role is on both sides, once."""
    numbers: str = ""
    """What a tensor holds: "float", "int", "bool"; "" if that is not known."""
    outside: frozenset[str] = frozenset()
    """Of a scope those roles inside of it that stand beside, not inside of, the scopes of the other side."""
    is_list: bool = False
    """Whether modules right inside of it are numbered."""
    modules: frozenset[str] = frozenset()
    """Of a scope what the modules right inside of it are called there."""
    nick: str = ""
    axes: tuple[str | int, ...] = ()
    """Of a step that aims at something; "?" for what the other side does not tell anywhere."""
    content: Hashable = None
    """Of a block of a list, where both sides have blocks that are equal up to their sizes: these."""
    is_told: bool = False
    """Whether each of that content has one on the other side."""
    is_source: bool = False
    """Whether it is a function that makes something of nothing."""
    sign: str = ""
    """See `Item.sign`."""


def score(one: Key, other: Key) -> int:
    """How much speaks for two items being the same; 0 if nothing that counts does."""
    if "shell" in one.kind + other.kind:
        return 0
    if (one.is_bound or other.is_bound) and (one.word, one.cls) != (other.word, other.cls):
        return 0
    if one.nick != other.nick or (one.content != other.content and (one.is_told or other.is_told)):
        return 0
    if one.is_source and other.is_source and are_others(one.axes, other.axes) and not shared(one.axes, other.axes):
        return 0
    word = one.kind != "function" and other.kind != "function" and (one.word == other.word or one.nick != "")
    role = 16 if one.role and one.role == other.role else 8 if alike(one.role, other.role) else 0
    variable, cls = one.variable == other.variable != "", one.cls == other.cls
    if (one.is_known or other.is_known) and one.role != other.role and not (word or (variable and cls)):
        return 0
    aim, apart = bool(one.aim) and one.aim == other.aim, bool(one.aim and other.aim) and not one.aim & other.aim
    overlap = (
        one.kind == other.kind == "scope"
        and (one.role == other.role or one.is_indexed is other.is_indexed is True)
        and one.is_list == other.is_list
        and not (one.outside - other.holds or other.outside - one.holds)
        and 2 * len(one.holds & other.holds) > len(one.holds | other.holds)
    )
    if one.layer != other.layer and not (word or role or cls):
        return 0
    if not (word or role) and stand_apart(one, other, is_named=variable, are_layers=bool(one.layer and other.layer)):
        return 0
    if one.sign != other.sign and not (role or variable):
        return 0
    if one.numbers != other.numbers and one.numbers and other.numbers and not (word or role or variable):
        return 0
    if wraps(one, other) or wraps(other, one):
        return 0
    form = one.kind == other.kind == "function" and aim and agree(one.axes, other.axes)
    if one.kind == other.kind:
        counts = word or role or variable or cls or overlap or (aim and one.kind == "module")
        counts = counts or (form and one.origin == other.origin != NONE)
    elif "function" in (one.kind, other.kind):
        cls = does_the_same(one.cls, other.cls)
        counts = "scope" not in (one.kind, other.kind) and (role or variable or cls or (aim and bool(one.layer)))
    else:
        counts = word or role
    conflict = bool(one.role and other.role and not role)
    if not counts or (conflict and not (word or overlap)):
        return 0
    # An index says little, of another class nearly nothing: else one that moved is taken for a change of all between
    named = (3 if cls else 1) if word and one.is_indexed else 6 * word
    same_key = one.kind == other.kind == "function" and one.word == other.word
    origin = bool(one.origin) and one.origin == other.origin
    fit = (
        named
        + role
        + 6 * variable
        + 2 * cls
        + 3 * overlap
        + 4 * aim
        + origin
        + 3 * form
        + (one.content is not None and one.content == other.content)
    )
    fit += (one.structure == other.structure) + same_key
    return max(fit - 2 * conflict - 2 * apart, 1)


def agree(one: Sequence[str | int], other: Sequence[str | int]) -> bool:
    """Whether two tensors have the same axes in the same places, two letters at least, if there are as many; some may
    not be told."""
    is_enough = shared(one, other) >= min(2, max(len(one), 1))
    return len(one) == len(other) and is_enough and not are_others(one, other)


def shared(one: Sequence[str | int], other: Sequence[str | int]) -> int:
    """How many letters they have in the same places."""
    return sum(a == b and isinstance(a, str) for a, b in zip(one, other, strict=False))


def are_others(one: Sequence[str | int], other: Sequence[str | int]) -> bool:
    """Whether they have other letters in one place, or none where both sides tell one elsewhere."""
    pairs = [{a, b} for a, b in zip(one, other, strict=False) if a != b]
    return any(any(isinstance(axis, str) and axis != "?" for axis in pair) for pair in pairs)


def stand_apart(one: Key | Item, other: Key | Item, *, is_named: bool = False, are_layers: bool = False) -> bool:
    """Whether two steps that nothing but their class or variable pairs stand elsewhere in the flow.

    Of layers more may be made of one than of the other, as of one to q, k and v at once, and of one to q: those are not
    the same. But what they are made of depends on where norms are.
    """
    if are_layers:
        return bool(one.aim and other.aim) and (is_more(one.aim, other.aim) or not one.aim & other.aim)
    if is_named:
        both = (one.origin, other.origin), (one.aim, other.aim)
        return any(left and right and not left & right for left, right in both)
    return one.aim != other.aim or not (one.origin == other.origin or is_more(one.origin, other.origin))


def is_more(one: Around, other: Around) -> bool:
    """Whether one has what the other has and more, or the other way round."""
    return bool(one and other) and (one < other or other < one)


def wraps(one: Key, other: Key) -> bool:
    """Whether what is inside of one is the other rather than one itself: does what that does, or goes by its name."""
    if not one.kind == other.kind == "scope":
        return False
    return (not one.role and other.role in one.holds) or (one.word != other.word and other.word in one.modules)


def does_the_same(cls: str, name: str) -> bool:
    """Whether a function is called as the class of a module is, or the other way round: "silu" and "SiLUActivation"."""
    short, long = sorted((cls.replace("_", "").lower(), name.replace("_", "").lower()), key=len)
    return len(short) >= SHORTEST and short in long


SHORTEST = 4


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
