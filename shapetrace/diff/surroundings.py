"""Between what a step stands: the nearest tensors that both sides know, of which it is made and which are made of it.

Known is what has a role, what a module gives that is called the same on both sides, and what an activation gives that
is there once; of any other layer its kind is known, and of what the module around is given no more than that it is.
Where tensors have no numbers, as in a portable trace, nothing is told of any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Set

import msgspec

from ..passes.nesting import siblings
from ..passes.roles.functions import ACTIVATIONS, short_name
from ..schema import Call
from .items import NONE, Around, Item, Side, Sign
from .matching import named, names_once

__all__ = ["placed"]

MOST = 16
"""Of what stands between more than so many nothing is told."""


NEGATIONS = frozenset({"neg", "negative"})

Labels = list[Hashable]
"""Of each item by what it is known on both sides; None if it is not."""


def placed(
    both: tuple[list[Item], list[Item]], sides: tuple[Side, Side], within: tuple[Call | None, Call | None]
) -> tuple[list[Item], list[Item]]:
    """The items of both sides with what they come from and what they aim at. `within` are the modules in which they
    are."""
    bound = names_once(both[0]) & names_once(both[1])
    labels = [[label(item, side, bound) for item in items] for items, side in zip(both, sides, strict=True)]
    given = [{} if call is None else call.inputs for call in within]
    roles = [{tensor.role for tensor in tensors.values() if tensor.role} for tensors in given]
    shared = known(labels[0]) & known(labels[1]) | roles[0] & roles[1]
    found = []
    for items, side, own, tensors in zip(both, sides, labels, given, strict=True):
        own = [each if each in shared else None for each in own]
        start = {
            tensor.number: frozenset({tensor.role if tensor.role in shared else "given"})
            for tensor in tensors.values()
            if tensor.name is None
        }
        around = zip(items, origins(items, side, own, start), aims(items, side, own), strict=True)
        found.append([stands(item, origin, aim) for item, origin, aim in around])
    shared_aims = (negatives(found[0]) & negatives(found[1])) - {NONE}
    return signed(found[0], shared_aims), signed(found[1], shared_aims)


def negatives(items: list[Item]) -> set[Around]:
    """Where what is negated leads to."""
    return {item.aim for item in items if item.aim and negates(item)}


def negates(item: Item) -> bool:
    return item.call.kind == "function" and short_name(item.call) in NEGATIONS


def signed(items: list[Item], aims: Set[Around]) -> list[Item]:
    """The items with the signs of those that lead where both sides negate something: the halves of a rotation."""
    if not aims and not any(item.sign for item in items):
        return items
    taken = {
        tensor.number for item in items if item.aim in aims and negates(item) for tensor in item.call.inputs.values()
    }
    found = []
    for item in items:
        sign: Sign = ""
        if item.aim in aims and item.call.kind == "function":
            sign = "negative" if negates(item) else "" if taken.isdisjoint(numbers(item)) else "negated"
        found.append(item if item.sign == sign else msgspec.structs.replace(item, sign=sign))
    return found


def known(labels: Labels) -> set[Hashable]:
    """What of one side is known if it is on the other as well."""
    count = Counter(labels)
    return {each for each in count if each is not None and (each not in ACTIVATIONS or count[each] == 1)}


def label(item: Item, side: Side, bound: Set[object]) -> Hashable:
    if item.is_shell:
        return None
    if item.role and item.role != "x":
        return item.role
    if (name := named(item)) in bound:
        return name
    does = activation(item, side)
    return does or None


def activation(item: Item, side: Side) -> str:
    """The activation that a function is, or the only function inside of a module."""
    index, call = item.place.at, item.call
    if call.kind == "module":
        inside = list(siblings(side.stops, index + 1, side.stops[index]))
        if len(inside) != 1:
            return ""
        call = side.calls[inside[0]]
    name = short_name(call)
    return name if call.kind == "function" and name in ACTIVATIONS else ""


def origins(items: list[Item], side: Side, labels: Labels, start: Mapping[int | None, Around]) -> list[Around]:
    """Of what each item is made, if it is not known itself."""
    reached = dict(start)
    found: list[Around] = []
    for item, its in zip(items, labels, strict=True):
        if item.is_shell:
            found.append(NONE)
            continue
        origin = union(reached, item.call)
        found.append(origin if its is None else NONE)
        its = its or side.layer(item.place.at) or None
        after: Around = origin if its is None else frozenset({its})
        for number in numbers(item):
            reached[number] = after
    return found


def aims(items: list[Item], side: Side, labels: Labels) -> list[Around]:
    """What is made of each item, if it is not known itself; no farther than to the next layer."""
    reached: dict[int | None, Around] = {}
    found: list[Around] = []
    for item, its in zip(reversed(items), reversed(labels), strict=True):
        aim: Around = NONE if its is None else frozenset({its})
        if its is None and not item.is_shell:
            for number in numbers(item):
                aim |= reached.get(number, NONE)
        found.append(aim if its is None and item.tensor is not None else NONE)
        is_end = item.is_shell or (its is None and bool(side.layer(item.place.at)))
        for tensor in item.call.inputs.values() if aim and not is_end else ():
            reached[tensor.number] = few(reached.get(tensor.number, NONE) | aim)
    return found[::-1]


def stands(item: Item, origin: Around, aim: Around) -> Item:
    if item.origin == origin and item.aim == aim:
        return item
    return msgspec.structs.replace(item, origin=origin, aim=aim)


def union(reached: Mapping[int | None, Around], call: Call) -> Around:
    found = NONE
    for tensor in call.inputs.values():
        if tensor.number is not None and tensor.number in reached:
            found |= reached[tensor.number]
    return few(found)


def few(found: Around) -> Around:
    return found if len(found) <= MOST else NONE


def numbers(item: Item) -> list[int]:
    tensors = [item.tensor] if item.tensor is not None else item.call.outputs.values()
    return [tensor.number for tensor in tensors if tensor.number is not None]
