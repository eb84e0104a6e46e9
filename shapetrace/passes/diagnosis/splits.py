"""Where a tensor has its heads, as the record says: where a projected width was split, and how it moved from there."""

from __future__ import annotations

import re

from ...schema import Call, TensorMeta
from ..expressions import plain_name
from .fault import Fault

__all__ = ["heads_of"]

SPLITS = frozenset("view reshape unflatten".split())
PROJECTIONS = frozenset("linear addmm matmul __matmul__".split())
PRODUCTS = frozenset("matmul __matmul__".split())
SAME_DIMS = frozenset("expand repeat_interleave cat narrow index_select split chunk".split())
"""Functions that change sizes, and leave each dim where it is."""

MOST_STEPS = 40
"""Back from a tensor, and at most so many to its split."""


def heads_of(fault: Fault, tensor: TensorMeta, steps: int = MOST_STEPS) -> int | None:
    """The dim of its heads; None if the record does not say that it has any, or loses sight of them."""
    made = maker(fault, tensor)
    if made is None or not steps:
        return None
    call, before = made
    if is_split(fault, call, before, tensor):
        return len(tensor.shape) - 2
    dim = heads_of(fault, before, steps - 1)
    return None if dim is None else moved(call, before, tensor, dim)


def maker(fault: Fault, tensor: TensorMeta) -> tuple[Call, TensorMeta] | None:
    """The call that gave a tensor, and what it made it of."""
    index = fault.maker(tensor)
    if index is None:
        return None
    call = fault.trace.calls[index]
    given = list(call.inputs.values())
    if call.kind == "module":
        given = [each for each in given if each.shape == tensor.shape]
    return (call, given[0]) if given else None


def is_split(fault: Fault, call: Call, before: TensorMeta, after: TensorMeta) -> bool:
    """Whether a projected width, the last dim, becomes heads and their width, or parts of such."""
    lead = len(before.shape) - 1
    is_longer = len(after.shape) > len(before.shape) > 2 and after.shape[:lead] == before.shape[:lead]
    return plain_name(call) in SPLITS and is_longer and is_projected(fault, before)


def is_projected(fault: Fault, tensor: TensorMeta) -> bool:
    """Whether a tensor is what a projection gave, or a part of it, or that normed."""
    for _ in range(4):
        call = innermost(fault, tensor)
        if call is None or plain_name(call) in PROJECTIONS:
            return call is not None
        tensor = next(iter(call.inputs.values()))
    return False


def innermost(fault: Fault, tensor: TensorMeta) -> Call | None:
    """Of the calls that gave a tensor, a module and a function inside of it, the last."""
    for call in reversed(fault.trace.calls[: fault.index]):
        if call.inputs and tensor.number in {each.number for each in call.outputs.values()} - {None}:
            return call
    return None


def moved(call: Call, before: TensorMeta, after: TensorMeta, dim: int) -> int | None:
    """Where a call put a dim of what it was given; None if that is not known."""
    name, count = plain_name(call), len(before.shape)
    if name in ("transpose", "swapaxes", "swapdims", "mT", "T", "permute"):
        order = turned(call, name, count)
        return None if order is None else order.index(dim)
    if name in ("unbind", "select"):
        at = int(call.literals.get("1", call.literals.get("dim", "0"))) % count
        return None if at == dim else dim - (at < dim)
    if name == "__getitem__":
        return picked(call.literals["1"], dim) if "1" in call.literals else None
    if len(after.shape) != count or name == "einsum" or (name in PRODUCTS and dim >= count - 2):
        return None
    keeps = name in SAME_DIMS or name in PRODUCTS or after.shape == before.shape
    return dim if keeps else None


def turned(call: Call, name: str, count: int) -> list[int] | None:
    """Which dim stands where after a call that turns them."""
    order = list(range(count))
    if name == "T":
        return order[::-1]
    dims = [-2, -1] if name == "mT" else numbers(call)
    if name == "permute":
        return [dim % count for dim in dims] if sorted(dim % count for dim in dims) == order else None
    if len(dims) != 2:
        return None
    one, other = (dim % count for dim in dims)
    order[one], order[other] = order[other], order[one]
    return order


def numbers(call: Call) -> list[int]:
    """The whole numbers that a call was given, one by one or in a sequence."""
    return [int(number) for text in call.literals.values() for number in re.findall(r"-?\b\d{1,9}\b", text)]


def picked(index: str, dim: int) -> int | None:
    """Where a dim is after an index of numbers and slices."""
    parts = [part.strip() for part in index.strip("()").split(",") if part.strip()]
    if not all(re.fullmatch(r"-?\d+|[-\d]*:[-\d:]*", part) for part in parts):
        return None
    if dim < len(parts) and ":" not in parts[dim]:
        return None
    return dim - sum(":" not in part for part in parts[:dim])
