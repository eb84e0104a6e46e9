"""Between what a step stands: the nearest tensors that both sides know, of which it is made and which are made of it.

Known is what has a role, what a module gives that is called the same on both sides, and what an activation gives that
is there once; of any other layer its kind is known, and of what the module around is given no more than that it is.
Where tensors have no numbers, as in a portable trace, nothing is told of any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set

import msgspec

from ..passes.nesting import siblings
from ..passes.roles.functions import ACTIVATIONS, short_name
from ..schema import Call
from .items import NONE, Around, Item, Side
from .matching import named

__all__ = ["known", "placed"]

MOST = 16
"""Of what stands between more than so many nothing is told."""


def known(items: Sequence[Item], side: Side, bound: Set[object]) -> set[Hashable]:
    """What of one side is known if it is on the other as well."""
    found = [label(item, side, bound) for item in items]
    once = Counter(found)
    return {each for each in once if each is not None and (each not in ACTIVATIONS or once[each] == 1)}


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


def placed(items: list[Item], side: Side, labels: Set[Hashable], bound: Set[object], around: Call | None) -> list[Item]:
    """The items with what they come from and what they aim at; no farther than to the next layer.

    around   the module in which they are
    """
    given = () if around is None else (tensor for tensor in around.inputs.values() if tensor.name is None)
    origins: dict[int | None, Around] = {
        tensor.number: frozenset({tensor.role if tensor.role in labels else "given"}) for tensor in given
    }
    own = [label(item, side, bound) for item in items]
    own = [each if each in labels else None for each in own]
    found: list[Item] = []
    for item, its in zip(items, own, strict=True):
        if item.is_shell:
            found.append(item)
            continue
        origin = union(origins, item.call)
        found.append(msgspec.structs.replace(item, origin=NONE if its is not None else origin, aim=NONE))
        its = its or side.layer(item.place.at) or None
        reached: Around = frozenset({its}) if its is not None else origin
        for number in numbers(item):
            origins[number] = reached
    aims: dict[int | None, Around] = {}
    for place in range(len(items) - 1, -1, -1):
        item, its = items[place], own[place]
        if item.is_shell:
            continue
        aim: Around = frozenset({its}) if its is not None else NONE
        if its is None:
            for number in numbers(item):
                aim |= aims.get(number, NONE)
            if aim and item.tensor is not None:
                found[place] = msgspec.structs.replace(found[place], aim=aim)
        is_end = its is None and bool(side.layer(item.place.at))
        for tensor in item.call.inputs.values() if aim and not is_end else ():
            aims[tensor.number] = few(aims.get(tensor.number, NONE) | aim)
    return found


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
