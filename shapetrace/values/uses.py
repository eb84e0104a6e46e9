"""What a model does with each of its inputs: token ids are what embeddings are made of, a mask is part of scores."""

from __future__ import annotations

import msgspec

from ..passes.nesting import ends, forward_of
from ..schema import Trace

__all__ = ["Use", "uses"]


MASKED = frozenset({"scores"})
"""What becomes of a mask, and of ids from which one is made."""


class Use(msgspec.Struct, frozen=True):
    """What becomes of an input.

    axes    of it
    roles   of the first tensors that have one and are made of it; none if nothing is
    """

    axes: tuple[str | int, ...] = ()
    roles: frozenset[str] = frozenset()


def uses(trace: Trace) -> dict[str, Use]:
    """By the keys under which the model is given its inputs."""
    calls, stops = trace.calls, ends(trace.calls)
    root = forward_of(calls)
    if root is None:
        return {}
    roles = {tensor.number: tensor.role for call in calls for tensor in call.outputs.values() if tensor.role}
    found: dict[str, set[str]] = {key: set() for key in calls[root].inputs}
    made: dict[int | None, set[str]] = {}
    for key, tensor in calls[root].inputs.items():
        made.setdefault(tensor.number, set()).add(key)
    for at, call in enumerate(calls):
        if stops[at] > at + 1:  # what runs inside tells more
            continue
        keys = set().union(*(made.get(tensor.number, ()) for tensor in call.inputs.values()))
        for tensor in call.outputs.values() if keys else ():
            role = roles.get(tensor.number)
            if role is None:
                made.setdefault(tensor.number, set()).update(keys)
            for key in keys if role is not None else ():
                found[key].add(role or "")
    return {
        key: Use(tensor.axes or (), frozenset(found[key] - MASKED or found[key]))
        for key, tensor in calls[root].inputs.items()
    }
