"""From a softmax back to the product of queries and keys."""

from __future__ import annotations

from ..plumbing import is_float
from .flow import Flow, Node
from .forms import FAR, has_name
from .functions import JOINS, PARTS, QUOTIENTS, SHAPING, SUMS, TIMES
from .products import is_product, pair_of
from .talking import is_map_of_heads

__all__ = ["named_scores", "way_to_softmax"]

WITHIN = (
    SHAPING
    | PARTS
    | SUMS
    | TIMES
    | QUOTIENTS
    | JOINS
    | frozenset(
        """masked_fill where tanh clamp clip max maximum min minimum pad setitem merge gather nan_to_num neg as_strided
        fill masked_scatter index_copy addcmul flip roll diagonal scatter tril triu""".split()
    )
)
"""What may lie between the product and softmax: scale, mask, bias, soft-capping, sinks, chunks."""


def way_to_softmax(start: Node, flow: Flow) -> list[Node]:
    """From the product to what enters softmax, `start`; empty if there is no product of two activations.

    The nearest whose factors both depend on the data; else one with a factor computed from parameters alone (learned
    queries). Of a bias that is a product itself, the other way round: positions are computed from parameters.
    """
    users: dict[int, Node | None] = {start.at: None}
    queue = [start]
    second: Node | None = None
    for node in queue:
        if is_product(node):
            are_data = [factor.is_data for factor in pair_of(node)]
            if all(are_data):
                return way(node, users)
            if any(are_data):
                second = second or node
        elif (node.name in WITHIN or is_map_of_heads(node, flow)) and len(users) < FAR:
            for given in node.inputs:
                if given.is_data and given.at not in users and is_float(given.meta):
                    users[given.at] = node
                    queue.append(given)
    return way(second, users)


def way(node: Node | None, users: dict[int, Node | None]) -> list[Node]:
    found: list[Node] = []
    while node is not None:
        found.append(node)
        node = users[node.at]
    return found


def named_scores(path: list[Node], weights: Node, flow: Flow) -> Node:
    """The last of the shape of the weights that has a name; if none has one, the last."""
    alike = [node for node in path if node.shape == weights.shape] or path[-1:]
    return next((node for node in reversed(alike) if has_name(node, flow)), alike[-1])
