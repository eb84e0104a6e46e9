"""Which call of one trace is which call of another: by structure, never by shape.

Inside of two modules that correspond, what has the same name corresponds in the order of both; then what has the same
role, the same variable, the same class. What is left and stands elsewhere in the order has moved. A module without a
counterpart that holds what is found on the other side, the `transformer` of a model that has all its blocks in one, is
taken apart: what is in it is paired as if it stood there itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence, Set

import msgspec

from ..passes.nesting import siblings
from ..schema import Call, Trace
from .alignment import align
from .blocks import are_exchanged, contents, told
from .items import INDEX, Item, Place, Side
from .likeness import Key, does_the_same, is_later, score, stand_apart
from .matching import Match, Pairs, displaced, merged, named, names_once, nicknamed, settled
from .stages import staged
from .surroundings import placed

__all__ = ["Pairing", "inner"]

Once = tuple[Set[object], Set[str]]

ROUNDS = 8
"""How many levels of modules are taken apart at most."""


class Pairing:
    def __init__(self, before: Trace, after: Trace) -> None:
        known: dict[object, int] = {}
        self.before, self.after = Side(before, known), Side(after, known)
        self.told = letters(before) & letters(after)
        self.numbers: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.scores: list[dict[int, int]] = []
        self.is_flipped = is_later(before.calls, after.calls)

    def matches(self) -> list[Match]:
        """What corresponds in all of the traces."""
        root = Match(None, None)
        todo = [(root, -1, "", -1, "")]
        while todo:
            match, a, path_a, b, path_b = todo.pop()
            ours, theirs = staged(self.before.items(a, path_a)), staged(self.after.items(b, path_b))
            if (
                a >= 0
                and self.before.forms[a] == self.after.forms[b]
                and not are_exchanged(self.before, ours, self.after, theirs)
            ):
                match.inside = [Match(one, other) for one, other in zip(ours, theirs, strict=True)]
            else:
                within = self.before.calls[a] if a >= 0 else None, self.after.calls[b] if b >= 0 else None
                match.inside = list(self.paired(ours, theirs, within))
            for child in match.inside:
                one, other = child.before, child.after
                if one is not None and other is not None and one.place.part == other.place.part == "call":
                    todo.append((child, one.place.at, inner(one), other.place.at, inner(other)))
        return root.inside

    def paired(self, ours: list[Item], theirs: list[Item], within: tuple[Call | None, Call | None]) -> Iterator[Match]:
        for _ in range(ROUNDS):
            ours, theirs = placed((ours, theirs), (self.before, self.after), within)
            ours, theirs = nicknamed(ours, theirs, lambda side, at: (self.before, self.after)[side].layer(at))
            pairs, moved = self.aligned(ours, theirs)
            taken_a, taken_b = {a for a, _ in pairs + moved}, {b for _, b in pairs + moved}
            left = [item for place, item in enumerate(ours) if place not in taken_a]
            others = [item for place, item in enumerate(theirs) if place not in taken_b]
            apart_a, apart_b = self.apart(left, others)
            if not apart_a and not apart_b:
                break
            ours, theirs = opened(ours, self.before, apart_a), opened(theirs, self.after, apart_b)
        return merged(ours, theirs, pairs, moved)

    def apart(self, ours: list[Item], theirs: list[Item]) -> tuple[set[Place], set[Place]]:
        """Of what is in no pair those to be taken apart: what holds roles that stand on the other side, or else roles
        that others there hold, or else layers of the classes that stand there."""
        for is_deep in (False, True):
            wanted, others = roles(theirs, self.after, is_deep), roles(ours, self.before, is_deep)
            left = {item.place for item in ours if opens(item, self.before, wanted)}
            right = {item.place for item in theirs if opens(item, self.after, others)}
            if left or right:
                return left, right
        return (
            {item.place for item in ours if holds_steps(item, self.before, theirs)},
            {item.place for item in theirs if holds_steps(item, self.after, ours)},
        )

    def aligned(self, ours: list[Item], theirs: list[Item]) -> tuple[Pairs, Pairs]:
        """The pairs that are in the order of both, and those that moved: the same whichever side comes first."""
        if not self.is_flipped:
            return self.found(ours, theirs)
        self.before, self.after = self.after, self.before
        found, moved = self.found(theirs, ours)
        self.before, self.after = self.after, self.before
        return sorted((a, b) for b, a in found), sorted((a, b) for b, a in moved)

    def found(self, ours: list[Item], theirs: list[Item]) -> tuple[Pairs, Pairs]:
        once = names_once(ours) & names_once(theirs), roles_once(ours) & roles_once(theirs)
        beside = standing(ours), standing(theirs)
        blocks = contents(ours, self.before), contents(theirs, self.after)
        count = Counter(blocks[0].values()), Counter(blocks[1].values())
        left = [self.number(item, self.before, once, beside[1], told(item, blocks[0], *count)) for item in ours]
        right = [self.number(item, self.after, once, beside[0], told(item, blocks[1], *count[::-1])) for item in theirs]
        pairs = align(left, right, self.score)
        pairs = sorted([*pairs, *self.alone(ours, theirs, pairs, once)])
        return settled(pairs, displaced(ours, theirs, pairs, self.axes))

    def alone(self, ours: list[Item], theirs: list[Item], pairs: Pairs, once: Once) -> Iterator[tuple[int, int]]:
        """Steps of other names and classes that are the only ones of their kind between what corresponds.

        Scopes are one kind, layers that do the same another, modules without parameters and functions the others.
        """
        a = b = 0
        for next_a, next_b in [*pairs, (len(ours), len(theirs))]:
            left = self.kinds(ours, a, next_a, self.before, once)
            right = self.kinds(theirs, b, next_b, self.after, once)
            for kind in left:
                if len(left[kind]) == len(right.get(kind, ())) == 1:
                    one, other = left[kind][0], right[kind][0]
                    if self.may_be(ours[one], theirs[other]):
                        yield one, other
            a, b = next_a + 1, next_b + 1

    def kinds(self, items: list[Item], start: int, stop: int, side: Side, once: Once) -> dict[str, list[int]]:
        names, roles = once
        found: dict[str, list[int]] = {}
        for place in range(start, stop):
            item = items[place]
            if item.is_shell or named(item) in names or item.role in roles:
                continue
            kind = "scope" if item.is_scope else side.layer(item.place.at) or item.call.kind
            found.setdefault(kind, []).append(place)
        return found

    def may_be(self, one: Item, other: Item) -> bool:
        """Whether two of a kind that stand alone may be the same: of scopes more than half of what is right inside."""
        if (one.role and other.role) or one.sign != other.sign:
            return False
        if one.is_scope:
            inside = self.before.classes(one.place.at), self.after.classes(other.place.at)
            return 2 * (inside[0] & inside[1]).total() > (inside[0] | inside[1]).total()
        are_layers = bool(self.before.layer(one.place.at))
        return not stand_apart(one, other, are_layers=are_layers)

    # Keys

    def number(self, item: Item, side: Side, once: Once, beside: Set[str], content: tuple[Hashable, bool]) -> int:
        """
        once     the names and roles that are there once, on both sides
        beside   the roles that stand beside the scopes of the other side
        content  see `told`
        """
        names, roles = once
        index, part, place = item.place
        call = item.call
        is_module = call.kind == "module" and part == "call"
        kind = "scope" if item.is_scope else "module" if is_module else "function"
        if item.is_shell:
            kind = f"shell {id(side)} {index}"  # equal to no other
        word = INDEX.sub("*", item.name) if is_module else place
        variable = next(iter(call.variables.values()), "") if part == "call" else call.variable(place) or ""
        holds = side.holds[index] if item.is_scope else frozenset[str]()
        modules = side.modules(index) if item.is_scope else frozenset[str]()
        key = Key(
            kind,
            word,
            word != item.name,
            item.role,
            variable,
            call.name,
            side.structures[index],
            holds,
            item.origin,
            item.aim,
            named(item) in names,
            side.layer(index),
            item.tensor is not None and item.role in roles,
            "" if item.tensor is None else numbers(item.tensor.dtype),
            holds & beside,
            any("*" in name for name in modules),
            modules,
            item.nick,
            self.axes(item),
            *content,
            is_source(item),
            item.sign,
        )
        number = self.numbers.setdefault(key, len(self.numbers))
        if number == len(self.keys):
            self.keys.append(key)
            self.scores.append({})
        return number

    def axes(self, item: Item) -> tuple[str | int, ...]:
        if item.tensor is None or not item.tensor.axes or not (item.aim or is_source(item)):
            return ()
        return tuple(axis if isinstance(axis, int) or axis in self.told else "?" for axis in item.tensor.axes)

    def score(self, one: int, other: int) -> int:
        found = self.scores[one].get(other)
        if found is None:
            found = self.scores[one][other] = self.scores[other][one] = score(self.keys[one], self.keys[other])
        return found


def is_source(item: Item) -> bool:
    """Whether it is a function that makes something of nothing."""
    return item.call.kind == "function" and not item.call.inputs


def letters(trace: Trace) -> set[str]:
    """All axes that a trace tells."""
    every = {tensor.axes for call in trace.calls for tensor in call.outputs.values() if tensor.axes}
    return {axis for axes in every for axis in axes if isinstance(axis, str)}


def roles_once(items: Sequence[Item]) -> set[str]:
    """Roles of one tensor each."""
    count = Counter(item.role for item in items if item.role and item.tensor is not None and not item.is_shell)
    return {role for role, number in count.items() if number == 1}


def standing(items: Sequence[Item]) -> frozenset[str]:
    """The roles of what is no scope."""
    return frozenset(item.role for item in items if item.role and not item.is_scope)


def inner(item: Item) -> str:
    """The path of the module whose forward holds what is inside of an item."""
    return item.call.path if item.call.kind == "module" else item.path


def roles(items: Sequence[Item], side: Side, is_deep: bool) -> set[str]:
    """The roles of items, and of what is inside of them if `is_deep`."""
    whole = [item for item in items if not item.is_shell]
    inside = (side.holds[item.place.at] for item in whole if is_deep and item.is_scope)
    return {item.role for item in whole if item.role}.union(*inside)


def opens(item: Item, side: Side, wanted: set[str]) -> bool:
    """Whether what has a role inside of it stands among the others; all of it, all of theirs, or much of both."""
    if not item.is_scope or item.is_shell:
        return False
    holds = side.holds[item.place.at]
    inside = wanted & holds
    return len(inside) > 1 or (bool(inside) and inside in (wanted, holds))


def holds_steps(item: Item, side: Side, others: Sequence[Item]) -> bool:
    """Whether two of the steps right inside of it, a layer among them, stand among the others by their classes."""
    if not item.is_scope or item.is_shell:
        return False
    index = item.place.at
    classes = [other.call.name for other in others if not other.is_scope]
    inside = [
        child
        for child in siblings(side.stops, index + 1, side.stops[index])
        if not side.scopes[child] and any(is_like(side.calls[child].name, name) for name in classes)
    ]
    return len(inside) > 1 and any(map(side.layer, inside))


def is_like(name: str, other: str) -> bool:
    return name == other or does_the_same(name, other)


def numbers(dtype: str) -> str:
    """The kind of numbers of a dtype, of any width."""
    return "float" if dtype.startswith(("float", "bfloat", "complex")) else dtype.rstrip("0123456789").lstrip("u")


def opened(items: list[Item], side: Side, apart: set[Place]) -> list[Item]:
    """The items with what is inside of some after them, and then what these give."""
    found: list[Item] = []
    for item in items:
        if item.place not in apart:
            found.append(item)
            continue
        index = item.place.at
        found.append(msgspec.structs.replace(item, is_shell=True))
        found += staged(side.items(index, inner(item)))
        found += [side.given_out(index, key, item.path) for key, tensor in item.call.outputs.items() if tensor.role]
    return found
