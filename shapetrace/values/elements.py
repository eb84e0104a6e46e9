"""Two tensors compared, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import dropwhile, islice, permutations

import torch
from torch import Tensor
from torch.testing._comparison import default_tolerances

from ..diff.divergence import Apart, Extreme, Tolerance

__all__ = [
    "apart",
    "are_masks",
    "arranged",
    "comparable",
    "hidden",
    "likest",
    "repeated",
    "rounding",
    "tolerance",
    "turned",
]

HIDDEN = -9_000.0
"""What is no higher hides a key, whatever a model writes for it: -inf, the lowest number of a dtype, -10000."""

FAR = 104.0
"""So far below the highest score of its row softmax makes 0 of one: exp(-104) is less than float32 has."""

MOST_DIMS = 5
MOST_ELEMENTS = 1 << 18
"""Of a tensor whose dims are tried in every order."""

Axes = tuple[str | int, ...]


def tolerance(before: Tensor, after: Tensor, rtol: float | None, atol: float | None) -> Tolerance:
    """As given, or else that of `torch.testing` for the coarser of the two dtypes."""
    relative, absolute = default_tolerances(before.dtype, after.dtype)
    return Tolerance(relative if rtol is None else rtol, absolute if atol is None else atol)


def comparable(before: Tensor, after: Tensor) -> bool:
    """Whether both are numbers, or both true and false; a sparse or nested tensor is compared with none."""
    plain = all(each.layout == torch.strided and not each.is_nested and not each.is_meta for each in (before, after))
    return plain and (before.dtype == torch.bool) == (after.dtype == torch.bool)


def arranged(after: Tensor, like: Tensor, ours: Axes, theirs: Axes) -> Tensor:
    """`after` with its dims in the order of before, where both have the same axes and each once; taken apart or put
    together as they are there, "B·H" and "B", "H"; and with as many dims of size 1 in front as `like`, of before.
    """
    is_other_order = ours != theirs and sorted(map(str, ours)) == sorted(map(str, theirs))
    if is_other_order and len(set(ours)) == len(ours) and all(type(axis) is str for axis in ours):
        return after.permute([theirs.index(axis) for axis in ours])
    if after.dim() != like.dim() and after.numel() == like.numel() and factors(ours) == factors(theirs):
        return after.reshape(like.shape)
    if after.dim() != like.dim() and stripped(after) == stripped(like):
        return after.reshape(like.shape)
    return after


def repeated(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor once for each element of the batch of the other, where it lacks just that: positions are the same."""
    alike = stripped(tensor)
    is_whole = 0 < len(alike) < other.dim() and list(other.shape[-len(alike) :]) == alike
    return tensor.reshape(alike).expand(other.shape) if is_whole and tensor.numel() < other.numel() else tensor


def are_masks(*tensors: Tensor) -> bool:
    """Whether they hold nothing but zeros and what hides a key, which is one number or few; not scores that are low."""
    return all(is_mask(tensor) for tensor in tensors if tensor.dtype != torch.bool)


def is_mask(tensor: Tensor) -> bool:
    shows = tensor == 0
    return bool((shows | (tensor <= HIDDEN)).all()) and (
        bool(shows.any()) or bool((tensor == tensor.flatten()[:1]).all())
    )


def hidden(scores: Tensor, *, is_mask: bool) -> Tensor | None:
    """Where a key is hidden: by a mask, or among the scores of its row, of which softmax makes 0 there. None of what
    cannot hide one."""
    if not scores.is_floating_point() or not scores.dim() or not scores.numel():
        return None
    return scores <= HIDDEN if is_mask else scores.amax(-1, keepdim=True) - scores > FAR


def likest(after: Tensor, like: Tensor) -> Tensor | None:
    """`after` with its dims in the order in which it comes closest to `like`, and put together or taken apart as they
    are there: for what is kept in another layout, and whose axes do not tell it. None if it has other elements.
    """
    if after.numel() != like.numel() or not 0 < after.numel() <= MOST_ELEMENTS:
        return None
    best, least = None, torch.inf
    for way in layouts(after.squeeze(), like):
        far = float((way.double() - like.double()).abs().nan_to_num(posinf=0).mean())
        if far < least:
            best, least = way, far
        if not far:
            break
    return best


def layouts(after: Tensor, like: Tensor) -> Iterator[Tensor]:
    """`after` in the shape of `like`, for each order of the dims of that which has more of them; those of 1 apart."""
    sizes = [size for size in like.shape if size != 1]
    if max(after.dim(), len(sizes)) > MOST_DIMS:
        return
    if after.dim() >= len(sizes):
        yield from (after.permute(order).reshape(like.shape) for order in permutations(range(after.dim())))
        return
    for order in permutations(range(len(sizes))):
        back = [order.index(place) for place in range(len(sizes))]
        yield after.reshape([sizes[place] for place in order]).permute(back).reshape(like.shape)


def turned(after: Tensor, like: Tensor, ours: Axes, theirs: Axes) -> Iterator[Tensor]:
    """`after` as it is if the letters of one product are in another order there: "B·T" may run through T first.

    The product stands on one side, its letters on the other.
    """
    if after.numel() != like.numel():
        return
    for at, axis in enumerate(theirs):
        start, count = spread(axis, ours)
        sizes = like.shape[start : start + count]
        for order in reorderings(count) if math.prod(sizes) == after.shape[at] else ():
            apart_ = after.reshape(*after.shape[:at], *(sizes[place] for place in order), *after.shape[at + 1 :])
            back = (at + order.index(place) for place in range(count))
            yield apart_.permute(*range(at), *back, *range(at + count, apart_.dim())).reshape(like.shape)
    for axis in ours:
        start, count = spread(axis, theirs)
        for order in reorderings(count):
            dims = (start + place for place in order)
            yield after.permute(*range(start), *dims, *range(start + count, after.dim())).reshape(like.shape)


def spread(axis: str | int, axes: Axes) -> tuple[int, int]:
    """Where the letters of a product stand side by side among other axes, and how many; (0, 0) if they do not."""
    letters = tuple(str(axis).split("·"))
    count = len(letters)
    starts = (start for start in range(len(axes) - count + 1) if axes[start : start + count] == letters)
    return next(((start, count) for start in starts if count > 1), (0, 0))


def reorderings(count: int) -> Iterator[tuple[int, ...]]:
    """All orders of so many but the one in which they are."""
    return islice(permutations(range(count)), 1, None)


def factors(axes: Axes) -> list[str | int]:
    """What the elements run through, from the outermost on, however it is put together into dims."""
    return [factor for axis in axes for factor in (axis.split("·") if isinstance(axis, str) else [axis])]


def stripped(tensor: Tensor) -> list[int]:
    """The shape without the dims of size 1 that it begins with."""
    return list(dropwhile(lambda size: size == 1, tensor.shape))


def rounding(before: Tensor, after: Tensor) -> float:
    """The largest difference of what is finite in two tensors that are the same, in units of the rounding of the
    largest number: a few for what is computed alike."""
    if not before.is_floating_point() or not after.is_floating_point():
        return 0.0
    one, other = (tensor.to(device=before.device, dtype=torch.float64) for tensor in (before, after))
    plain = (one.abs() < HUGE) & (other.abs() < HUGE)
    largest, difference = (float(each[plain].abs().max()) if bool(plain.any()) else 0.0 for each in (one, other - one))
    return difference / (largest * max(torch.finfo(each.dtype).eps for each in (before, after))) if difference else 0.0


HUGE = 1e30
"""No number that is computed, but what a mask writes."""


def apart(before: Tensor, after: Tensor, allowed: Tolerance, alike: Tensor | None = None) -> Apart | None:
    """How two tensors of one shape differ; None if they are the same. NaN is the same as NaN.

    Masks that are each other's opposite are the same: some say True where a query may see a key, some where not.

    alike   where they are the same whatever stands there
    """
    if before.dtype == torch.bool and torch.equal(before, ~after):
        return None
    wide = torch.complex128 if before.is_complex() or after.is_complex() else torch.float64
    one, other = before.to(wide), after.to(device=before.device, dtype=wide)
    is_same = torch.isclose(other, one, rtol=allowed.relative, atol=allowed.absolute, equal_nan=True)
    if alike is not None:
        is_same |= alike
    if bool(is_same.all()):
        return None
    difference = (other - one).abs().masked_fill(is_same, 0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    ratio = difference / one.abs()
    ratio = ratio.masked_fill(is_same | (one == 0) | one.isinf() | ratio.isnan(), -1)
    relative = extreme(ratio, one, other)
    return Apart(
        one.numel(),
        int((~is_same).sum()),
        extreme(difference, one, other),
        relative if relative.difference >= 0 else None,
        allowed,
    )


def extreme(differences: Tensor, one: Tensor, other: Tensor) -> Extreme:
    """The largest, and of equal ones the first."""
    flat = int(differences.flatten().argmax())
    index = tuple(int(place) for place in torch.unravel_index(torch.tensor(flat), differences.shape))
    return Extreme(float(differences[index]), index, one[index].item(), other[index].item())
