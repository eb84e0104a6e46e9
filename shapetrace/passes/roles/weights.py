"""From a softmax on to the product with the values."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..plumbing import is_float
from .flow import Flow, Node
from .forms import FAR, is_projection
from .functions import DROPOUTS, LAYOUTS, LINEARS, PARTS, PRODUCTS, QUOTIENTS, SHAPING, SUMS, TIMES
from .products import is_softmax
from .talking import is_map_of_heads

__all__ = ["Use", "canonical_weights", "use_of"]

RELAID = frozenset("pad as_strided cat roll flip gather index_put merge setitem scatter".split())
"""What lays weights out anew for a product in chunks."""

WITHIN = (
    SHAPING
    | PARTS
    | DROPOUTS
    | TIMES
    | SUMS
    | QUOTIENTS
    | RELAID
    | frozenset("masked_fill where nan_to_num tril triu".split())
) - {"gather"}
"""What may lie between softmax and the values."""


class Use(NamedTuple):
    """product   of weights and values
    path      from softmax to what enters it
    values    the other thing that enters it
    """

    product: Node
    path: list[Node]
    values: Node


def use_of(softmax: Node, flow: Flow) -> Use | None:
    """The product that weights go into; None if they go into none with an activation."""
    before: dict[int, Node | None] = {softmax.at: None}
    queue = [softmax]
    for node in queue:
        for user in node.users:
            others = multiplied(user, node)
            if others is not None and not is_mixture(others):
                return Use(user, way(node, before), others)
        for user in node.users:
            if user.at in before or len(before) > FAR or not is_float(user.meta):
                continue
            if user.name in TIMES and math.prod(user.shape) > math.prod(node.shape):
                found = weighted_sum(user, node)
                if found is not None:
                    return Use(found[0], way(node, before), found[1])
            elif goes_on(user, node) or is_map_of_heads(user, flow):
                before[user.at] = node
                queue.append(user)
    return None


def goes_on(user: Node, node: Node) -> bool:
    """Whether these are still the weights."""
    if user.name in PRODUCTS:
        return multiplied(user, node) is not None  # with weights
    if user.name in SUMS:  # a difference of two is one (Ye et al., 2024)
        return all(given is node or not given.is_data or is_mixture(given) for given in user.inputs)
    return user.name in WITHIN


def way(node: Node | None, before: dict[int, Node | None]) -> list[Node]:
    found: list[Node] = []
    while node is not None:
        found.append(node)
        node = before[node.at]
    return found[::-1]


def multiplied(user: Node, weights: Node) -> Node | None:
    """What `user` multiplies weights with, if it is a product with an activation."""
    pair = user.inputs[-2:]
    if user.name not in PRODUCTS or len(pair) != 2 or not any(one is weights for one in pair):
        return None
    other = pair[0] if pair[1] is weights else pair[1]
    return other if other.is_data and not other.is_weight and is_float(other.meta) else None


def weighted_sum(spread: Node, weights: Node) -> tuple[Node, Node] | None:
    """The sum over what weights were spread over and multiplied with, element by element, and this."""
    total = next((user for user in spread.users if user.name == "sum"), None)
    other = next((given for given in spread.inputs if given is not weights and given.is_data), None)
    return None if total is None or other is None else (total, other)


def is_mixture(node: Node) -> bool:
    """Whether it is made of nothing but weights: a product with it gives weights again."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        if is_softmax(one):
            continue
        data = [given for given in one.inputs if given.is_data]
        if not data or is_projection(one) or len(seen) > FAR:
            return False
        for given in data:
            if given.at not in seen:
                seen.add(given.at)
                queue.append(given)
    return True


def canonical_weights(path: list[Node]) -> Node:
    """The tensor to call weights, of all on the way from softmax to the values.

    The last before they are laid out anew, after casts, dropout and masks; of several views of that, the one by heads.
    """
    last = 0
    for place in range(1, len(path)):
        if path[place].name in RELAID or is_one_of_many(path[place], path[place - 1]):
            break
        last = place
    first = last
    while first > 0 and path[first].name in LAYOUTS and path[first].name != "clone":
        first -= 1
    first += path[first].name in LINEARS and first < last  # a map of heads is of what was turned
    views = path[first : last + 1]
    beside = [user for node in reversed(views) for user in node.users if user.name in LAYOUTS]
    return next((node for node in (*views, *beside) if len(node.shape) == 4), views[-1])


def is_one_of_many(part: Node, whole: Node) -> bool:
    """Whether other parts of the same weights go into other products."""
    if part.name not in PARTS or math.prod(part.shape) == math.prod(whole.shape):
        return False
    others = [user for user in whole.users if user.name in PARTS and user is not part]
    return any(user.name in PRODUCTS for other in others for user in other.users)
