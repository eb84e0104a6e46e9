"""Heads in a product of queries with keys, or of weights with values: grouped, or not where the other has them.

Four dims need not be heads, and dim 1 need not hold them. What the record says of a split comes first; of the arguments
of a fused attention their sizes may tell, and where these go with several readings each is said with its "if".
"""

from __future__ import annotations

from .fault import Fault, Given, listed
from .products import are_grouped, may_group, pair
from .splits import heads_of

__all__ = ["fused", "grouped", "turned", "values", "whole_turned"]

ATTENTION = "scaled_dot_product_attention"

QKV = frozenset({"0", "1", "2", "query", "key", "value"})
"""Keys of its queries, keys and values."""


def whole_turned(fault: Fault) -> str | None:
    """One has all four dims turned around."""
    found = four_dims(fault)
    index = None if found is None else fault.maker(found[1].tensor)
    if found is None or index is None or fault.trace.calls[index].name != "T":
        return None
    b = found[1]
    before = next(iter(fault.trace.calls[index].inputs.values()))
    whole = b.name.removesuffix(".T")
    return f"{b.name} turns all {len(before.shape)} dims of {whole} around, to {b}: {whole}.mT turns the last two"


def four_dims(fault: Fault) -> tuple[Given, Given] | None:
    """The two that are multiplied, if they have four dims each."""
    found = pair(fault)
    return found if found is not None and len(found[0].shape) == len(found[1].shape) == 4 else None


def apart(fault: Fault) -> tuple[Given, Given] | None:
    """The two that are multiplied, if of their four dims dim 1 is not the same, where heads are to be."""
    found = four_dims(fault)
    if found is None or found[0].shape[0] != found[1].shape[0]:
        return None
    one, other = (given.shape[1] for given in found)
    return None if one == other or 1 in (one, other) or are_grouped(fault, one, other) else found


def turned(fault: Fault) -> str | None:
    """One is [B, H, T, D] and the other still [B, T, H, D], or both are so."""
    found = apart(fault)
    if found is None:
        return None
    a, b = found
    own, other = heads_of(fault, a.tensor), heads_of(fault, b.tensor)
    if own is None or other is None or own == other == 1:
        return None
    there = (
        f"dim {own} of {a.name} and of {b.name}" if own == other else f"dim {own} of {a.name}, dim {other} of {b.name}"
    )
    return f"{met(fault, a, b)}; the heads are {there}: is a transpose(1, 2) missing?"


def grouped(fault: Fault) -> str | None:
    """Fewer heads of keys and values than of queries, or the other way round."""
    found = apart(fault)
    if found is None or not heads_of(fault, found[0].tensor) == heads_of(fault, found[1].tensor) == 1:
        return None
    return shared(fault, *found)


def fused(fault: Fault) -> str | None:
    """A fused attention of tensors whose heads the record does not tell, by their sizes."""
    found = apart(fault)
    if found is None or fault.name != ATTENTION or found[0].shape[3] != found[1].shape[3] or may_group(fault):
        return None
    q, k = found
    is_one_turned = q.shape[1] == k.shape[2] or q.shape[2] == k.shape[1]
    if q.shape[1] % k.shape[1] == 0:
        if q.shape[2] != k.shape[2] and not is_one_turned:
            return shared(fault, q, k)
        count = q.shape[1] // k.shape[1]
        shares = f"if these are heads, enable_gqa=True shares each of {k.name} with {count}"
        return f"{met(fault, q, k)}; {shares}; if they are lengths, a transpose(1, 2) is missing"
    if q.shape[2] == k.shape[2]:
        names = listed(list(dict.fromkeys(given.name for key, given in fault.given.items() if key in QKV)))
        turn = f"are the heads there, and a transpose(1, 2) of {names} missing?"
        return f"{met(fault, q, k)}; dim 2 is the same in both, {q.dim(2)}: {turn}"
    return f"{met(fault, q, k)}; is a transpose(1, 2) of one of them missing?" if is_one_turned else None


def met(fault: Fault, a: Given, b: Given) -> str:
    where = f"{fault.name} runs over dim -3 of both, where the heads are to be"
    return f"{where}: {a.dim(1)} in {a} met {b.dim(1)} in {b}"


def shared(fault: Fault, a: Given, b: Given) -> str:
    """How many heads met how many, and what gives each its own."""
    few, many = sorted((a, b), key=lambda given: given.shape[1])
    said = f"{a.dim(1)} heads of {a} met {b.dim(1)} of {b}"
    count, left = divmod(many.shape[1], few.shape[1])
    if left:
        return f"{said}: one number must divide the other for heads to be shared"
    if fault.name == ATTENTION and few is b:
        return f"{said}: enable_gqa=True shares each with {count}, or repeat_interleave({count}, 1) of keys and values"
    return f"{said}: {few.code}.repeat_interleave({count}, 1) has {many.shape[1]}"


def values(fault: Fault) -> str | None:
    """As many values as keys."""
    k, v = fault.tensor("1", "key"), fault.tensor("2", "value")
    if fault.name != ATTENTION or k is None or v is None or min(len(k.shape), len(v.shape)) < 2:
        return None
    if k.shape[-2] == v.shape[-2]:
        return None
    return f"each key has its value: {k} has {k.dim(-2)} of them in dim -2, and {v} has {v.dim(-2)}"
