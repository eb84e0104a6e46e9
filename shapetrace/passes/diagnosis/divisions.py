"""A dim that is to be taken in equal parts: groups of channels, halves, blocks of a picture, pairs."""

from __future__ import annotations

from .fault import Fault

__all__ = ["complex_pairs", "groups", "halves", "padding", "shuffled", "slopes"]


def groups(fault: Fault) -> str | None:
    """`group_norm` takes the channels, dim 1, in groups."""
    x, count, weight = fault.tensor("0", "input"), fault.whole(1, "num_groups"), fault.tensor("weight", "2")
    if fault.name != "group_norm" or x is None or not count or len(x.shape) < 2 or x.shape[1] % count == 0:
        return None
    if weight is not None and weight.shape != x.shape[1:2]:
        return None
    left = f"{x.shape[1]} // {count} leaves {x.shape[1] % count} over"
    return f"group_norm makes {count} groups of the channels in dim 1, and {x} has {x.dim(1)} there: {left}"


def halves(fault: Fault) -> str | None:
    """`glu` takes a dim in two halves, of which one is the gate."""
    x, dim = fault.tensor("0", "input"), fault.whole(1, "dim", default=-1)
    if fault.name != "glu" or x is None or dim is None or not -len(x.shape) <= dim < len(x.shape):
        return None
    if x.shape[dim] % 2 == 0:
        return None
    return f"glu takes half of dim {dim} as its gate, and {x} has {x.dim(dim)} there, which is odd"


def shuffled(fault: Fault) -> str | None:
    """`pixel_shuffle` makes rows and columns of channels."""
    x, factor = fault.tensor("0", "input"), fault.whole(1, "upscale_factor")
    if fault.name != "pixel_shuffle" or x is None or not factor or len(x.shape) < 3 or x.shape[-3] % factor**2 == 0:
        return None
    return (
        f"pixel_shuffle takes channels from dim -3 in parts of {factor}·{factor} = {factor**2}, "
        f"and {x} has {x.dim(-3)} there"
    )


def slopes(fault: Fault) -> str | None:
    """`prelu` has one slope, or one for each channel, which is dim 1."""
    x, weight = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if fault.name != "prelu" or x is None or weight is None or len(x.shape) < 2 or len(weight.shape) != 1:
        return None
    if weight.shape[0] in (1, x.shape[1]):
        return None
    said = f"prelu has a slope for each channel in dim 1: {weight.dim(0)} slopes met {x.dim(1)} of {x}"
    if weight.shape[0] == x.shape[-1]:
        return f"{said}; its channels are last, {x.dim(-1)}"
    return said


def padding(fault: Fault) -> str | None:
    """`pad` takes two numbers for a dim, from the last on; and reflects no more than there is."""
    x, sizes = fault.tensor("0", "input"), fault.ints(1, "pad")
    if fault.name != "pad" or x is None or not sizes:
        return None
    if len(sizes) % 2:
        return f"pad takes two numbers for each dim, before and after it, the last dim first: {len(sizes)} were given"
    mode = fault.call.literals.get("mode", "'constant'").strip("'")
    if len(sizes) // 2 > len(x.shape):
        return f"pad was given numbers for {len(sizes) // 2} dims, two for each, and {x} has {len(x.shape)}"
    for at in range(len(sizes) // 2):
        dim, most = -1 - at, max(sizes[2 * at : 2 * at + 2])
        limit = {"reflect": x.shape[dim] - 1, "circular": x.shape[dim]}.get(mode)
        if limit is not None and most > limit:
            return f"mode={mode!r} has no more to give than dim {dim} of {x}: {most} was asked for, {limit} is the most"
    return None


def complex_pairs(fault: Fault) -> str | None:
    """`view_as_complex` makes one number of two, the last dim."""
    x = fault.tensor("0")
    if fault.name != "view_as_complex" or x is None or not x.shape or x.shape[-1] == 2:
        return None
    said = f"view_as_complex makes one number of two, the last dim, and {x} has {x.dim(-1)} there"
    if x.shape[-1] % 2:
        return said
    return f"{said}; {x.code}.unflatten(-1, (-1, 2)) has pairs of neighbours"
