"""Whether hooks that the user has put on a model move dims of what it computes: a run without them is then another."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..schema import Call, TensorMeta
from .roles.functions import ACTIVATIONS, CASTS, DROPOUTS, QUOTIENTS, SUMS, TIMES, short_name

__all__ = ["moves_dims"]

ELEMENTWISE = SUMS | TIMES | QUOTIENTS | ACTIVATIONS | CASTS | DROPOUTS | {"clone", "detach", "clamp"}


def moves_dims(calls: Sequence[Call], lines: Collection[tuple[str, int]]) -> bool:
    """Whether something is made in `lines`, those of the hooks, that goes on from there, and not element by element."""
    moved = set[int | None]()
    for call in calls:
        if call.source in lines and ((before := kept(call)) is None or before.number in moved):
            moved |= {tensor.number for tensor in call.outputs.values()} - {None}
    return any(
        tensor.number in moved
        for call in calls
        if call.source not in lines
        for tensor in (*call.inputs.values(), *call.outputs.values())
    )


def kept(call: Call) -> TensorMeta | None:
    """What goes into a call and comes out with each dim where it was; None if it is not such a call."""
    result = next(iter(call.outputs.values()), None)
    if result is None or short_name(call) not in ELEMENTWISE:
        return None
    return next((tensor for tensor in call.inputs.values() if tensor.shape == result.shape), None)
