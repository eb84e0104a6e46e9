"""How one of two tensors that differ is made of the other, where that can be told: it says what is wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from ..diff.divergence import Relation, Tolerance

__all__ = ["relation"]

MOST_ELEMENTS = 1 << 22
"""Of larger tensors no other order is looked for."""

NEAR = 1e-6
"""What is in another order adds up to the same."""

FEW = 3
"""So many numbers must be the same multiple of others, or as much more, for that to mean something."""


def relation(
    before: Tensor, after: Tensor, allowed: Tolerance, hides: tuple[Tensor | None, Tensor | None]
) -> Relation | None:
    """Of two tensors of one shape that differ.

    hides   of scores, on either side, where they hide a key
    """
    if before.dtype == torch.bool or before.is_complex() or after.is_complex():
        return None
    one, other = (tensor.to(device=before.device, dtype=torch.float64) for tensor in (before, after))
    left, right = (torch.zeros_like(one, dtype=torch.bool) if each is None else each.to(one.device) for each in hides)
    return (
        masked(one, other, allowed, left, right)
        or scaled(one, other, allowed, left & right)
        or reordered(one, other, allowed)
    )


def masked(one: Tensor, other: Tensor, allowed: Tolerance, left: Tensor, right: Tensor) -> Relation | None:
    """Where they differ a key is hidden on one side only."""
    sides = bool((left & ~right).any()), bool((right & ~left).any())
    if not any(sides) or not bool((left | right | is_close(one, other, allowed)).all()):
        return None
    return Relation("hidden", side="" if all(sides) else "before" if sides[0] else "after")


def scaled(one: Tensor, other: Tensor, allowed: Tolerance, hidden: Tensor) -> Relation | None:
    """A multiple, or as much more everywhere, but where both hide a key."""
    plain = one.isfinite() & other.isfinite() & ~hidden
    if not bool((plain | hidden | (one == other)).all()):
        return None
    a, b = one[plain], other[plain]
    if a.numel() < FEW or bool(a.min() == a.max()):
        return None
    factor = float((a @ b) / (a @ a))
    if factor and is_all_close(a * factor, b, allowed):
        return Relation("factor", number=factor)
    more = float((b - a).mean())
    return Relation("sum", number=more) if is_all_close(a + more, b, allowed) else None


def reordered(one: Tensor, other: Tensor, allowed: Tolerance) -> Relation | None:
    """What lies along one dim in another order; or else all elements, each somewhere."""
    if not 1 < one.numel() <= MOST_ELEMENTS or not bool(one.isfinite().all() and other.isfinite().all()):
        return None
    if abs(float(other.sum() - one.sum())) > NEAR * float(one.abs().sum()):
        return None
    for dim in range(one.dim() if one.dim() > 1 else 0):
        rows, others = (in_one_order(tensor.movedim(dim, 0).flatten(1)) for tensor in (one, other))
        if is_all_close(rows, others, allowed):
            return Relation("order", dim=dim)
    rows, others = (tensor.flatten().sort().values for tensor in (one, other))
    return Relation("order") if is_all_close(rows, others, allowed) else None


def in_one_order(rows: Tensor) -> Tensor:
    """The rows in an order that depends on nothing but what is in them."""
    weights = torch.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=rows.device).sin()
    return rows[(rows @ weights).argsort()]


def is_close(one: Tensor, other: Tensor, allowed: Tolerance) -> Tensor:
    return torch.isclose(other, one, rtol=allowed.relative, atol=allowed.absolute, equal_nan=True)


def is_all_close(one: Tensor, other: Tensor, allowed: Tolerance) -> bool:
    return bool(is_close(one, other, allowed).all())
