"""A dim that is not there, or that is named twice."""

from __future__ import annotations

from .fault import Fault
from .unpacking import squeezed

__all__ = ["out_of_range", "permuted", "transposed"]

OUT = r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)"


def out_of_range(fault: Fault) -> str | None:
    found, x = fault.numbers(OUT), fault.tensor("0", "input", "0[0]", "tensors[0]")
    if found is None or x is None:
        return None
    low, high, got = found
    count = len(x.shape)
    if high not in (count - 1, count):
        return None
    said = f"{fault.name} was asked for dim {got}, and {x} has {count} dims"
    if high == count:
        return f"{said}: a new one can stand at {low} to {high}"
    last = f"; the last, -1, is {x.dim(-1)}" if count else ""
    return f"{said}, {low} to {high}{last}{squeezed(fault, x)}"


def permuted(fault: Fault) -> str | None:
    x, dims = fault.tensor("0"), fault.ints(1, "dims")
    if fault.name != "permute" or x is None or not dims:
        return None
    count = len(x.shape)
    if len(dims) != count:
        return f"permute takes each dim once: {len(dims)} were given, and {x} has {count}"
    seen = [dim % count for dim in dims if -count <= dim < count]
    twice = next((dim for dim in seen if seen.count(dim) > 1), None)
    if len(seen) < count or twice is None:
        return None
    lost = next(dim for dim in range(count) if dim not in seen)
    return (
        f"permute({', '.join(map(str, dims))}) takes dim {twice}, {x.dim(twice)}, twice, "
        f"and dim {lost}, {x.dim(lost)}, of {x} not at all"
    )


def transposed(fault: Fault) -> str | None:
    x = fault.tensor("0")
    if fault.name != "t" or x is None or len(x.shape) < 3:
        return None
    return f"t() is for at most 2 dims, and {x} has {len(x.shape)}: transpose(-2, -1) turns the last two"
