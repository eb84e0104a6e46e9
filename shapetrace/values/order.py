"""What is told of all that diverges, and in which order: the same whichever side comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..diff.divergence import Divergence
from ..records import Record

__all__ = ["Pair", "in_order", "named", "once"]

Pair = tuple[int, int]
"""Of results: their numbers before and after, counted in the order in which calls end."""

Place = tuple[str, int | None]
"""The path at which a tensor stands, and its number."""


def in_order(found: Mapping[Pair, Divergence]) -> list[Pair]:
    """The pairs, of two the one that is earlier on both sides first.

    Of those before which there is none, the sides may have one earlier, and one later: k and v of which each is the
    other. A tensor in another role is first of these, for that it stands elsewhere is why.
    """
    if not found:
        return []
    ranks = ranked(a for a, _ in found), ranked(b for _, b in found)

    def late(pair: Pair) -> tuple[int, int, list[tuple[str, str]]]:
        places = ranks[0][pair[0]], ranks[1][pair[1]]
        names = sorted((record.path, record.name) for record in (found[pair].before, found[pair].after))
        return max(places), min(places), names

    first = min(earliest(found), key=lambda pair: (not has_other_role(found[pair]), late(pair)))
    return [first, *(pair for pair in sorted(found, key=late) if pair != first)]


def ranked(numbers: Iterable[int]) -> dict[int, int]:
    return {number: rank for rank, number in enumerate(sorted(set(numbers)))}


def earliest(pairs: Iterable[Pair]) -> list[Pair]:
    """Those before which there is no other on both sides."""
    found: list[Pair] = []
    for pair in sorted(pairs):
        if not found or pair[1] < found[-1][1]:
            found.append(pair)
    return found


def has_other_role(each: Divergence) -> bool:
    return bool(each.before.role and each.after.role) and each.before.role != each.after.role


def once(found: Mapping[Pair, Divergence]) -> dict[Pair, Divergence]:
    """Each tensor once, where it was first: under the first name that comes with a role, or else under the first name.

    What a module gives is what a function in it made, and the module around it gives that again.
    """
    same: dict[object, list[Pair]] = {}
    for pair in sorted(found):
        each = found[pair]
        key = (each.before.tensor.number, each.after.tensor.number, each.apart)
        same.setdefault(pair if None in key else key, []).append(pair)
    return {alike[0]: found[max(alike, key=lambda pair: has_name(found[pair]))] for alike in same.values()}


def has_name(each: Divergence) -> tuple[int, int]:
    """On how many sides it has a role, and a name."""
    both = each.before, each.after
    return sum(bool(record.role) for record in both), sum(bool(record.name) for record in both)


def named(found: list[Divergence]) -> list[Divergence]:
    """Without the steps that have no name on either side and lead to a tensor that has one: `k.view(…)` on the way to
    k. What a module is given is another tensor than what it gives."""
    told: tuple[set[Place], set[Place]] = set(), set()
    kept: list[Divergence] = []
    for each in reversed(found):
        both = each.before, each.after
        is_step = all(record.call.kind == "function" and not is_known(record) for record in both)
        is_told = is_step and any(place_of(record) in known for record, known in zip(both, told, strict=True))
        for record, known in zip(both, told, strict=True):
            if is_told or (is_known(record) and record.call.kind == "function"):
                known.update((record.path, tensor.number) for tensor in record.call.inputs.values())
        if not is_told:
            kept.append(each)
    return kept[::-1]


def place_of(record: Record) -> Place:
    return record.path, record.tensor.number


def is_known(record: Record) -> bool:
    return bool(record.name or record.role)
