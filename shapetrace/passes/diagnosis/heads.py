"""Heads in a product of queries with keys, or of weights with values: grouped, or not where the other has them."""

from __future__ import annotations

from .fault import Fault, Given
from .products import pair

__all__ = ["grouped", "turned", "values"]

NO_HEADS = frozenset("BTSP")
"""Letters of a dim that holds no heads."""

ATTENTION = "scaled_dot_product_attention"


def turned(fault: Fault) -> str | None:
    """One is [B, H, T, D] and the other still [B, T, H, D], or has all four dims turned around."""
    found = pair(fault)
    if found is None or not len(found[0].shape) == len(found[1].shape) == 4:
        return None
    a, b = found
    index = fault.maker(b.tensor)
    if index is not None and fault.trace.calls[index].name == "T":
        before = next(iter(fault.trace.calls[index].inputs.values()))
        whole = b.name.removesuffix(".T")
        return f"{b.name} turns all {len(before.shape)} dims of {whole} around, to {b}: {whole}.mT turns the last two"
    key = b.shape if fault.name == ATTENTION else (*b.shape[:2], b.shape[3], b.shape[2])
    if a.shape[0] != key[0] or a.shape[3] != key[3] or a.shape[1] == key[1]:
        return None
    if a.shape[1] != key[2] and a.shape[2] != key[1]:
        return None
    return (
        f"{fault.name} runs over dim -3 of both, where the heads are to be: {a.dim(1)} in {a} met {b.dim(1)} in {b}; "
        "is a transpose(1, 2) of one of them missing?"
    )


def grouped(fault: Fault) -> str | None:
    """Fewer heads of keys and values than of queries."""
    found = pair(fault)
    if found is None or not len(found[0].shape) == len(found[1].shape) == 4:
        return None
    a, b = found
    few, many = sorted((a, b), key=lambda given: given.shape[1])
    if few.shape[1] < 2 or many.shape[1] == few.shape[1] or a.shape[0] != b.shape[0] or not_heads(a, b):
        return None
    said = f"{a.dim(1)} heads of {a} met {b.dim(1)} of {b}"
    count, left = divmod(many.shape[1], few.shape[1])
    if left:
        return f"{said}: one number must divide the other for heads to be shared"
    if fault.name == ATTENTION and few is b:
        return f"{said}: enable_gqa=True shares each with {count}, or repeat_interleave({count}, 1) of keys and values"
    return f"{said}: {few.code}.repeat_interleave({count}, 1) has {many.shape[1]}"


def not_heads(a: Given, b: Given) -> bool:
    return bool({a.axis(1), b.axis(1)} & NO_HEADS)


def values(fault: Fault) -> str | None:
    """As many values as keys."""
    k, v = fault.tensor("1", "key"), fault.tensor("2", "value")
    if fault.name != ATTENTION or k is None or v is None or min(len(k.shape), len(v.shape)) < 2:
        return None
    if k.shape[-2] == v.shape[-2]:
        return None
    return f"each key has its value: {k} has {k.dim(-2)} of them in dim -2, and {v} has {v.dim(-2)}"
