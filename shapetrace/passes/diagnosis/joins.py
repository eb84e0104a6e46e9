"""cat, stack, split: parts that do not make one whole."""

from __future__ import annotations

from .fault import Fault, Given
from .slices import cut

__all__ = ["interleaved", "joined", "split", "stacked"]

CAT = frozenset({"cat", "concat", "concatenate"})
ALONG = {"vstack": 0, "row_stack": 0, "hstack": 1, "dstack": 2, "column_stack": 1}
"""Others that join, and along which dim; tensors with fewer dims they give more."""
STACK = frozenset({"stack"})


def joined(fault: Fault) -> str | None:
    """`cat` wants all dims equal but the one that it joins along."""
    given, dim = fault.tensors("0") or fault.tensors("tensors"), fault.whole(1, "dim", default=0)
    if fault.name in ALONG and all(len(each.shape) > ALONG[fault.name] for each in given):
        dim = ALONG[fault.name]
    elif fault.name not in CAT:
        return None
    if len(given) < 2 or dim is None:
        return None
    first = given[0]
    for other in given[1:]:
        if len(other.shape) != len(first.shape):
            few, many = sorted((first, other), key=lambda given: len(given.shape))
            grown = one_more(few, many, dim) or repeated(few, many, dim)
            said = f"{first} has {len(first.shape)}, {other} has {len(other.shape)}"
            return f"{fault.name} joins tensors of as many dims: {said}{grown}"
        along = dim % len(first.shape) if first.shape else 0
        for at, (one, size) in enumerate(zip(first.shape, other.shape, strict=True)):
            if at != along and one != size:
                along_dim = "" if fault.name in ALONG else f" along dim {dim}"
                said = (
                    f"{fault.name}{along_dim} wants all other dims equal: dim {at} is {first.dim(at)} in {first} "
                    f"and {other.dim(at)} in {other}"
                )
                grown = repeated(first, other, dim) or repeated(other, first, dim) or cut_short(fault, first, other)
                if grown:
                    return f"{said}{grown}"
                rest = [d for d, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if a != b]
                return f"{said}; along dim {at} they would join" if rest == [at] else said
    return None


def one_more(one: Given, other: Given, along: int) -> str:
    """The dim that `one` lacks, where it is the one that is joined along, as one token for each row; "" if it is not.

    Where no letter tells, it may as well be rows that are to be repeated.
    """
    count = len(other.shape)
    if len(one.shape) != count - 1 or not -count <= along < count:
        return ""
    at = along % count
    places = [dim for dim in range(count) if dim != at]
    if any(size != other.shape[dim] for size, dim in zip(one.shape, places, strict=True)):
        return ""
    pairs = [(one.axis(mine), other.axis(dim)) for mine, dim in enumerate(places)]
    named = [pair for pair in pairs if not any(axis.isdigit() for axis in pair)]
    if any(mine != its for mine, its in named):
        return ""
    joins = f"; {one.code}.unsqueeze({at}) joins"
    if named or not repeated(one, other, along):
        return joins
    return f"{joins}, if {one.dim(0)} of {one.name} is dim {places[0]} of {other.name}"


def repeated(one: Given, other: Given, along: int) -> str:
    """The `expand` by which `one` can be joined to `other`, as a class token to each row of a batch; "" if there is
    none."""
    count = len(other.shape)
    if not one.shape or not -count <= along < count:
        return ""
    lead = count - len(one.shape)
    wanted = [size if at >= lead else 1 for at, size in enumerate((*(1,) * lead, *one.shape))]
    sizes = [wanted[at] if at == along % count else other.shape[at] for at in range(count)]
    if any(have not in (1, size) for have, size in zip(wanted, sizes, strict=True)) or sizes == wanted:
        return ""
    return f"; {one.code}.expand({', '.join(map(str, sizes))}) joins"


def cut_short(fault: Fault, *given: Given) -> str:
    found = next(filter(None, (cut(fault, each) for each in given)), "")
    return f"; {found}" if found else ""


def stacked(fault: Fault) -> str | None:
    """`stack` wants equal shapes."""
    given = fault.tensors("0") or fault.tensors("tensors")
    if fault.name not in STACK or not given:
        return None
    first = given[0]
    for other in given[1:]:
        if len(other.shape) != len(first.shape):
            return f"stack wants equal shapes: {first} has {len(first.shape)} dims, {other} has {len(other.shape)}"
        for at, (one, size) in enumerate(zip(first.shape, other.shape, strict=True)):
            if one != size:
                said = (
                    f"stack wants equal shapes: dim {at} is {first.dim(at)} in {first} and {other.dim(at)} in {other}"
                )
                if sorted(first.shape) == sorted(other.shape):
                    return f"{said}, whose dims are in another order"
                if at == 0 and first.shape[1:] == other.shape[1:]:
                    return f"{said}; cat(…, 0) joins such, torch.nn.utils.rnn.pad_sequence pads the shorter"
                return f"{said}; cat(…, {at}) joins such, or pad the shorter"
    return None


def interleaved(fault: Fault) -> str | None:
    """`repeat_interleave` takes a number of times for each row."""
    x, times, dim = fault.tensor("0", "input"), fault.tensor("1", "repeats"), fault.whole(2, "dim")
    if fault.name != "repeat_interleave" or x is None or times is None or dim is None:
        return None
    if len(times.shape) != 1 or not -len(x.shape) <= dim < len(x.shape) or times.shape[0] in (1, x.shape[dim]):
        return None
    return f"repeat_interleave takes a number for each of dim {dim}: {times} met {x.dim(dim)} of {x}"


def split(fault: Fault) -> str | None:
    """The sizes of a split add up to the dim."""
    x, dim = fault.tensor("0", "tensor"), fault.whole(2, "dim", default=0)
    text = fault.call.literals.get("1", fault.call.literals.get("split_size_or_sections", ""))
    if fault.name not in ("split", "split_with_sizes") or x is None or dim is None or text[:1] not in ("[", "("):
        return None
    parts = text.strip("()[], ").split(",")
    if not all(part.strip().isdecimal() for part in parts) or not -len(x.shape) <= dim < len(x.shape):
        return None
    sizes = [int(part) for part in parts]
    if sum(sizes) == x.shape[dim]:
        return None
    return f"split into {' + '.join(map(str, sizes))} = {sum(sizes)} does not add up to {x.dim(dim)}, dim {dim} of {x}"
