"""Whether tensors that a model is given meet: something made of the one is multiplied with, or put beside, what is made
of another. Lengths of theirs that are equal may be so by chance."""

from __future__ import annotations

from ..schema import Call, TensorMeta, Trace
from .nesting import forward_of
from .roles.functions import FUSED, JOINS, PRODUCTS, short_name

__all__ = ["meet"]

MEETING = PRODUCTS | FUSED | JOINS

Sources = frozenset[int | None]
"""The memory of what a tensor is made of, among what the model is given."""

RANK_OF_SEQUENCES = 3
"""What has fewer dims are sequences only where weights of attention have no more; else rows of two batches."""


def meet(trace: Trace) -> bool:
    """Of what the model is given each side has something that the other has not: a mask that the weights are made of
    besides is no other length."""
    forward = forward_of(trace.calls)
    given = () if forward is None else trace.calls[forward].inputs.values()
    made: dict[int | None, Sources] = {memory(tensor): frozenset({memory(tensor)}) for tensor in given}
    if len(made) < 2:
        return False
    least = min([RANK_OF_SEQUENCES, *(len(tensor.shape) for tensor in weights_of(trace))])
    for index, call in enumerate(trace.calls):
        if index == forward or is_opened(trace.calls, index):
            continue
        sides = [made.get(memory(tensor), frozenset()) for tensor in call.inputs.values()]
        whole = frozenset[int | None]().union(*sides)
        is_meeting = len(whole) > 1 and short_name(call) in MEETING and is_of_rank(call, least)
        if is_meeting and any(one - other and other - one for one in sides for other in sides):
            return True
        for tensor in (*call.outputs.values(), *(t for t in call.inputs.values() if t.number in call.written)):
            made[memory(tensor)] = made.get(memory(tensor), frozenset()) | whole
    return False


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
