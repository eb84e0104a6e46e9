"""Recognise a normalisation: torch's own, or one written by hand, of which only its last step counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plumbing import is_float
from .forms import base
from .functions import CASTS, DIFFERENCES, NORMS, QUOTIENTS, TIMES

if TYPE_CHECKING:
    from .flow import Node

__all__ = ["is_last_of_norm", "norm_of"]

ROOTS = frozenset({"rsqrt", "sqrt", "std", "norm", "linalg_vector_norm"})
TO_ROOTS = frozenset({"add", "to", "reciprocal", "pow", "clamp", "rdiv", "rtruediv"})


def norm_of(node: Node) -> Node | None:
    """What this is a normalised form of: x over the root of its mean square, with weight and bias if they follow."""
    name, inputs = node.name, node.inputs
    if name in NORMS:
        return base(inputs[0]) if inputs and node.key in ("", "0") else None
    if len(inputs) == 2:
        one, other = inputs
        if name in TIMES or name in QUOTIENTS:
            return scaled(node, one, other) or scaled(node, other, one)
        if name == "add":
            return shifted(one, other) or shifted(other, one)
    elif name in CASTS and inputs and inputs[0].name not in NORMS:
        return inputs[0].norm_of
    return None


def is_last_of_norm(node: Node) -> bool:
    """Whether the normalisation ends here: neither weight, bias nor cast follows."""
    return node.norm_of is not None and all(user.norm_of is not node.norm_of for user in node.users)


def scaled(node: Node, x: Node, scale: Node) -> Node | None:
    if scale.is_data:
        is_norm = x.is_data and is_statistic(scale) and is_float(x.meta) and x.shape != scale.shape
        return centred(x) if is_norm else None
    return x.norm_of if x.shape == node.shape and len(scale.shape) <= 1 else None


def shifted(x: Node, shift: Node) -> Node | None:
    return x.norm_of if shift.is_weight and len(shift.shape) == 1 and x.name in TIMES else None


def is_statistic(node: Node) -> bool:
    """The root of something that was taken along the last dim, or one over it."""
    if not node.shape or node.shape[-1] != 1:
        return False
    for _ in range(3):
        if node.name in ROOTS:
            return True
        if node.name not in TO_ROOTS or not node.inputs:
            return False
        if node.name == "pow" and node.inputs[0].name == "add":  # (… + eps) ** -0.5
            return True
        node = node.inputs[0]
    return False


def centred(x: Node) -> Node:
    """What x is without the mean that was taken off it."""
    found = base(x)
    is_difference = found.name in DIFFERENCES and len(found.inputs) == 2 and found.inputs[1].shape[-1:] == (1,)
    return base(found.inputs[0]) if is_difference else found
