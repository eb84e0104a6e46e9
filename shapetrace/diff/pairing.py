"""Which call of one trace is which call of another: by structure, never by shape.

Inside of two modules that correspond, what has the same name corresponds in the order of both; then what has the same
role, the same variable, the same class. What is left and stands elsewhere in the order has moved. A module without a
counterpart that holds what is found on the other side, the `transformer` of a model that has all its blocks in one, is
taken apart: what is in it is paired as if it stood there itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..schema import Call, Trace
from .alignment import align
from .items import INDEX, Item, Place, Side

__all__ = ["Match", "Pairing"]

ROUNDS = 8
"""How many levels of modules are taken apart at most."""


Pairs = list[tuple[int, int]]
"""Positions in two lists."""


class Match(msgspec.Struct):
    """Two items that correspond, or one that has no counterpart; and what is in them, in the order of both.

    order    of what moved: what it stood next to before, and after
    """

    before: Item | None
    after: Item | None
    inside: list[Match] = []
    order: tuple[str, str] | None = None


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


class Pairing:
    def __init__(self, before: Trace, after: Trace) -> None:
        known: dict[object, int] = {}
        self.before, self.after = Side(before, known), Side(after, known)
        self.numbers: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.scores: dict[tuple[int, int], int] = {}
        self.is_flipped = is_later(before.calls, after.calls)

    def matches(self) -> list[Match]:
        """What corresponds in all of the traces."""
        root = Match(None, None)
        todo = [(root, -1, "", -1, "")]
        while todo:
            match, a, path_a, b, path_b = todo.pop()
            ours, theirs = self.before.items(a, path_a), self.after.items(b, path_b)
            if a >= 0 and self.before.forms[a] == self.after.forms[b]:
                match.inside = [Match(one, other) for one, other in zip(ours, theirs, strict=True)]
            else:
                match.inside = list(self.paired(ours, theirs))
            for child in match.inside:
                one, other = child.before, child.after
                if one is not None and other is not None and one.place.part == other.place.part == "call":
                    todo.append((child, one.place.at, inner(one), other.place.at, inner(other)))
        return root.inside

    def paired(self, ours: list[Item], theirs: list[Item]) -> Iterator[Match]:
        for _ in range(ROUNDS):
            pairs, moved = self.aligned(ours, theirs)
            taken_a, taken_b = {a for a, _ in pairs + moved}, {b for _, b in pairs + moved}
            left = [item for place, item in enumerate(ours) if place not in taken_a]
            others = [item for place, item in enumerate(theirs) if place not in taken_b]
            apart_a = {item.place for item in left if opens(item, self.before, others)}
            apart_b = {item.place for item in others if opens(item, self.after, left)}
            if not apart_a and not apart_b:
                break
            ours, theirs = opened(ours, self.before, apart_a), opened(theirs, self.after, apart_b)
        return merged(ours, theirs, pairs, moved)

    def aligned(self, ours: list[Item], theirs: list[Item]) -> tuple[Pairs, Pairs]:
        """The pairs that are in the order of both, and those that moved: the same whichever side comes first."""
        if not self.is_flipped:
            return self.found(ours, theirs)
        self.before, self.after = self.after, self.before
        found, moved = self.found(theirs, ours)
        self.before, self.after = self.after, self.before
        return sorted((a, b) for b, a in found), sorted((a, b) for b, a in moved)

    def found(self, ours: list[Item], theirs: list[Item]) -> tuple[Pairs, Pairs]:
        left, right = (
            [self.number(item, self.before) for item in ours],
            [self.number(item, self.after) for item in theirs],
        )
        pairs = align(left, right, self.score)
        pairs = sorted([*pairs, *self.alone(ours, theirs, pairs)])
        rest_a, rest_b = unpaired(len(ours), [a for a, _ in pairs]), unpaired(len(theirs), [b for _, b in pairs])
        moved: Pairs = []
        for name, is_unique in ((named, False), (by_role, True), (by_class, True)):
            found = same(name, is_unique, [(a, ours[a]) for a in rest_a], [(b, theirs[b]) for b in rest_b])
            moved += found
            rest_a, rest_b = rest_a - {a for a, _ in found}, rest_b - {b for _, b in found}
        return pairs, sorted(moved)

    def alone(self, ours: list[Item], theirs: list[Item], pairs: Pairs) -> Iterator[tuple[int, int]]:
        """Steps of other names and classes that are the only ones of their kind between what corresponds.

        Modules with parameters are one kind, modules without them and functions the others.
        """
        a = b = 0
        for next_a, next_b in [*pairs, (len(ours), len(theirs))]:
            left, right = self.kinds(ours, a, next_a, self.before), self.kinds(theirs, b, next_b, self.after)
            for kind in left:
                if len(left[kind]) == len(right.get(kind, ())) == 1:
                    one, other = left[kind][0], right[kind][0]
                    if not ours[one].role or not theirs[other].role:
                        yield one, other
            a, b = next_a + 1, next_b + 1

    def kinds(self, items: list[Item], start: int, stop: int, side: Side) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place in range(start, stop):
            item = items[place]
            if not item.is_scope and not item.is_shell:
                kind = "function" if item.call.kind != "module" else f"weights: {side.weights[item.place.at] > 0}"
                found.setdefault(kind, []).append(place)
        return found

    # Keys

    def number(self, item: Item, side: Side) -> int:
        index, part, place = item.place
        call = item.call
        is_module = call.kind == "module" and part == "call"
        kind = "scope" if item.is_scope else "module" if is_module else "function"
        if item.is_shell:
            kind = f"shell {index}"
        word = INDEX.sub("*", item.name) if is_module else place
        variable = next(iter(call.variables.values()), "") if part == "call" else call.variable(place) or ""
        holds = side.holds[index] if item.is_scope else frozenset[str]()
        key = Key(kind, word, word != item.name, item.role, variable, call.name, side.forms[index], holds)
        number = self.numbers.setdefault(key, len(self.numbers))
        if number == len(self.keys):
            self.keys.append(key)
        return number

    def score(self, one: int, other: int) -> int:
        both = (one, other) if one < other else (other, one)
        if both not in self.scores:
            self.scores[both] = score(self.keys[one], self.keys[other])
        return self.scores[both]


def is_later(ours: Sequence[Call], theirs: Sequence[Call]) -> bool:
    """One order of any two traces: of several pairings that are equally good, the same is found from either side."""
    parted = next((pair for pair in zip(ours, theirs, strict=False) if seen(pair[0]) != seen(pair[1])), None)
    return len(ours) > len(theirs) if parted is None else seen(parted[0]) > seen(parted[1])


def seen(call: Call) -> tuple[object, ...]:
    """What of a call matters for pairing."""
    roles = [(key, tensor.role or "") for key, tensor in call.outputs.items()]
    said = call.kind, call.path, call.name, call.depth, list(call.variables.items()), call.role or "", call.error or ""
    inputs = [(key, tensor.role or "", tensor.name or "") for key, tensor in call.inputs.items()]
    return *said, list(call.unmade), roles, inputs


def inner(item: Item) -> str:
    return item.call.path if item.call.kind == "module" else item.path


def score(one: Key, other: Key) -> int:
    """How much speaks for two items being the same; 0 if nothing that counts does."""
    if "shell" in one.kind + other.kind:
        return 0
    word = one.kind != "function" and other.kind != "function" and one.word == other.word
    role = 10 if one.role and one.role == other.role else 8 if alike(one.role, other.role) else 0
    variable, cls = one.variable == other.variable != "", one.cls == other.cls
    overlap = (
        one.kind == other.kind == "scope"
        and one.role == other.role
        and 2 * len(one.holds & other.holds) > len(one.holds | other.holds)
    )
    if one.kind == other.kind:
        counts = word or role or variable or cls or overlap
    elif "function" in (one.kind, other.kind):
        counts = role or variable
    else:
        counts = word or role
    conflict = bool(one.role and other.role and not role)
    if not counts or (conflict and not word):
        return 0
    named = (3 if one.is_indexed else 6) if word else 0
    same_key = one.kind == other.kind == "function" and one.word == other.word
    return named + role + 3 * variable + 2 * cls + 3 * overlap + (one.form == other.form) + same_key - 2 * conflict


def alike(one: str, other: str) -> bool:
    """Whether two roles of modules end alike: "causal self-attention" and "self-attention"."""
    return one.rpartition(" ")[2] == other.rpartition(" ")[2] != "" and " " in one + other


# --- what is left -----------------------------------------------------------------------------------------------------


def unpaired(count: int, taken: list[int]) -> set[int]:
    return set(range(count)).difference(taken)


def named(item: Item) -> object:
    part = item.place.part
    if item.is_shell:
        return None
    if item.call.kind == "module" and part == "call":
        return part, item.name, item.call.name
    return (part, item.name, item.call.name) if item.name else None


def by_role(item: Item) -> object:
    return None if item.is_shell else item.role or None


def by_class(item: Item) -> object:
    return None if item.name or item.is_shell else (item.call.kind, item.call.name, item.role)


def same(
    name: Callable[[Item], object],
    is_unique: bool,
    ours: Sequence[tuple[int, Item]],
    theirs: Sequence[tuple[int, Item]],
) -> Pairs:
    """Those that go by the same name, in the order in which they are there."""
    left, right = sorted(ours, key=lambda each: each[0]), sorted(theirs, key=lambda each: each[0])
    found: dict[object, list[int]] = {}
    for b, item in right:
        found.setdefault(name(item), []).append(b)
    count = Counter(name(item) for _, item in left)
    pairs: Pairs = []
    for a, item in left:
        key = name(item)
        places = found.get(key)
        if key is not None and places and not (is_unique and (count[key] > 1 or len(places) > 1)):
            pairs.append((a, places.pop(0)))
    return pairs


def opens(item: Item, side: Side, others: Sequence[Item]) -> bool:
    """Whether most of what has a role among the others is inside of this one."""
    if not item.is_scope or item.is_shell:
        return False
    wanted = {other.role for other in others if other.role}
    inside = wanted & side.holds[item.place.at]
    return len(inside) > 1 or (bool(inside) and inside == wanted)


def opened(items: list[Item], side: Side, apart: set[Place]) -> list[Item]:
    """The items with what is inside of some after them, and then what these give."""
    found: list[Item] = []
    for item in items:
        if item.place not in apart:
            found.append(item)
            continue
        index = item.place.at
        found.append(msgspec.structs.replace(item, is_shell=True))
        found += side.items(index, inner(item))
        found += [side.given_out(index, key, item.path) for key, tensor in item.call.outputs.items() if tensor.role]
    return found


def merged(ours: list[Item], theirs: list[Item], pairs: Pairs, moved: Pairs) -> Iterator[Match]:
    """All of both sides in one order; what moved stands where it was before."""
    to, gone = dict(moved), {b for _, b in moved}
    a = b = 0
    for next_a, next_b in [*pairs, (len(ours), len(theirs))]:
        for place in range(a, next_a):
            if place in to:
                yield Match(ours[place], theirs[to[place]], order=order(ours, theirs, pairs, place, to[place]))
            else:
                yield Match(ours[place], None)
        for place in range(b, next_b):
            if place not in gone:
                yield Match(None, theirs[place])
        if next_a < len(ours):
            yield Match(ours[next_a], theirs[next_b])
        a, b = next_a + 1, next_b + 1


def order(ours: list[Item], theirs: list[Item], pairs: Pairs, a: int, b: int) -> tuple[str, str]:
    """Where what moved stood, next to what did not: before what follows on the side where it stands earlier."""
    follows, other = bisect_left(pairs, (a, -1)), bisect_left([b for _, b in pairs], b)
    said = [
        next_to(ours, [a for a, _ in pairs], follows, is_earlier=follows < other),
        next_to(theirs, [b for _, b in pairs], other, is_earlier=other < follows),
    ]
    return said[0], said[1]


def next_to(items: list[Item], places: list[int], at: int, *, is_earlier: bool) -> str:
    around = places[at:] if is_earlier else places[:at][::-1]
    nearest = next((items[place] for place in around if items[place].name or items[place].role), None)
    if nearest is None:
        return "first" if not is_earlier else "last"
    role = nearest.role if nearest.role != nearest.name and not nearest.is_scope else ""
    return f"{'before' if is_earlier else 'after'} {' · '.join(filter(None, (nearest.name, role)))}"
