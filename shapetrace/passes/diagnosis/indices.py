"""An index that is not there: an id without a row, a position past the table, a class past the logits."""

from __future__ import annotations

import re

from .counting import count
from .fault import Fault, Given

__all__ = [
    "embedded",
    "index_mask",
    "indexed",
    "one_hot",
    "past",
    "picked",
    "put",
    "reached",
    "selected",
    "together",
    "too_many",
]

IGNORED = -100
"""The `ignore_index` of torch's losses, where nobody sets another."""

OUT = r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)"


def embedded(fault: Fault) -> str | None:
    """An id against the rows of its table; a position against how long that is."""
    ids, table = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if fault.name != "embedding" or ids is None or table is None or not ids.is_integer or len(table.shape) != 2:
        return None
    if "out of range" not in fault.text and "out of bounds" not in fault.text:
        return None
    if (said := counted(fault, ids, table, 0)) is not None:
        return said
    name, last = table.tensor.name or table.name, table.shape[0] - 1
    out = fault.outlier
    if out is None:
        return (
            f"{ids} holds a number that is no row of the table {name}, which has {table.dim(0)} of them, 0 to {last}: "
            f"look at {ids.code}.min() and {ids.code}.max()"
        )
    at = f" at [{', '.join(map(str, out.place))}]" if out.place else ""
    more = f" and {out.count - 1} more that are out of range" if out.count > 1 else ""
    said = f"{ids} holds {out.number}{at}{more}, and the rows of the table {name} are {table.dim(0)}, 0 to {last}"
    return f"{said}; {IGNORED} is what a loss ignores in its targets" if out.number == IGNORED else said


def counted(fault: Fault, index: Given, x: Given, dim: int) -> str | None:
    """Positions that go beyond what they index, dim `dim` of `x`; None if the index is no count, or ends before."""
    counting, size = count(fault, index.tensor), x.shape[dim]
    if counting is None or counting.stop <= size:
        return None
    is_table = dim == 0 and x.tensor.name is not None
    there = f"the rows of the table {x.tensor.name} are" if is_table else f"dim {dim} of {x} is"
    along = next((index.dim(at) for at, length in enumerate(index.shape) if length == counting.length), None)
    told = f"counts along {along}"
    if counting.is_known:
        told = f"counts {f'from {counting.start} ' if counting.start else ''}to {counting.stop - 1}"
    said = f"{index} {told}, and {there} {x.dim(dim)}, 0 to {size - 1}"
    table = "table" if is_table else "dim"
    if counting.length > size:
        longer = f"{along or counting.length} is longer than the {table}"
        return f"{said}: {longer}; shorten the input or make the {table} longer"
    if not counting.is_known:
        said = f"{said}; it begins at {counting.start}"
    return f"{said}: begin earlier, or make the {table} {counting.stop} long"


def indexed(fault: Fault) -> str | None:
    found, x = fault.numbers(OUT), fault.tensor("0")
    if found is None or x is None or fault.name not in ("__getitem__", "__setitem__", "gather", "scatter", "select"):
        return None
    index, dim, size = found
    if dim >= len(x.shape) or x.shape[dim] != size:
        return None
    only = fault.tensor("1") if fault.name == "__getitem__" else None
    if only is not None and dim == 0 and (said := counted(fault, only, x, 0)) is not None:
        return said
    return f"index {index} is past dim {dim} of {x}: {x.dim(dim)}, which has 0 to {size - 1}"


def too_many(fault: Fault) -> str | None:
    found, x = fault.numbers(r"too many indices for tensor of dimension (\d+)"), fault.tensor("0")
    if found is None or x is None or len(x.shape) != found[0]:
        return None
    count = fault.call.literals.get("1", "").count(",") + 1
    asked = f"{count} indices" if count > len(x.shape) else "too many indices"
    return f"{x} has {found[0]} dims, and was given {asked}"


def index_mask(fault: Fault) -> str | None:
    x, mask = fault.tensor("0"), fault.tensor("1")
    if x is None or mask is None or "shape of the mask" not in fault.text or mask.tensor.dtype != "bool":
        return None
    for dim, (size, wanted) in enumerate(zip(mask.shape, x.shape, strict=False)):
        if size != wanted:
            said = f"the mask {mask} picks from {x}, dim by dim"
            return f"{said}: dim {dim} is {mask.dim(dim)} in one, {x.dim(dim)} in the other"
    return None


def together(fault: Fault) -> str | None:
    """Several indices, of which one number each makes a place."""
    indices = fault.tensors("1")
    if "indexing tensors could not be broadcast together" not in fault.text or len(indices) < 2:
        return None
    met = " met ".join(map(str, indices))
    said = f"indices are read together, a number of each for each place, and so of one shape: {met}"
    one, other = indices[:2]
    if len(indices) > 2 or len(one.shape) != 1 or len(other.shape) != 1:
        return said
    return f"{said}; {one.code}.unsqueeze(1) as the first takes each of it with each of the other"


def put(fault: Fault) -> str | None:
    """`x[mask] = y`, where y is not of as many as the mask picks."""
    x, index, value = fault.tensor("0"), fault.tensor("1"), fault.tensor("2")
    found = re.search(
        r"value tensor of shape \[(.*)\] cannot be broadcast to indexing result of shape \[(.*)\]", fault.text
    )
    if fault.name != "__setitem__" or found is None or x is None or value is None:
        return None
    if index is None or index.tensor.dtype != "bool":
        return f"what is written to is [{found[2]}], and {value} does not broadcast to it"
    said = (
        f"{index} picks {found[2].partition(',')[0]} places of {x}, which are [{found[2]}], and {value} is to go there"
    )
    if value.shape[: len(index.shape)] == index.shape:
        return f"{said}; {value.code}[{index.name}] picks the same of it"
    return said


def selected(fault: Fault) -> str | None:
    """`gather` and its like, whose index has as many dims as what it picks from."""
    x, index, source = fault.tensor("0"), fault.tensor("2", "index"), fault.tensor("3", "src", "source")
    if fault.name == "take_along_dim":
        index = fault.tensor("1", "indices")
    elif not fault.name.startswith(("gather", "scatter", "index_")):
        return None
    if x is None or index is None or "ame number of dimensions" not in fault.text:
        return None
    what = "picks from" if source is None else "puts in"
    x = x if source is None or len(x.shape) != len(index.shape) else source
    if len(x.shape) == len(index.shape):
        return None
    said = (
        f"{fault.name} wants an index of as many dims as what it {what}: {x} has {len(x.shape)}, "
        f"{index} has {len(index.shape)}"
    )
    count, dim = len(index.shape), fault.whole(2 if fault.name == "take_along_dim" else 1, "dim")
    if dim == count and count + 1 == len(x.shape):
        return f"{said}; {index.code}.unsqueeze(-1) has one more"
    if fault.name == "gather" and dim == count and index.shape == x.shape[:dim]:
        ranges = ", ".join(f"torch.arange({size})" for size in index.shape)
        return f"{said}; {x.code}[{ranges}, {index.name}] takes one of dim {dim} for each"
    return said


def reached(fault: Fault) -> str | None:
    """An index of `gather` that is longer than what it picks from."""
    x, dim, index = fault.tensor("0"), fault.whole(1, "dim"), fault.tensor("2", "index")
    if x is None or index is None or dim is None or "to be no larger than" not in fault.text:
        return None
    if len(x.shape) != len(index.shape):
        return None
    for at, (size, most) in enumerate(zip(index.shape, x.shape, strict=True)):
        if at != dim % len(x.shape) and size > most:
            return (
                f"{fault.name} picks along dim {dim}, and beside that an index is no larger: "
                f"dim {at} of {index} met {x.dim(at)} of {x}"
            )
    return None


def picked(fault: Fault) -> str | None:
    """`index_select` takes a list of numbers, all of them of rows that are there."""
    x, dim, index = fault.tensor("0", "input"), fault.whole(1, "dim"), fault.tensor("2", "index")
    if fault.name != "index_select" or x is None or dim is None or index is None:
        return None
    if len(index.shape) > 1:
        return f"index_select takes one list of numbers for all, and {index} has {len(index.shape)} dims: see gather"
    if not -len(x.shape) <= dim < len(x.shape) or "out of" not in fault.text:
        return None
    if (said := counted(fault, index, x, dim % len(x.shape))) is not None:
        return said
    return f"{index} holds a number that is not in dim {dim} of {x}: {x.dim(dim)}, which has 0 to {x.shape[dim] - 1}"


def past(fault: Fault) -> str | None:
    """`select` and `narrow` past the end of a dim."""
    x, dim, start = fault.tensor("0", "input"), fault.whole(1, "dim"), fault.whole(2, "start", "index")
    if fault.name not in ("select", "narrow") or x is None or dim is None or start is None:
        return None
    if not -len(x.shape) <= dim < len(x.shape):
        return None
    size, length = x.shape[dim], fault.whole(3, "length", default=1) if fault.name == "narrow" else 1
    if length is None or start < -size or (start if start >= 0 else start + size) + length <= size:
        return None
    there = f"dim {dim} of {x}: {x.dim(dim)}, which has 0 to {size - 1}"
    if fault.name == "select":
        return f"index {start} is past {there}"
    return f"narrow takes {length} from {start} on, which is past {there}"


def one_hot(fault: Fault) -> str | None:
    ids, classes = fault.tensor("0"), fault.whole(1, "num_classes")
    if fault.name != "one_hot" or ids is None or classes is None or "smaller than num_classes" not in fault.text:
        return None
    return f"{ids} holds a number that is not below num_classes={classes}"
