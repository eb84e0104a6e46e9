"""Talking heads (Shazeer et al., 2020): a linear map of the heads, of scores before softmax or of weights after it."""

from __future__ import annotations

from .flow import Flow, Node
from .functions import TURNS
from .products import equation

__all__ = ["is_map_of_heads", "is_turned"]


def is_map_of_heads(node: Node, flow: Flow) -> bool:
    """Whether it maps the heads of [B, H, T, S] on heads, and leaves each query and key alone."""
    data = [given for given in node.inputs if given.is_data]
    weights = [given for given in node.inputs if given.is_weight]
    if len(data) != 1 or not weights or len(node.shape) != 4 or len(data[0].shape) != 4:
        return False
    if node.name in ("conv2d", "convolution"):
        return weights[0].shape[2:] == (1, 1) and node.shape[2:] == data[0].shape[2:]
    if node.name == "einsum":
        left, right, result = equation(node, flow)
        own, other = (left, right) if node.inputs[0] is data[0] else (right, left)
        return own[-2:] == result[-2:] != "" and len(own) == 4 and not set(own[-2:]) & set(other)
    if node.name == "linear":  # of what was turned to [B, T, S, H], and is turned back
        given = data[0]
        while given.name in ("contiguous", "clone"):
            given = given.inputs[0]
        return is_turned(given) and any(map(is_turned, node.users))
    return False


def is_turned(node: Node) -> bool:
    """Whether another dim is the last than was before."""
    if node.name not in TURNS or not node.inputs:
        return False
    before, after = node.inputs[0].meta, node.meta
    if not before.stride or not after.stride:
        return False
    return (before.shape[-1], before.stride[-1]) != (after.shape[-1], after.stride[-1])
