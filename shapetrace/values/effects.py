"""Which differences nothing comes of: what is made of them is the same again.

One implementation scales q and another the scores, one splits heads of q first and another those of k: steps that
differ, and after which both go on with the same. Where the models part is the first difference that something comes of:
what is within the tolerance only because small weights damp it is not the same for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..passes.nesting import ends, forward_of
from ..records import Record
from ..schema import Trace

__all__ = ["without_effect"]


ROUNDING = 8.0
"""What is computed alike differs by some units of rounding; a difference that is damped, by tens or thousands."""

WORSE = 4.0
"""So many times what it is elsewhere, rounding has got worse: there is more to it."""


def without_effect(trace: Trace, results: Sequence[Record], same: Mapping[int, float]) -> set[int]:
    """Of the results of calls, by number, those of which only what is the same is made, as close as before them.

    results   of the trace, in the order in which calls ended
    same      those that are the same on the other side, by their numbers, and of each its `rounding`
    """
    allowed = closeness(len(results), same)
    calls, stops = trace.calls, ends(trace.calls)
    index = {id(call): number for number, call in enumerate(calls)}
    given: dict[int, list[int]] = {}
    for a, record in enumerate(results):
        given.setdefault(index[id(record.call)], []).append(a)
    root = forward_of(calls)
    final = {tensor.number for tensor in calls[root].outputs.values()} if root is not None else set()
    takers: dict[int | None, list[int]] = {}
    for at, call in enumerate(calls):
        if stops[at] == at + 1:  # the others only hand it on to what runs inside of them
            for number in {tensor.number for tensor in call.inputs.values()}:
                takers.setdefault(number, []).append(at)
    vain: set[int] = set()
    for a in reversed(range(len(results))):
        number, end = results[a].tensor.number, stops[index[id(results[a].call)]]
        later = [at for at in takers.get(number, ()) if at >= end]
        if number is None or number in final or not later:
            continue
        if all(is_close(made, allowed[a], same) or made in vain for at in later for made in given.get(at, ())):
            vain.add(a)
    for at, made in given.items():
        inside = [a for inner in range(at + 1, stops[at]) for a in given.get(inner, ())]
        if calls[at].kind == "module" and inside and all(is_close(a, allowed[min(inside)], same) for a in made):
            vain.update(inside)
    return vain


def closeness(count: int, same: Mapping[int, float]) -> list[float]:
    """Of each result how far apart what is made of it may be: not much farther than what was made before it."""
    found: list[float] = []
    worst = 0.0
    for a in range(count):
        found.append(max(ROUNDING, WORSE * worst))
        worst = max(worst, same.get(a, 0.0))
    return found


def is_close(a: int, allowed: float, same: Mapping[int, float]) -> bool:
    return a in same and same[a] <= allowed
