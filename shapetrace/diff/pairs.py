"""Which tensor of one trace is which tensor of another."""

from __future__ import annotations

from collections.abc import Iterator

from ..records import Record, records
from ..schema import Trace
from .items import Part, Place, Side
from .matching import Match
from .pairing import Pairing
from .tensors import arguments, results

__all__ = ["pairs"]

Places = tuple[Place | None, Place | None]


def pairs(before: Trace, after: Trace) -> Iterator[tuple[Record | None, Record | None]]:
    """Each record of both traces with the one that corresponds to it, in the order of both; None where none does."""
    pairing = Pairing(before, after)
    ours, theirs = by_place(before), by_place(after)
    for place, other in places(pairing):
        yield None if place is None else ours[place], None if other is None else theirs[other]


def by_place(trace: Trace) -> dict[Place, Record]:
    index = {id(call): number for number, call in enumerate(trace.calls)}
    found: dict[Place, Record] = {}
    for record in records(trace):
        part: Part = "inputs" if record.is_input else "outputs" if record.materialised else "unmade"
        found[Place(index[id(record.call)], part, record.key)] = record
    return found


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
        yield from () if one is None else ((place, None) for place in before.places(one))
        yield from () if other is None else ((None, place) for place in after.places(other))
        return
    (a, part, _), (b, there, _) = one.place, other.place
    if part != "call" and there != "call":
        yield one.place, other.place
        return
    if part == there == "call":
        yield from at(a, b, "inputs", arguments(one, other))
        yield from match.inside
        yield from at(a, b, "outputs", results(one, other, before, after))
        return
    main = before.main(one), after.main(other)
    yield main
    yield from ((place, None) for place in before.places(one) if place != main[0])
    yield from ((None, place) for place in after.places(other) if place != main[1])


def at(a: int, b: int, part: Part, keys: list[tuple[str | None, str | None]]) -> Iterator[Places]:
    for key, other in keys:
        yield None if key is None else Place(a, part, key), None if other is None else Place(b, part, other)
