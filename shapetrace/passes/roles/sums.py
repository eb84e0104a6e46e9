"""Sums of a value and of what was made of it: x + f(x), the steps of a residual stream."""

from __future__ import annotations

from collections.abc import Container

from ..plumbing import is_float
from .flow import Node
from .forms import FAR, base, is_projection, unscaled
from .functions import DROPOUTS, PARTS, PRODUCTS, QUOTIENTS, SHAPING, SUMS, TIMES
from .products import is_mixing

__all__ = ["MANY", "added_to", "carried", "is_made_of", "is_sum", "is_worked_on", "since"]

MANY = 4096
"""Nodes of one branch, where each token or each expert is treated by itself."""


def is_sum(node: Node) -> bool:
    """Of two activations of one shape."""
    if node.name != "add" or len(node.inputs) != 2 or len(node.shape) < 2:
        return False
    one, other = node.inputs
    return one.is_data and other.is_data and one.shape == other.shape and is_float(node.meta) and one is not other


def added_to(out: Node, behind: Container[int]) -> tuple[Node, Node] | None:
    """What a projection is added to, through scale, dropout and norms, and the sum.

    behind   places in the flow of what it may be
    """
    seen = {out.at}
    queue = [out]
    for node in queue:
        for user in node.users:
            if user.at in seen or len(seen) > FAR or not is_float(user.meta):
                continue
            if is_sum(user):
                other = user.inputs[0] if user.inputs[1] is node else user.inputs[1]
                start = base(other) if base(other).at in behind else unscaled(other)
                if start.at in behind or (start.norm_of is not None and start.norm_of.at in behind):
                    return start, user
            elif is_projection(user) or (user.name not in ADDING and user.norm_of is None):
                continue
            seen.add(user.at)
            queue.append(user)
    return None


ADDING = TIMES | QUOTIENTS | SUMS | SHAPING | DROPOUTS | PARTS
"""What may lie between a projection and where it is added."""


def carried(given: Node) -> Node:
    """What is added to, if it is `given`: without its scale, and before several streams side by side were mixed."""
    node = unscaled(given)
    while node.name in ("merge", "setitem") and node.inputs[0].shape == node.shape:
        node = unscaled(node.inputs[0])
    if node.name in PRODUCTS and len(node.shape) == 4 and node.inputs[-1].shape == node.shape:
        return unscaled(node.inputs[-1])
    return node


def is_worked_on(start: Node, branch: Node) -> bool:
    """Whether `branch` was made of `start` by a projection, or by mixing tokens: x + f(x), and no GELU by hand."""
    between = since(start, branch)
    return start in between[1:] and any(is_projection(node) or is_mixing(node) for node in between)


def is_made_of(node: Node, start: Node) -> bool:
    return start in since(start, node)[1:]


def since(start: Node, node: Node) -> list[Node]:
    """`node`, and what it was made of, back to when `start` was made."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        for given in one.inputs if one is not start else ():
            if given.at not in seen and given.at >= start.at and len(seen) < MANY:
                seen.add(given.at)
                queue.append(given)
    return queue
