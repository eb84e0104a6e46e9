"""Products and distances of rows: bilinear, dot, cdist, cross, tensordot. Which axis met which."""

from __future__ import annotations

import re

from .fault import Fault, Given

__all__ = ["bilinear", "crossed", "rows", "square", "tensordot"]

ROWS = frozenset("dot vdot inner cdist".split())
"""Functions that take two tensors row by row, along the last dim."""


def rows(fault: Fault) -> str | None:
    a, b = fault.tensor("0", "input", "x1"), fault.tensor("1", "other", "tensor", "x2")
    if fault.name not in ROWS or a is None or b is None or not a.shape or not b.shape or a.shape[-1] == b.shape[-1]:
        return None
    return f"{fault.name} takes rows, the last dim: {a.dim(-1)} of {a} met {b.dim(-1)} of {b}; they must be equal"


def bilinear(fault: Fault) -> str | None:
    """`Bilinear`: two inputs, each of its own width, and all else the same."""
    a, b, weight = fault.tensor("0", "input1"), fault.tensor("1", "input2"), fault.tensor("2", "weight")
    if fault.name != "bilinear" or a is None or b is None or weight is None or len(weight.shape) != 3:
        return None
    for x, dim, which in ((a, 1, "first"), (b, 2, "second")):
        if x.shape and x.shape[-1] != weight.shape[dim]:
            return (
                f"bilinear takes {weight.dim(dim)} in the last dim of its {which} input, and {x} has {x.dim(-1)} there"
            )
    if len(a.shape) != len(b.shape):
        return f"bilinear takes inputs of as many dims: {a} has {len(a.shape)}, {b} has {len(b.shape)}"
    for dim, (one, other) in enumerate(zip(a.shape[:-1], b.shape[:-1], strict=True)):
        if one != other:
            return (
                f"bilinear takes inputs whose dims are equal but for the last: "
                f"dim {dim} is {a.dim(dim)} in {a} and {b.dim(dim)} in {b}"
            )
    return None


def crossed(fault: Fault) -> str | None:
    """The cross product is of three coordinates."""
    x, dim = fault.tensor("0", "input"), fault.whole(2, "dim", default=-1)
    if fault.name not in ("cross", "linalg_cross") or x is None or dim is None:
        return None
    if not -len(x.shape) <= dim < len(x.shape) or x.shape[dim] == 3:
        return None
    return f"a cross product is of 3 coordinates, and dim {dim} of {x} is {x.dim(dim)}"


def tensordot(fault: Fault) -> str | None:
    """The dims that are summed over, of one tensor and of the other."""
    a, b = fault.tensor("0", "a"), fault.tensor("1", "b")
    if fault.name != "tensordot" or a is None or b is None:
        return None
    for one, other in met(fault, a, b):
        if not (-len(a.shape) <= one < len(a.shape) and -len(b.shape) <= other < len(b.shape)):
            return None
        if a.shape[one] != b.shape[other]:
            return (
                f"tensordot sums over dim {one} of {a} and dim {other} of {b}: "
                f"{a.dim(one)} met {b.dim(other)}, and they must be equal"
            )
    return None


def met(fault: Fault, a: Given, b: Given) -> list[tuple[int, int]]:
    """The pairs of dims that `dims` speaks of: so many last of the one and first of the other, or two lists."""
    text = fault.call.literals.get("dims", fault.call.literals.get("2", ""))
    if text.isdecimal() and int(text) <= min(len(a.shape), len(b.shape)):
        return [(len(a.shape) - int(text) + dim, dim) for dim in range(int(text))]
    lists = [[int(part) for part in re.findall(r"-?\d+", each)] for each in re.findall(r"[\[(]([^\[\]()]*)[\])]", text)]
    return list(zip(*lists, strict=True)) if len(lists) == 2 and len(lists[0]) == len(lists[1]) else []


def square(fault: Fault) -> str | None:
    """What is done to a matrix that has as many rows as columns."""
    x = fault.tensor("0")
    if x is None or len(x.shape) < 2 or "must be batches of square matrices" not in fault.text:
        return None
    return f"{fault.name} is of square matrices, the last two dims: {x} has {x.dim(-2)} by {x.dim(-1)} there"
