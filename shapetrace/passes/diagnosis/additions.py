"""What is added to a product, or row by row."""

from __future__ import annotations

import math

from .broadcasting import clash
from .fault import Fault

__all__ = ["biased", "indexed"]


def biased(fault: Fault) -> str | None:
    """`addmm`, `baddbmm`: what is added must go with the product."""
    bias, a, b = fault.tensor("0", "input"), fault.tensor("1"), fault.tensor("2")
    if fault.name not in ("addmm", "baddbmm") or bias is None or a is None or b is None:
        return None
    if not len(a.shape) == len(b.shape) == (2 if fault.name == "addmm" else 3):
        return None
    axes = [*(a.dim(dim) for dim in range(len(a.shape) - 1)), b.dim(-1)]
    back = clash(bias.shape, (*a.shape[:-1], b.shape[-1]))
    if not back:
        return None
    return (
        f"{fault.name} adds {bias} to a product of [{', '.join(axes)}]: {bias.dim(-back)} met {axes[-back]}; "
        "they must be equal, or the first 1"
    )


def indexed(fault: Fault) -> str | None:
    """`index_add`, `index_copy`: an index for each row of what is added."""
    found = fault.numbers(r"Number of indices \((\d+)\) should be equal to source.size\(dim\)")
    dim, index, source = fault.whole(1, "dim"), fault.tensor("2", "index"), fault.tensor("3", "source")
    if found is None or dim is None or index is None or source is None or dim >= len(source.shape):
        return None
    said = f"{fault.name} has an index for each of dim {dim} of what it takes: {index}, and {source} has"
    said = f"{said} {source.dim(dim)} there"
    for stop in range(2, len(source.shape)):
        if dim == 0 and math.prod(source.shape[:stop]) == found[0]:
            return f"{said}; {source.code}.flatten(0, {stop - 1}) has {found[0]}"
    return said
