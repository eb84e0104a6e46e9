"""Which differences nothing comes of: what is made of them is the same again.

One implementation scales q and another the scores, one splits heads of q first and another those of k: steps that
differ, and after which both go on with the same. Where the models part is the first difference that something comes of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..passes.nesting import ends, forward_of
from ..records import Record
from ..schema import Trace

__all__ = ["without_effect"]


def without_effect(trace: Trace, results: Sequence[Record], same: Collection[int]) -> set[int]:
    """Of the results of calls, by number, those of which only what is the same is made.

    results   of the trace, in the order in which calls ended
    same      the numbers of those that are the same on the other side
    """
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
        if all(made in same or made in vain for at in later for made in given.get(at, ())):
            vain.add(a)
    for at, made in given.items():
        if calls[at].kind == "module" and all(a in same for a in made):
            vain.update(a for inner in range(at + 1, stops[at]) for a in given.get(inner, ()))
    return vain
