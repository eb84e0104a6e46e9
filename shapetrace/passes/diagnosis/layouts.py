"""view, reshape, unflatten, expand, repeat: a shape that the elements cannot be given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

from .broadcasting import widened
from .fault import Fault, Given, listed, product

__all__ = ["crooked_view", "expanded", "invalid_shape", "overlapping", "repeated", "unflattened"]

MOST_PARTS = 10_000
"""Into how many parts a dim may be split, for a number to be looked for that would divide it."""


def crooked_view(fault: Fault) -> str | None:
    """`view` on what is not contiguous: which axes it would join, and which call made it so."""
    x, sizes = fault.tensor("0"), fault.ints(1, "size")
    if fault.name not in ("view", "view_as") or x is None or "not compatible with input tensor's" not in fault.text:
        return None
    cause = fault.cause(x)
    since = f" since {cause}" if cause else ""
    target = f"({', '.join(map(str, sizes))})" if sizes and fault.name == "view" else ""
    apart = parted(x, sizes or ())
    what = (
        f"view makes one dim of {listed(apart)}, which do not lie one after another in memory"
        if apart
        else f"{x.name} is not contiguous"
    )
    if (turn := turned_first(x, sizes or ())) is not None:
        one, other = turn
        return (
            f"{what}{since}: reshape would mix {x.dim(one)} and {x.dim(other)}; "
            f"{x.code}.transpose({one}, {other}).reshape{target} keeps them apart"
        )
    do = f"write reshape{target}" if target else "use reshape"
    return f"{what}{since}: {do}, or contiguous() before view; either copies"


def turned_first(x: Given, sizes: Sequence[int]) -> tuple[int, int] | None:
    """The two dims of `x` that are to change places, or else a reshape to `sizes` would mix them; None if it does not,
    or if not just one such turn helps."""
    whole = filled(x.shape, sizes)
    if not whole or is_apart(x.shape, whole):
        return None
    turns = [
        (one, other)
        for one, other in combinations(range(len(x.shape)), 2)
        if x.shape[one] != x.shape[other] and is_apart(swapped(x.shape, one, other), whole)
    ]
    return turns[0] if len(turns) == 1 else None


def swapped(shape: Sequence[int], one: int, other: int) -> list[int]:
    found = list(shape)
    found[one], found[other] = found[other], found[one]
    return found


def is_apart(shape: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether each dim is split, or some become one; [C, T] as [T, H, D] is neither, and mixes both."""
    rest = list(sizes)
    for dims in joined(shape, sizes):
        have, into = math.prod(shape[dim] for dim in dims), list[int]()
        while math.prod(into) < have:
            into.append(rest.pop(0))
        if min(sum(shape[dim] > 1 for dim in dims), sum(size > 1 for size in into)) > 1:
            return False
    return True


def filled(shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The sizes asked for, with that for which -1 stands; none if there are none."""
    known, count = math.prod(size for size in sizes if size != -1), math.prod(shape)
    return [count // known if size == -1 else size for size in sizes] if known and count else []


def parted(x: Given, sizes: Sequence[int]) -> list[str]:
    """The first dims of `x` that would become one dim, or several others, and do not lie so."""
    whole, stride = filled(x.shape, sizes), x.tensor.stride
    if not whole or stride is None:
        return []
    for dims in joined(x.shape, whole):
        there = [dim for dim in dims if x.shape[dim] > 1]
        steps = [(stride[dim], x.shape[dim]) for dim in there]
        if any(step != after * size for (step, _), (after, size) in pairwise(steps)):
            return [x.dim(dim) for dim in there]
    return []


def joined(shape: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Which dims of `shape` become the same dims of `sizes`, from the first on."""
    found: list[list[int]] = []
    here: list[int] = []
    have, want, rest = 1, 1, list(sizes)
    for dim, size in enumerate(shape):
        here.append(dim)
        have *= size
        while want < have and rest:
            want *= rest.pop(0)
        if have == want:
            found.append(here)
            here, have, want = [], 1, 1
    return found


def invalid_shape(fault: Fault) -> str | None:
    """A `view` or `reshape` of another number of elements: whose product it is, which axis it would break."""
    x, sizes, like = fault.tensor("0", "input"), fault.ints(1, "size", "shape"), fault.tensor("1", "other")
    sizes = list(like.shape) if fault.name in ("view_as", "reshape_as") and like is not None else sizes
    if x is None or not sizes or "is invalid for input of size" not in fault.text or math.prod(x.shape) == 0:
        return None
    count, known = math.prod(x.shape), [size for size in sizes if size != -1]
    asked = f"{fault.name}({like.name if like is not None else ', '.join(map(str, sizes))})"
    if len(known) < len(sizes):
        return (
            f"{x} has {count} elements, and {asked} wants a multiple of {product(known)}: "
            f"the sizes beside -1 must divide {count}"
        )
    old, new = unlike(x.shape, sizes)
    parts = [x.dim(dim) for dim in old]
    if len(old) == 1 and len(new) == 2 and min(new) > 0 and max(new) <= MOST_PARTS:
        size = x.shape[old[0]]
        if size % new[0] and new[1] == size // new[0]:
            return f"{parts[0]} of {x} cannot be split into {new[0]} of equal size, {left_over(size, new[0])}"
        if size % new[1] and new[0] == size // new[1]:
            return f"{parts[0]} of {x} cannot be split into parts of {new[1]}, {left_over(size, new[1])}"
    total = math.prod(x.shape[dim] for dim in old)
    if parts and new:
        old_said = f"{parts[0]}" if len(parts) == 1 else f"{'·'.join(map(x.axis, old))} = {total}"
        return f"{asked} puts {product(new)} where {x} has {old_said}: the sizes must multiply to {total} there"
    return f"{asked} asks for {product(sizes)} elements, and {x} has {count}"


def left_over(size: int, by: int) -> str:
    """What is wrong with a number of heads, and the nearest one that would do."""
    near = next((n for step in range(by) for n in (by - step, by + step) if size % n == 0), 1)
    return f"{size} // {by} leaves {size % by} over: take a number that divides {size}, such as {near}"


def unlike(shape: Sequence[int], sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The dims of `shape`, and the sizes asked for, without what is equal from the first and from the last on."""
    start = 0
    while start < min(len(shape), len(sizes)) and shape[start] == sizes[start]:
        start += 1
    end = 0
    while end < min(len(shape), len(sizes)) - start and shape[-1 - end] == sizes[-1 - end]:
        end += 1
    while (start == len(shape) - end) != (start == len(sizes) - end) and start + end > 0:  # nothing for something
        start, end = (start, end - 1) if end else (start - 1, end)
    return list(range(start, len(shape) - end)), list(sizes[start : len(sizes) - end])


def unflattened(fault: Fault) -> str | None:
    x, dim, sizes = fault.tensor("0"), fault.whole(1, "dim"), fault.ints(2, "sizes")
    if fault.name != "unflatten" or x is None or dim is None or not sizes or "multiply up" not in fault.text:
        return None
    return f"unflatten makes {product(sizes)} of {x.dim(dim)}, dim {dim} of {x}: the sizes must multiply to it"


def expanded(fault: Fault) -> str | None:
    """`expand` repeats a dim of size 1, and no other."""
    x, sizes, like = fault.tensor("0", "input"), fault.ints(1, "size"), fault.tensor("1", "other")
    sizes = list(like.shape) if fault.name == "expand_as" and like is not None else sizes
    if fault.name not in ("expand", "expand_as", "broadcast_to") or x is None or not sizes:
        return None
    if len(sizes) < len(x.shape):
        return f"{fault.name} takes a size for each dim: {len(sizes)} were given, and {x} has {len(x.shape)} dims"
    lead = len(sizes) - len(x.shape)
    for dim, size in enumerate(x.shape):
        asked = sizes[lead + dim]
        if asked not in (-1, size) and size != 1:
            said = (
                f"{fault.name} repeats dims of size 1 only: dim {dim} of {x} is {x.dim(dim)}, and cannot become {asked}"
            )
            index = widened(x, x, sizes, [str(size) for size in sizes]) if lead > 0 else ""
            if index:
                asked_for = ", ".join(map(str, sizes))
                return f"{said}, as dims line up from the last; {x.code}{index}.expand({asked_for}) lines up"
            if asked > 0 and size > 0 and asked % size == 0:
                return f"{said}; {x.code}.repeat_interleave({asked // size}, {dim}) copies, -1 leaves a dim as it is"
            return f"{said}; -1 leaves a dim as it is" if fault.name == "expand" else said
    return None


def repeated(fault: Fault) -> str | None:
    x, sizes = fault.tensor("0"), fault.ints(1, "repeats")
    if fault.name != "repeat" or x is None or not sizes or len(sizes) >= len(x.shape):
        return None
    said = f"repeat takes a number for each dim: {len(sizes)} given, and {x} has {len(x.shape)} dims"
    filled = ", ".join(map(str, [*sizes, *[1] * (len(x.shape) - len(sizes))]))
    return f"{said}; repeat({filled}) leaves the others as they are"


def overlapping(fault: Fault) -> str | None:
    """A write into what is the same memory many times."""
    x = fault.tensor("0")
    if x is None or "refers to a single memory location" not in fault.text:
        return None
    cause = fault.cause(x)
    since = f" since {cause}" if cause else ""
    return f"{fault.name} writes into {x}, whose rows are one and the same memory{since}: clone() it before"
