"""Recognise a normalisation: torch's own, or one written by hand, of which only its last step counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..plumbing import is_float
from .forms import base, only_data
from .functions import CASTS, DIFFERENCES, LAYOUTS, NORMS, PARTS, QUOTIENTS, TIMES

if TYPE_CHECKING:
    from .flow import Node

__all__ = ["is_last_of_norm", "last_of_norm", "norm_of"]

TOLD = NORMS | frozenset(
    "batch_norm native_batch_norm group_norm native_group_norm instance_norm normalize BatchNorm1d GroupNorm".split()
)
"""Also over other dims than the last."""

ROOTS = frozenset({"rsqrt", "sqrt", "std", "std_mean", "norm", "linalg_vector_norm", "vector_norm"})
TO_ROOTS = (
    LAYOUTS
    | CASTS
    | PARTS
    | TIMES
    | QUOTIENTS
    | frozenset("add reciprocal pow clamp clamp_min maximum expand_as".split())
)
NEAR = 24


def norm_of(node: Node) -> Node | None:
    """What this is a normalised form of: x over the root of its mean square, with weight and bias if they follow."""
    name, inputs = node.name, node.inputs
    if name in TOLD:
        return base(inputs[0]) if inputs and node.key in ("", "0") else None
    if len(inputs) == 2:
        one, other = inputs
        if name in TIMES or name in QUOTIENTS:
            return scaled(node, one, other) or scaled(node, other, one)
        if name == "add":
            return shifted(node, one, other) or shifted(node, other, one)
    elif name == "addcmul" and len(inputs) == 3:  # bias, weight, and what was normalised
        x = only_data(node)
        return None if x is None or x.shape != node.shape or x.name in TOLD else x.norm_of
    elif inputs and inputs[0].name not in TOLD and (name in CASTS or (name in LAYOUTS and is_weighed(node))):
        return inputs[0].norm_of
    elif inputs and name in TIMES | QUOTIENTS and inputs[0].name == "normalize":
        return inputs[0].norm_of  # by the root of the width
    return None


def is_weighed(node: Node) -> bool:
    """Whether a form of something is for a product with a weight alone, as where groups are put together again."""
    users = node.users if len(node.inputs[0].users) == 1 else []
    return len(users) == 1 and users[0].name in TIMES and any(given.is_weight for given in users[0].inputs)


def is_last_of_norm(node: Node) -> bool:
    """Whether the normalisation ends here: neither weight, bias nor cast follows."""
    return node.norm_of is not None and all(user.norm_of is not node.norm_of for user in node.users)


def last_of_norm(node: Node) -> Node:
    """Where the normalisation ends that `node` is a step of; itself if it is none, or used for something else, too."""
    while node.norm_of is not None:
        if len(node.users) != 1 or node.users[0].norm_of is not node.norm_of:
            break
        node = node.users[0]
    return node


def scaled(node: Node, x: Node, scale: Node) -> Node | None:
    """x by a weight, if x is normalised; or by one over the root of its own mean square."""
    if not scale.is_data:
        return x.norm_of if x.shape == node.shape and is_of_norm(scale, x) else None
    root = root_of(scale) if x.is_data and is_float(x.meta) else None
    return None if root is None or math.prod(root.shape) >= math.prod(x.shape) else taken_of(root, x)


def shifted(node: Node, x: Node, shift: Node) -> Node | None:
    if x.norm_of is None or x.shape != node.shape or x.name in TOLD or not shift.is_weight or not shift.shape:
        return None
    return x.norm_of if is_of_norm(shift, x) else None


def is_of_norm(weight: Node, x: Node) -> bool:
    """Whether it may be the weight or bias of a norm, one number for each channel. Of several dims it is none where
    what is normalised is used without it, too."""
    return len(weight.shape) <= 1 or (sum(size > 1 for size in weight.shape) <= 1 and len(x.users) == 1)


def root_of(node: Node) -> Node | None:
    """The root that `node` is, or is one over: of a mean square, plus a little; maybe times a weight."""
    for _ in range(6):
        if node.name in ROOTS:
            return node
        if node.name not in TO_ROOTS or not node.inputs:
            return None
        if node.name == "pow" and node.inputs[0].name == "add":  # (… + eps) ** -0.5
            return node
        given = node.inputs[0] if len(node.inputs) == 1 else only_data(node)
        if given is None:
            return None
        node = given
    return None


def taken_of(root: Node, x: Node) -> Node | None:
    """What a root was taken of, if x is that: without the mean that was taken off it, and the weight of the norm."""
    reads = makers(root)
    node = base(x)
    for _ in range(3):
        less = minuend(node)
        if less is None and node in reads:
            return node
        given = less or (only_data(node) if node.name in TIMES else None)
        if given is None or given.shape != node.shape:
            return None
        node = base(given)
    return None


def minuend(node: Node) -> Node | None:
    """What x - mean takes the mean off."""
    if node.name not in DIFFERENCES or len(node.inputs) != 2:
        return None
    x, mean = node.inputs
    return x if mean.is_data and math.prod(mean.shape) < math.prod(x.shape) else None


def makers(node: Node) -> list[Node]:
    """The nearest of what a value was made of."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        for given in one.inputs:
            if given.at not in seen and given.is_data and len(seen) < NEAR:
                seen.add(given.at)
                queue.append(given)
    return queue
