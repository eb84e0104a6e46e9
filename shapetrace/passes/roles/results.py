"""What comes out of a model: logits, and what they are made of."""

from __future__ import annotations

from ..plumbing import is_float
from .embeddings import is_token_lookup, rows
from .flow import Flow, Node
from .forms import base, is_projection, only_data, projected, uncut, width
from .functions import CASTS, JOINS, LAYOUTS, PARTS, QUOTIENTS, SUMS, TIMES
from .losses import before_softmax
from .products import is_mixing

__all__ = ["called_logits", "is_said", "logits", "said_of"]


def called_logits(flow: Flow) -> list[Node]:
    """What the model gives in a field of that name. Of rows that are embedded already nothing else tells it."""
    return [
        node
        for node in flow.nodes
        if node.at in flow.handed and node.is_data and is_float(node.meta) and len(node.shape) > 1
        if any(flow.parents[index] < 0 and key == "logits" for index, key in node.places)
    ]


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
