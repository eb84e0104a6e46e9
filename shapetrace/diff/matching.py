"""What corresponds, side by side in the order of both; and what of the rest has moved."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set

import msgspec

from .items import INDEX, Item
from .likeness import agree, stand_apart
from .names import is_short_for, told_apart, words

__all__ = ["Match", "Pairs", "displaced", "merged", "named", "names_once", "nicknamed", "settled"]

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


Axes = tuple[str | int, ...]


def displaced(ours: list[Item], theirs: list[Item], pairs: Pairs, axes: Callable[[Item], Axes]) -> Pairs:
    """Of what is in no pair the pairs of what stands elsewhere in the order of the other side.

    axes   of a step, as they are compared
    """
    rest, others = unpaired(len(ours), [a for a, _ in pairs]), unpaired(len(theirs), [b for _, b in pairs])
    moved: Pairs = []
    ways = (
        (by_structure, False),
        (named, False),
        (by_nick, True),
        (by_variable, True),
        (by_role, True),
        (by_aim, True),
        (by_class, True),
    )
    for name, is_unique in ways:
        found = same(name, is_unique, [(a, ours[a]) for a in rest], [(b, theirs[b]) for b in others])
        if name is by_class:
            found = [(a, b) for a, b in found if not is_elsewhere(ours[a], theirs[b])]
        moved += found
        rest, others = rest - {a for a, _ in found}, others - {b for _, b in found}
    return sorted([*moved, *by_form([(a, ours[a]) for a in rest], [(b, theirs[b]) for b in others], axes)])


def by_form(
    ours: Sequence[tuple[int, Item]], theirs: Sequence[tuple[int, Item]], axes: Callable[[Item], Axes]
) -> Pairs:
    """Steps that stand between the same and have the same axes, as no others of what is left."""
    left: dict[object, list[tuple[int, Axes]]] = {}
    right: dict[object, list[tuple[int, Axes]]] = {}
    for found, items in ((left, ours), (right, theirs)):
        for place, item in items:
            if item.call.kind == "function" and item.tensor is not None and item.origin and item.aim:
                found.setdefault((item.origin, item.aim, item.sign), []).append((place, axes(item)))
    pairs: Pairs = []
    for around, steps in left.items():
        few = max(len(steps), len(right.get(around, ()))) <= MOST_LAYERS
        fit = [(a, b) for a, one in steps for b, other in right.get(around, ()) if agree(one, other)] if few else []
        count = Counter(a for a, _ in fit), Counter(b for _, b in fit)
        pairs += [(a, b) for a, b in fit if count[0][a] == count[1][b] == 1]
    return pairs


def settled(pairs: Pairs, moved: Pairs) -> tuple[Pairs, Pairs]:
    """The same, where what stands after the same pair on both sides did not move, and is one of the pairs."""
    pairs, still = pairs[:], []
    for a, b in moved:
        at = bisect_left(pairs, (a, b))
        if (at == 0 or pairs[at - 1][1] < b) and (at == len(pairs) or pairs[at][1] > b):
            pairs.insert(at, (a, b))
        else:
            still.append((a, b))
    return pairs, still


def unpaired(count: int, taken: list[int]) -> set[int]:
    return set(range(count)).difference(taken)


def named(item: Item) -> object:
    part = item.place.part
    if item.is_shell:
        return None
    if item.call.kind == "module" and part == "call":
        return part, item.name, item.call.name
    return (part, item.name, item.call.name) if item.name else None


def names_once(items: Sequence[Item]) -> set[object]:
    """By what modules that stand here once, and under a name that is no index, are called: these pair with no other."""
    modules = (item for item in items if item.place.part == "call" and item.call.kind == "module")
    count = Counter(named(item) for item in modules if not item.is_shell and not INDEX.search(item.name))
    return {name for name, number in count.items() if number == 1}


MOST_LAYERS = 32
"""More than so many in one place are not compared, each with each."""


def nicknamed(ours: list[Item], theirs: list[Item], layer: Callable[[int, int], str]) -> tuple[list[Item], list[Item]]:
    """The items, with one nick for two layers of which one is called as the other is for short, and no other: `up` and
    `up_proj`. They stand at no other places in the flow.

    layer   of a side, 0 or 1, and a call: see `Side.layer`
    """
    names = [{item.name for item in items} for items in (ours, theirs)]
    roles = [{item.role for item in items if not item.is_shell} - {""} for items in (ours, theirs)]
    kinds: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for side, items in enumerate((ours, theirs)):
        for at, item in enumerate(items):
            if is_layer(item) and item.name not in names[1 - side] and (kind := layer(side, item.place.at)):
                kinds[side].setdefault(kind, []).append(at)
    fit: Pairs = []
    for kind, left in kinds[0].items():
        right = kinds[1].get(kind, [])
        if right and max(len(left), len(right)) <= MOST_LAYERS:
            told, its = told_of(ours, left), told_of(theirs, right)
            same = ((a, b) for a in left for b in right if is_short_for(told[a], its[b]))
            same = ((a, b) for a, b in same if not has_like(ours[a].role, theirs[b].role, roles[0] & roles[1]))
            fit += [(a, b) for a, b in same if not stand_apart(ours[a], theirs[b], are_layers=True)]
    count = Counter(a for a, _ in fit), Counter(b for _, b in fit)
    both = [(a, b) for a, b in fit if count[0][a] == count[1][b] == 1]
    if both:
        ours, theirs = ours[:], theirs[:]
    for a, b in both:
        nick = " ".join(sorted((ours[a].name, theirs[b].name)))
        ours[a] = msgspec.structs.replace(ours[a], nick=nick)
        theirs[b] = msgspec.structs.replace(theirs[b], nick=nick)
    return ours, theirs


def has_like(role: str, other: str, both: Set[str]) -> bool:
    """Whether of two with other roles one has a like on the other side, by its role: `both` are those on both sides."""
    return role != other and not both.isdisjoint((role, other))


def told_of(items: Sequence[Item], places: Sequence[int]) -> dict[int, frozenset[str]]:
    """The words that tell each from the others."""
    return dict(zip(places, told_apart([words(items[at].name) for at in places]), strict=True))


def is_layer(item: Item) -> bool:
    return (
        item.call.kind == "module" and item.place.part == "call" and not item.is_scope and not INDEX.search(item.name)
    )


def by_structure(item: Item) -> object:
    """Of what is in a list: its index says only where it stands."""
    return (INDEX.sub("*", item.name), item.structure) if item.is_block and not item.is_shell else None


def by_nick(item: Item) -> object:
    return item.nick or None


def by_variable(item: Item) -> object:
    is_known = item.call.kind == "function" and item.name and item.aim and not item.is_shell
    return (item.name, item.aim) if is_known else None


def by_role(item: Item) -> object:
    return None if item.is_shell else item.role or None


def by_aim(item: Item) -> object:
    return (item.call.name, item.aim) if item.call.kind == "module" and item.aim else None


def by_class(item: Item) -> object:
    return None if item.name or item.is_shell else (item.call.kind, item.call.name, item.role, item.sign)


def is_elsewhere(one: Item, other: Item) -> bool:
    """Whether two steps have no more in common than what they are called: other dims, and another place in the flow."""
    dims = [None if item.tensor is None else len(item.tensor.shape) for item in (one, other)]
    around = (one.origin, other.origin), (one.aim, other.aim)
    return dims[0] != dims[1] and any(ours and theirs and not ours & theirs for ours, theirs in around)


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


def merged(ours: list[Item], theirs: list[Item], pairs: Pairs, moved: Pairs) -> Iterator[Match]:
    """All of both sides in one order; what moved stands where it was before."""
    to, gone = dict(moved), {b for _, b in moved}
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    a = b = 0
    for next_a, next_b in [*pairs, (len(ours), len(theirs))]:
        for place in range(a, next_a):
            if place in to:
                there = to[place]
                follows, other = bisect_left(left, place), bisect_left(right, there)
                order = (
                    next_to(ours, left, follows, is_earlier=follows < other),
                    next_to(theirs, right, other, is_earlier=other < follows),
                )
                yield Match(ours[place], theirs[there], order=order)
            else:
                yield Match(ours[place], None)
        for place in range(b, next_b):
            if place not in gone:
                yield Match(None, theirs[place])
        if next_a < len(ours):
            yield Match(ours[next_a], theirs[next_b])
        a, b = next_a + 1, next_b + 1


def next_to(items: list[Item], places: list[int], at: int, *, is_earlier: bool) -> str:
    """What stands before or after a place, and did not move itself."""
    around = range(at, len(places)) if is_earlier else range(at - 1, -1, -1)
    near = (items[places[step]] for step in around)
    nearest = next((item for item in near if item.name or item.role), None)
    if nearest is None:
        return "first" if not is_earlier else "last"
    role = nearest.role if nearest.role != nearest.name and not nearest.is_scope else ""
    return f"{'before' if is_earlier else 'after'} {' · '.join(filter(None, (nearest.name, role)))}"
