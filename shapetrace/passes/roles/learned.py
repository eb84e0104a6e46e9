"""Queries that are learned: they are no data, but what attends with them is treated as that of any queries."""

from __future__ import annotations

from collections.abc import Iterator

from ..plumbing import is_float
from .flow import Flow, Node
from .forms import FAR, is_projection, projected
from .functions import FUSED, LINEARS, LOOKUPS, NORMS, PRODUCTS, SHAPING
from .norms import norm_of
from .products import factors, softmax_of
from .scores import way_to_softmax

__all__ = ["mark_learned"]


def mark_learned(flow: Flow) -> None:
    """Count as data what queries that depend on nothing the model is given were made of, and all that follows from it,
    if they attend to something that does."""
    if not any(is_made(node) for node in flow.nodes):
        return
    first = len(flow.nodes)
    for query in list(queries(flow)):
        for seed in seeds(query):
            seed.is_data, seed.is_weight = True, False
            first = min(first, seed.at)
    for node in flow.nodes[first:]:
        if not node.is_data and any(given.is_data for given in node.inputs):
            node.is_data, node.is_weight = True, False
            node.norm_of = norm_of(node)


def is_made(node: Node) -> bool:
    """Whether it is a projection, or attention, of what is no data."""
    name = node.name
    return (not node.is_data and (name in LINEARS or name in PRODUCTS)) or (
        name in FUSED and bool(node.inputs) and not node.inputs[0].is_data
    )


def queries(flow: Flow) -> Iterator[Node]:
    """What is no data, and is multiplied with keys that are."""
    for node in flow.nodes:
        pair: tuple[Node, ...] = ()
        if node.name in FUSED:
            pair = node.inputs[:2]
        elif node.is_data and (start := softmax_of(node)) is not None and (path := way_to_softmax(start, flow)):
            pair = factors(path[0], flow)
        if len(pair) == 2 and pair[1].is_data and not pair[0].is_data:
            yield pair[0]


def seeds(query: Node) -> Iterator[Node]:
    """What a query was made of, without the weights of its projections and norms."""
    seen = {query.at}
    queue = [query]
    for node in queue:
        if not node.inputs or node.name in LOOKUPS:
            yield node
            continue
        given = node.inputs
        if is_projection(node):
            given = (projected(node),)
        elif node.name in NORMS or node.name in SHAPING:
            given = given[:1]
        for one in given:
            is_row = len(one.shape) > 1 or len(given) == 1
            if is_row and is_float(one.meta) and one.at not in seen and len(seen) < FAR:
                seen.add(one.at)
                queue.append(one)
