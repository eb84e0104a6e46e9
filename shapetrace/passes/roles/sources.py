"""Where queries and keys come from: through projections, from one tensor or from two."""

from __future__ import annotations

import msgspec

from ..plumbing import is_float
from .flow import Node
from .forms import FAR, base, is_projection, projected
from .functions import LOOKUPS
from .products import is_product, is_softmax
from .sums import is_sum

__all__ = ["Sources", "is_pooled", "sources"]


class Sources(msgspec.Struct, frozen=True, eq=False):
    """x            what the projections of the queries were given
    projections  those of the queries
    between      places in the flow of all from these, and those of keys and values, to the product
    behind       of all that x was made of, up to where the residual stream was last added to
    is_self      whether queries and keys come from one tensor; None if that cannot be told
    """

    x: Node | None
    projections: list[Node]
    between: dict[int, Node]
    behind: dict[int, Node]
    is_self: bool | None


def sources(q: Node, k: Node, v: Node) -> Sources:
    between: dict[int, Node] = {}
    of_q, projections = origins(q, between)
    of_k, _ = origins(k, between)
    origins(v, between)
    behind = upstream(of_q)
    x = next(iter(of_q.values()), None)
    is_self: bool | None = None
    shared = [node for at, node in of_q.items() if at in of_k]
    if not shared and of_q and of_k:  # two steps of projection, or a norm for each
        behind_k = upstream(of_k)
        shared = [node for at, node in behind.items() if at in behind_k]
        is_self = bool(shared)
    if shared:
        x, is_self = shared[0], True
    elif projections and of_k:
        is_self = False  # also of learned queries, which come from no tensor
    return Sources(x, projections, between, behind, is_self)


def origins(node: Node, between: dict[int, Node]) -> tuple[dict[int, Node], list[Node]]:
    """What the projections were given that made `node`, and these projections."""
    found: dict[int, Node] = {}
    projections: list[Node] = []
    seen = {node.at}
    queue = [node]
    for one in queue:
        between[one.at] = one
        if is_projection(one):
            projections.append(one)
            given = base(projected(one))
            if given.is_data:
                found[given.at] = given
            continue
        if one.name in LOOKUPS or is_softmax(one) or is_product(one):
            continue
        for given in one.inputs:
            if given.at not in seen and given.is_data and len(seen) < FAR and is_float(given.meta):
                seen.add(given.at)
                queue.append(given)
    return found, projections


def upstream(start: dict[int, Node]) -> dict[int, Node]:
    """All that these were made of, up to where the residual stream was last added to."""
    seen = dict(start)
    queue = list(start.values())
    for one in queue:
        if is_sum(one) or one.name in LOOKUPS or is_product(one):
            continue
        for given in one.inputs if one.norm_of is None else (one.norm_of,):
            if given.at not in seen and given.is_data and len(seen) < FAR:
                seen[given.at] = given
                queue.append(given)
    return seen


def is_pooled(node: Node) -> bool:
    """Whether each row [B, C] is what is left of several tokens, their mean or one of them: similar to others of a
    batch, and no token that attends."""
    node = base(node)
    rows = node.shape[0] if len(node.shape) == 2 else 0
    seen = {node.at}
    queue = [node] if rows > 1 else []
    for one in queue:
        for given in one.inputs:
            if not given.is_data or not is_float(given.meta) or given.at in seen or len(seen) > FAR:
                continue
            if len(given.shape) > 2 and is_left_of(one, given):
                return True
            if len(given.shape) == 2 and given.shape[0] == rows:
                seen.add(given.at)
                queue.append(given)
    return False


def is_left_of(part: Node, whole: Node) -> bool:
    """Whether it has of each first dim of a whole only some."""
    one, other = part.meta, whole.meta
    is_view = one.storage is not None and one.storage == other.storage
    is_first = not is_view or (one.stride or ())[:1] == (other.stride or ())[:1]
    return one.shape[:1] == other.shape[:1] and len(one.shape) == 2 and one.nbytes < other.nbytes and is_first
