"""A slice that goes on past the end of its dim, which Python cuts short and says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...schema import TensorMeta
from ..expressions import plain_name
from .fault import Fault, Given

__all__ = ["cut", "past_the_end"]

STEP = frozenset("eq ne lt le gt ge to float bool int long __eq__ __ne__ __invert__ bitwise_not logical_not".split())
"""What leaves the shape of its tensor as it is."""

SLICE = re.compile(r"(\d*):(\d*)")


def cut(fault: Fault, given: Given) -> str:
    """What `given` was meant to be a longer slice of, and how long that is; "" if it was not cut."""
    tensor = given.tensor
    for _ in range(4):
        index = fault.maker(tensor)
        if index is None:
            return ""
        call = fault.trace.calls[index]
        whole = next(iter(call.inputs.values()), None)
        if whole is None:
            return ""
        if plain_name(call) == "__getitem__":
            return next(past_the_end(whole, call.literals.get("1", ""), of(fault, whole)), "")
        if plain_name(call) not in STEP:
            return ""
        tensor = whole
    return ""


def of(fault: Fault, whole: TensorMeta) -> str:
    if whole.name is not None:
        return whole.name
    index = fault.maker(whole)
    variable = None if index is None else next(iter(fault.trace.calls[index].variables.values()), None)
    return variable or ("it" if index is None else fault.codes[index])


def past_the_end(whole: TensorMeta, index: str, name: str) -> Iterator[str]:
    """Of each slice in `index` that ends past its dim: "pos [1, 4, 16] has 4 in dim 1, and 0:6 goes on past it"."""
    parts = [part.strip() for part in index.strip("()").split(",") if part.strip()]
    if "..." in parts or "None" in parts or len(parts) > len(whole.shape):
        return
    for dim, part in enumerate(parts):
        found = SLICE.fullmatch(part)
        if found is None or not found[2] or len(found[2]) > 18:
            continue
        if int(found[2]) > whole.shape[dim]:
            yield (
                f"{Given(name, whole)} has {Given(name, whole).dim(dim)} in dim {dim}, and {part} goes on past it: "
                f"make it at least {int(found[2])} long, or give less"
            )
