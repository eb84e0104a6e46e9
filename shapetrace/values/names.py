"""What the names of weights say about which is which: a key is no value, however it is used.

Weights that stand in one block and have one form may be taken for each other. Where the names of both sides say which
is which, or one side counts them and the other has them in the order in which it uses them, they go by that; if they
are used otherwise, that is what a comparison has to show, and not what copying may undo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..diff.names import starts, told_apart, words
from .parameters import Rows

__all__ = ["Order", "Step", "by_name"]

Owner = tuple[str, Rows | None]
"""A module, or a parameter that is no weight or bias of one; and which rows of what it has."""

LEAVES = frozenset({"weight", "bias"})

BLOCK = re.compile(r"^(?:.*\.)?\d+\.(?=[^.]+\.|[^.\d])")
"""The path up to the last number that has something inside."""


class Step(NamedTuple):
    """A weight of before that goes to one of after: `rows` of either, None for all of them.

    size     how many rows go, and the shape of each
    called   the variables that hold what is made with the rows
    by       "name", "use" (what is made with both), "order" (of equal shapes)
    against  "use", or "order" of registration, if that says otherwise
    """

    before: str
    after: str
    rows: tuple[Rows | None, Rows | None]
    size: tuple[int, ...]
    called: tuple[str, str]
    by: str
    against: str = ""


class Order(NamedTuple):
    """In which order a side has its weights, and in which it uses them."""

    registered: Mapping[str, int]
    used: Mapping[str, int]


class Member(NamedTuple):
    """The steps of a weight and its bias, by their numbers, and of either side who has them."""

    steps: tuple[int, ...]
    owners: tuple[Owner, Owner]
    called: tuple[str, str]

    def words(self, side: int) -> tuple[str, ...]:
        name = self.owners[side][0]
        return tuple(words(f"{name[len(block(name)) :]}.{self.called[side]}"))


def by_name(steps: Sequence[Step], orders: tuple[Order, Order]) -> list[Step]:
    """The steps that go otherwise if names say so; and what neither names nor the order of registration bear out."""
    found = list(steps)
    for group in groups(steps):
        to = said(group, orders)
        for at, member in enumerate(group):
            if (there := to.get(at, at)) != at:
                for number, other in zip(member.steps, group[there].steps, strict=True):
                    its = steps[other]
                    found[number] = steps[number]._replace(
                        after=its.after, rows=(steps[number].rows[0], its.rows[1]), by="name", against=steps[number].by
                    )
        for at in turned_round(group, orders, to):
            for number in group[at].steps:
                found[number] = steps[number]._replace(against="order")
    return found


def groups(steps: Sequence[Step]) -> Iterator[list[Member]]:
    """Those that may be taken for each other."""
    members: dict[tuple[Owner, Owner], list[int]] = {}
    for number, step in enumerate(steps):
        if step.by != "name":
            owners = (owner(step.before), step.rows[0]), (owner(step.after), step.rows[1])
            members.setdefault(owners, []).append(number)
    alike: dict[object, list[Member]] = {}
    for (one, other), numbers in members.items():
        numbers.sort(key=lambda number: steps[number].before)
        called = next((steps[number].called for number in numbers if any(steps[number].called)), ("", ""))
        form = tuple(steps[number].size for number in numbers)
        where = block(one[0]), block(other[0])
        alike.setdefault((where, form), []).append(Member(tuple(numbers), (one, other), called))
    yield from (group for group in alike.values() if len(group) > 1)


def owner(name: str) -> str:
    path, _, leaf = name.rpartition(".")
    return path if leaf in LEAVES else name


def block(name: str) -> str:
    found = BLOCK.match(f"{name}.")
    return found[0] if found else ""


def said(group: Sequence[Member], orders: tuple[Order, Order]) -> dict[int, int]:
    """Which of a group goes to where another does by use, as far as it is said at all; also where it goes itself."""
    told = told_apart([member.words(0) for member in group]), told_apart([member.words(1) for member in group])
    fit = [[alike(one, other) for other in told[1]] for one in told[0]]
    to = {
        at: row.index(True)
        for at, row in enumerate(fit)
        if sum(row) == 1 and sum(each[row.index(True)] for each in fit) == 1
    }
    rest = [at for at in range(len(group)) if at not in to]
    if len(rest) > 1 and not set(rest) & set(to.values()):
        to |= counted([group[at] for at in rest], [[each[at] for at in rest] for each in told], rest, orders)
    return to if set(to) == set(to.values()) else {at: at for at, there in to.items() if at == there}


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one has a word that the other has, or abbreviates: k for key. A number says only the order."""
    return any(starts(word, its) for word in one for its in other)


def counted(
    group: Sequence[Member],
    told: Sequence[Sequence[frozenset[str]]],
    places: Sequence[int],
    orders: tuple[Order, Order],
) -> dict[int, int]:
    """Where those go that one side counts, w1 and w3, if the other has them in the order in which it uses them."""
    numbers = [numbered(each) for each in told]
    ways: list[list[int]] = []
    for side in (0, 1):
        registered, used = ([order[member.owners[side][0]] for member in group] for order in orders[side])
        first = numbers[side] or registered
        ways.append(sorted(range(len(group)), key=first.__getitem__))
        if ways[side] != sorted(range(len(group)), key=used.__getitem__) or len(set(first)) < len(first):
            return {}
    return {places[a]: places[b] for a, b in zip(*ways, strict=True)} if any(numbers) else {}


def numbered(told: Sequence[frozenset[str]]) -> list[int]:
    """The numbers that are all that tells them apart, or letters from a on."""
    own = ["".join(sorted(each)) for each in told]
    if all(word.isdigit() for word in own):
        return [int(word) for word in own]
    are_letters = sorted(own) == [chr(ord("a") + at) for at in range(len(own))]
    return [ord(word) for word in own] if are_letters else []


def turned_round(group: Sequence[Member], orders: tuple[Order, Order], to: Mapping[int, int]) -> Iterator[int]:
    """Of those of which nothing is said which stand before another in the same module on one side, and after on the
    other."""
    silent = [at for at in range(len(group)) if at not in to]
    for at in silent:
        pairs = [(group[at], group[other]) for other in silent if other != at]
        if any(are_beside(pair) and is_turned(pair, orders) for pair in pairs):
            yield at


def are_beside(pair: tuple[Member, Member]) -> bool:
    one, other = pair
    return all(
        a[0].rpartition(".")[0] == b[0].rpartition(".")[0] for a, b in zip(one.owners, other.owners, strict=True)
    )


def is_turned(pair: tuple[Member, Member], orders: tuple[Order, Order]) -> bool:
    """Whether the one registered first on one side, or that has the first rows, is not that on the other."""
    before, after = (
        [(orders[side].registered[name], rows or ()) for name, rows in (each.owners[side] for each in pair)]
        for side in (0, 1)
    )
    return (before[0] < before[1] and after[0] > after[1]) or (before[0] > before[1] and after[0] < after[1])
