"""What comes out of a model: logits and the loss."""

from __future__ import annotations

import math

from .embeddings import is_token_lookup
from .flow import Flow, Node
from .forms import is_projection
from .functions import CASTS, LAYOUTS, LOSSES, PARTS, QUOTIENTS, SHAPING, SUMS, TIMES

__all__ = ["logits", "losses"]


def losses(flow: Flow) -> list[tuple[Node, Node | None]]:
    """Each loss, as it leaves the model, and its logits as they were before they were shifted and flattened."""
    return [
        (final(node, flow), unflattened(node.inputs[0], flow))
        for node in flow.nodes
        if node.name in LOSSES and node.inputs and node.key in ("", "0")
    ]


def final(loss: Node, flow: Flow) -> Node:
    for _ in range(6):
        following = next((user for user in loss.users if user.name in SCALING and math.prod(user.shape) == 1), None)
        if following is None or loss.at in flow.handed:
            break
        loss = following
    return loss


SCALING = SUMS | TIMES | QUOTIENTS | CASTS


def unflattened(node: Node, flow: Flow) -> Node | None:
    """Back from what a loss was given to what the model hands out, or else to where it was made."""
    for _ in range(24):
        is_passed = node.name in SHAPING or node.name in PARTS or node.name in ("pad", "log_softmax")
        if not node.inputs or not is_passed or (node.at in flow.handed and len(node.shape) > 1):
            break
        node = node.inputs[0]
    return node if node.index >= 0 and node.is_data else None


def logits(flow: Flow) -> list[Node]:
    """Where there is no loss: a projection that the model hands out, as wide as a table of tokens is long."""
    tables = {node.inputs[1].shape[0] for node in flow.nodes if is_token_lookup(node)}
    handed = [node for node in flow.nodes if node.at in flow.handed]
    return [node for node in handed if len(node.shape) >= 3 and node.shape[-1] in tables and is_projected(node)]


CAPPING = LAYOUTS | CASTS | TIMES | QUOTIENTS | SUMS | PARTS | frozenset({"tanh", "clamp"})


def is_projected(node: Node) -> bool:
    for _ in range(16):
        if is_projection(node):
            return True
        if node.name not in CAPPING or not node.inputs:
            return False
        node = next((given for given in node.inputs if given.is_data), node.inputs[0])
    return False
