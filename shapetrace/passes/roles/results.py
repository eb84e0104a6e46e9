"""What comes out of a model: logits and the loss."""

from __future__ import annotations

import math

from .embeddings import is_token_lookup, rows
from .flow import Flow, Node
from .forms import base, is_projection, only_data, projected, uncut, width
from .functions import CASTS, JOINS, LAYOUTS, LOSSES, PARTS, QUOTIENTS, SHAPING, SOFTMAX, SUMS, TIMES
from .products import is_mixing

__all__ = ["is_said", "logits", "losses", "said_of"]


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
        is_form = node.name in SHAPING or node.name in PARTS or node.name == "pad"
        is_given = node.at in flow.handed and len(node.shape) > 1 and before_softmax(node) is None
        if not node.inputs or is_given or not (is_form or node.name == "log_softmax"):
            break
        node = node.inputs[0]
    return node if node.index >= 0 and node.is_data else None


def logits(flow: Flow) -> list[Node]:
    """Where there is no loss: a projection that the model hands out, or softmax of it, as wide as a table of tokens is
    long; or one less, for a token that only ever begins or pads. Of log-softmax, of any width."""
    lookups = [node for node in flow.nodes if is_token_lookup(node)]
    found: list[Node] = []
    for node in flow.nodes:
        if node.at not in flow.handed:
            continue
        scores = before_softmax(node) or node
        made = projection(scores)
        is_choice = len(node.shape) >= 3 and any(chooses(made, lookup, scores) for lookup in lookups)
        if made is not None and (is_choice or base(node).name == "log_softmax"):
            found.append(scores)
    return found


def before_softmax(node: Node) -> Node | None:
    """What softmax or its logarithm was taken of, if `node` is that, or another form of it."""
    node = base(node)
    return node.inputs[0] if node.inputs and node.name in SOFTMAX | {"log_softmax"} else None


def chooses(made: Node | None, lookup: Node, scores: Node) -> bool:
    """Whether a projection is of what is in the table. One that is no wider than the table is wide may be that of an
    attention."""
    if made is None or not is_said(lookup, [scores]):
        return False
    if width(scores) != width(lookup) or lookup.inputs[1] in map(base, made.inputs):
        return True
    return width(scores) == rows(lookup) and not is_mixing(base(projected(made)))


def is_said(lookup: Node, scores: list[Node]) -> bool:
    """Whether logits are as wide as the table is long, or one less."""
    return any(width(one) in (rows(lookup), rows(lookup) - 1) for one in scores)


def said_of(scores: Node) -> Node | None:
    """What logits are a projection of."""
    found = projection(scores)
    return None if found is None else uncut(base(projected(found)))


CAPPING = LAYOUTS | CASTS | TIMES | QUOTIENTS | SUMS | PARTS | JOINS | frozenset({"tanh", "clamp"})


def projection(scores: Node) -> Node | None:
    """The projection that they were before they were scaled, capped and laid out; a convolution gives no rows."""
    node = scores
    for _ in range(16):
        if is_projection(node):
            return None if is_mixing(node) else node
        if node.name not in CAPPING or not node.inputs or (node.name in SUMS and only_data(node) is None):
            return None
        node = next((given for given in node.inputs if given.is_data), node.inputs[0])
    return None
