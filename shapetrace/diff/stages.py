"""Which of several stages of a tensor has its role, so that like stages are paired: one model names an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ..passes.nesting import siblings
from ..passes.roles.functions import CASTS, SOFTMAX, short_name
from ..schema import Call

if TYPE_CHECKING:
    from .items import Item

__all__ = ["PASSING", "made_inside", "staged"]


def staged(items: list[Item]) -> list[Item]:
    return last_scores(handed_back(items))


PASSING = frozenset("Dropout Identity dropout type to float contiguous".split())
"""What mostly gives what it was given: where it does, its role is of what made that."""


def made_inside(calls: Sequence[Call], stops: Sequence[int]) -> list[Call]:
    """The calls with the roles of what blocks give on the steps right inside that made it: one model assigns the sum
    that it returns, another does not, `return x + f(x)`. What counts as one step keeps its role."""
    found = list(calls)
    for at, call in enumerate(calls):
        given = {key: tensor for key, tensor in call.outputs.items() if tensor.role and tensor.number is not None}
        if call.kind != "module" or not given:
            continue
        inside = list(siblings(stops, at + 1, stops[at]))
        if len(given) < 2 and all(calls[child].kind != "module" for child in inside):
            continue
        for key, tensor in given.items():
            places = [
                (child, of)
                for child in inside
                for of, its in calls[child].outputs.items()
                if its.number == tensor.number
            ]
            if places and calls[places[0][0]].kind == "function":
                child, of = places[0]
                found[child] = bearing(found[child], of, found[child].outputs[of].role or tensor.role)
                found[at] = bearing(found[at], key, None)
    return found


def bearing(call: Call, key: str, role: str | None) -> Call:
    tensor = msgspec.structs.replace(call.outputs[key], role=role)
    return msgspec.structs.replace(call, outputs={**call.outputs, key: tensor})


def handed_back(items: list[Item]) -> list[Item]:
    """The items with the role of what only gives what it was given on the step that made that."""
    if not any(item.role and item.call.name in PASSING for item in items):
        return items
    found = list(items)
    places = {item.tensor.number: place for place, item in reversed([*enumerate(items)]) if item.tensor is not None}
    for place in range(len(found) - 1, 0, -1):
        item = found[place]
        if not item.role or item.tensor is None or item.call.name not in PASSING:
            continue
        number = item.tensor.number
        maker = place - 1 if number is None else places[number]
        before = found[maker]
        is_same = before.tensor is not None and before.tensor.shape == item.tensor.shape
        if maker < place and is_same and not before.role:
            found[maker] = msgspec.structs.replace(before, role=item.role)
            found[place] = msgspec.structs.replace(item, role="")
    return found


def last_scores(items: list[Item]) -> list[Item]:
    """The items with the role of scores on those that softmax is given: what has a name may be an earlier stage."""
    if not any(item.role == "scores" for item in items):
        return items
    found = list(items)
    makers = makers_of(items)

    def maker(number: int | None, place: int) -> int | None:
        return max((made for made in makers.get(number, ()) if made < place), default=None)

    for at, softmax in enumerate(items):
        if short_name(softmax.call) not in SOFTMAX:
            continue
        last = next((maker(tensor.number, at) for tensor in softmax.call.inputs.values()), None)
        while last is not None and is_cast(found[last]):
            last = next((maker(tensor.number, last) for tensor in found[last].call.inputs.values()), None)
        named = last
        while named is not None and not found[named].role and found[named].call.kind == "function":
            before = named
            given = (maker(tensor.number, before) for tensor in found[before].call.inputs.values())
            named = next((made for made in given if made is not None and is_alike(found[made], found[before])), None)
        if named is not None and last is not None and named != last and found[named].role == "scores":
            found[last] = msgspec.structs.replace(found[last], role="scores")
            found[named] = msgspec.structs.replace(found[named], role="")
    return found


def makers_of(items: Sequence[Item]) -> dict[int | None, list[int]]:
    """Number of a tensor -> the places of what made it or wrote to it. A cast that gives what it was given, as `float`
    of what is float32, did neither."""
    found: dict[int | None, list[int]] = {}
    for place, item in enumerate(items):
        number = None if item.tensor is None else item.tensor.number
        if number is not None and (number not in found or number in item.call.written):
            found.setdefault(number, []).append(place)
    return found


def is_cast(item: Item) -> bool:
    """Whether it is no more than a form in between, without a name."""
    return short_name(item.call) in CASTS and not item.name and not item.role


def is_alike(one: Item, other: Item) -> bool:
    return one.tensor is not None and other.tensor is not None and one.tensor.shape == other.tensor.shape
