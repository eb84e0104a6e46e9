"""Whether tensors that a model is given meet: something made of the one is multiplied with, or put beside, what is made
of another. Lengths of theirs that are equal may be so by chance."""

from __future__ import annotations

import re
from itertools import combinations, product

from ..schema import Call, TensorMeta, Trace
from .nesting import forward_of
from .roles.functions import FUSED, JOINS, PRODUCTS, short_name

__all__ = ["Meeting", "meetings"]

MEETING = PRODUCTS | FUSED | JOINS

Meeting = frozenset[str]
"""The names of two arguments; of one, if tensors of it meet."""

Sources = frozenset[int | None]
"""The memory of what a tensor is made of, among what the model is given."""

RANK_OF_SEQUENCES = 3
"""What has fewer dims are sequences only where weights of attention have no more; else rows of two batches."""


def meetings(trace: Trace) -> set[Meeting]:
    """Of what the model is given which meet. Each side has something that the other has not: a mask that the weights
    are made of besides is no other length. Where something attends to another, what is given twice meets itself."""
    forward = forward_of(trace.calls)
    given = {} if forward is None else trace.calls[forward].inputs
    names: dict[int | None, list[str]] = {}
    for key, tensor in given.items():
        names.setdefault(memory(tensor), []).append(argument(key))
    made: dict[int | None, Sources] = {source: frozenset({source}) for source in names}
    least = min([RANK_OF_SEQUENCES, *(len(tensor.shape) for tensor in weights_of(trace))])
    met: set[tuple[Sources, Sources]] = set()
    for index, call in enumerate(trace.calls if len(given) > 1 else ()):
        if index == forward or is_opened(trace.calls, index):
            continue
        sides = [made.get(memory(tensor), frozenset()) for tensor in call.inputs.values()]
        whole = frozenset[int | None]().union(*sides)
        if len(whole) > 1 and short_name(call) in MEETING and is_of_rank(call, least):
            met |= set(combinations(dict.fromkeys(sides), 2))
        for tensor in (*call.outputs.values(), *(t for t in call.inputs.values() if t.number in call.written)):
            made[memory(tensor)] = made.get(memory(tensor), frozenset()) | whole
    pairs = {(a, b) for one, other in met for a in one - other for b in other - one}
    if not pairs and any(call.role == "cross-attention" for call in trace.calls):
        twice = (pair for pair in combinations(given, 2) if memory(given[pair[0]]) == memory(given[pair[1]]))
        return {frozenset(map(argument, pair)) for pair in twice}
    return {frozenset(pair) for one, other in pairs for pair in product(names[one], names[other])}


def argument(key: str) -> str:
    """The name of an argument that a tensor at `key` is in: "past" of "past[0].k"."""
    return re.split(r"[\[.]", key, maxsplit=1)[0]


def memory(tensor: TensorMeta) -> int | None:
    return tensor.number if tensor.storage is None else tensor.storage


def weights_of(trace: Trace) -> list[TensorMeta]:
    places = ((call.outputs, call.unmade) for call in trace.calls)
    return [tensor for tensors in places for place in tensors for tensor in place.values() if tensor.role == "weights"]


def is_opened(calls: tuple[Call, ...], index: int) -> bool:
    """Whether what a call does is told by the calls inside of it."""
    inside = index + 1 < len(calls) and calls[index + 1].depth > calls[index].depth
    return calls[index].kind == "module" and inside


def is_of_rank(call: Call, least: int) -> bool:
    return max(len(tensor.shape) for tensor in call.inputs.values()) >= least
