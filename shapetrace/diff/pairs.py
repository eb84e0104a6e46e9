"""Which tensor of one trace is which tensor of another."""

from __future__ import annotations

from collections.abc import Iterator

from ..records import Record, changed, records_and_writes
from ..schema import TensorMeta, Trace
from .items import Item, Part, Place, Side
from .keys import keyed
from .matching import Match
from .pairing import Pairing
from .tensors import arguments, is_first, results

__all__ = ["pairs"]

Places = tuple[Place | None, Place | None]


def pairs(before: Trace, after: Trace) -> Iterator[tuple[Record | None, Record | None]]:
    """Each record of both traces with the one that corresponds to it, in the order of both; None where none does.

    With what a function changed and does not give: `x[0] = y` on either side, and the x of both after it.
    """
    pairing = Pairing(before, after)
    ours, theirs = by_place(before), by_place(after)
    for place, other in places(pairing):
        yield None if place is None else ours[place], None if other is None else theirs[other]


def by_place(trace: Trace) -> dict[Place, Record]:
    index = {id(call): number for number, call in enumerate(trace.calls)}
    found: dict[Place, Record] = {}
    for record in records_and_writes(trace):
        found[Place(index[id(record.call)], part_of(record), record.key)] = record
    return found


def part_of(record: Record) -> Part:
    if record.is_changed:
        return "changed"
    return "inputs" if record.is_input else "outputs" if record.materialised else "unmade"


def places(pairing: Pairing) -> Iterator[Places]:
    stack: list[Iterator[Match | Places]] = [iter(pairing.matches())]
    while stack:
        each = next(stack[-1], None)
        if each is None:
            stack.pop()
        elif isinstance(each, Match):
            stack.append(inside(each, pairing.before, pairing.after))
        else:
            yield each


def inside(match: Match, before: Side, after: Side) -> Iterator[Match | Places]:
    """What a match pairs itself, and those in it."""
    one, other = match.before, match.after
    if one is None or other is None:
        yield from () if one is None else ((place, None) for place in whole(one, before))
        yield from () if other is None else ((None, place) for place in whole(other, after))
        return
    (a, part, _), (b, there, _) = one.place, other.place
    if part != "call" and there != "call":
        yield one.place, other.place
        yield from at(a, b, "changed", keyed(changes(one), changes(other)))
        return
    if part == there == "call":
        yield from at(a, b, "inputs", arguments(one, other))
        yield from match.inside
        yield from at(a, b, "outputs", results(one, other, before, after))
        yield from at(a, b, "changed", keyed(changes(one), changes(other)))
        return
    main = before.main(one), after.main(other)
    yield main
    yield from ((place, None) for place in whole(one, before) if place != main[0])
    yield from ((None, place) for place in whole(other, after) if place != main[1])


def whole(item: Item, side: Side) -> Iterator[Place]:
    """All that an item stands for."""
    yield from side.places(item)
    if item.place.part != "call" or item.is_shell:
        yield from (Place(item.place.at, "changed", key) for key in changes(item))
        return
    for inner in range(item.place.at, side.stops[item.place.at]):
        yield from (Place(inner, "changed", key) for key in changed(side.calls[inner]))


def changes(item: Item) -> dict[str, TensorMeta]:
    """What a function changed and does not give, told with the first that it gives."""
    return {key: item.call.inputs[key] for key in changed(item.call)} if is_first(item) else {}


def at(a: int, b: int, part: Part, keys: list[tuple[str | None, str | None]]) -> Iterator[Places]:
    for key, other in keys:
        yield None if key is None else Place(a, part, key), None if other is None else Place(b, part, other)
