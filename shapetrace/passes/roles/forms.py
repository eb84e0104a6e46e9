"""Walk from a value to other forms of it: reshaped, cast, scaled, repeated; and back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .functions import CASTS, DROPOUTS, LAYOUTS, LINEARS, LOOKUPS, PARTS, PRODUCTS, QUOTIENTS, SHAPING, TIMES

if TYPE_CHECKING:
    from .flow import Flow, Node

__all__ = [
    "FAR",
    "after",
    "base",
    "dropped",
    "given_out",
    "has_name",
    "is_projection",
    "projected",
    "settled",
    "single",
    "trail",
    "uncut",
    "unscaled",
    "width",
]

FAR = 96
"""How many nodes to look at in one direction. No block that was met needs half of that."""

SAME = LAYOUTS | CASTS | {"dropout"}


def base(node: Node) -> Node:
    """What it is another form of: without reshaping, casts and dropout."""
    while node.inputs and (node.name in SAME or (node.name == "getitem" and node.inputs[0].shape == node.shape)):
        node = node.inputs[0]
    return node


def unscaled(node: Node) -> Node:
    """What it is another form of, up to a factor and a bias.

    An embedding that was scaled counts as scaled, unless it is used as it was before.
    """
    steps = [base(node)]
    while (before := without_scale(steps[-1])) is not None:
        steps.append(before)
    if steps[-1].name in LOOKUPS:
        return next((step for step in reversed(steps) if len(step.users) > 1), steps[0])
    return steps[-1]


def without_scale(node: Node) -> Node | None:
    """What it is a multiple of, or that with a bias."""
    before: Node | None = None
    if node.norm_of is not None:  # its weight and bias are part of it
        return None
    if node.name in TIMES or node.name in QUOTIENTS:
        before = single(node) or only_data(node)
    elif node.name == "add" and any(given.is_weight and len(given.shape) <= 1 for given in node.inputs):
        before = only_data(node)
    return None if before is None or before.shape != node.shape else base(before)


def uncut(node: Node) -> Node:
    """What it is a part of, that is as wide: some of the tokens, or one of them."""
    while node.name in PARTS and node.inputs and width(node.inputs[0]) == width(node):
        node = base(node.inputs[0])
    return node


def only_data(node: Node) -> Node | None:
    """The one of its inputs that depends on the data, if it is one."""
    data = [given for given in node.inputs if given.is_data]
    return data[0] if len(data) == 1 else None


def single(node: Node) -> Node | None:
    """What it was made of, if that is one tensor and, maybe, numbers."""
    if len(node.inputs) == 1:
        return node.inputs[0]
    tensors = [given for given in node.inputs if given.is_data or math.prod(given.shape) != 1]
    return tensors[0] if len(tensors) == 1 else None


def trail(node: Node) -> list[Node]:
    """It, and what it is another form of, step by step back: reshaped, cast, repeated, scaled by a number."""
    found = [node]
    while len(found) < FAR:
        before: Node | None = None
        if node.name in SHAPING or node.name in DROPOUTS:
            before = node.inputs[0] if node.inputs else None
        elif node.name in TIMES or node.name in QUOTIENTS:
            before = single(node)
            if before is not None and before.shape != node.shape:
                break
        elif node.name == "getitem" and node.inputs and math.prod(node.inputs[0].shape) == math.prod(node.shape):
            before = node.inputs[0]
        if before is None:
            break
        found.append(before)
        node = before
    return found


def after(node: Node) -> Iterator[Node]:
    """The forms that a value goes on in."""
    for _ in range(12):
        forms = (user for user in node.users if user.name in LAYOUTS or user.name in CASTS)
        following = next((user for user in forms if user.inputs[0] is node), None)
        if following is None:
            return
        node = following
        yield node


def dropped(node: Node) -> list[Node]:
    """What it is after dropout, which in eval is the same tensor."""
    return [user for user in node.users if user.name in DROPOUTS and user.inputs[0] is node]


def settled(node: Node, dims: int) -> Node:
    """What a projection made of flattened tokens, with as many dims as they had before."""
    for step in after(node):
        if len(node.shape) >= dims or len(step.shape) > dims or step.shape[-1:] != node.shape[-1:]:
            break
        node = step
    return node


def given_out(
    node: Node, flow: Flow, whole: tuple[int, ...], *, same_dims: bool = False, scaled: bool = False
) -> list[Node]:
    """A value as the model gives it as a result, if that is another form or a part of what it uses itself.

    whole   the dims that a part must have whole; those counted from the left tell that it has as many dims
    scaled  whether a multiple is another form, too
    """
    if not flow.handed or node.at in flow.handed:
        return []
    found: list[Node] = []
    seen = {node.at}
    queue = [node]
    for one in queue:
        for user in one.users:
            if user.at in seen or len(seen) > FAR or user.inputs[0] is not one:
                continue
            is_multiple = scaled and without_scale(user) is base(one)
            if is_multiple or user.name in LAYOUTS or (user.name == "getitem" and has_whole(user, one, whole)):
                seen.add(user.at)
                queue.append(user)
                if user.at in flow.handed and (len(user.shape) == len(node.shape) or not same_dims):
                    found.append(user)
    return found


def has_whole(part: Node, of: Node, dims: tuple[int, ...]) -> bool:
    if len(part.shape) != len(of.shape) and (min(dims) >= 0 or not part.shape):
        return False
    return all(part.shape[dim] == of.shape[dim] for dim in dims)


def width(node: Node) -> int:
    """Size of its last dim."""
    return node.shape[-1] if node.shape else 1


def has_name(node: Node, flow: Flow) -> bool:
    """Whether the code assigns it to a variable."""
    return any(flow.calls[index].variable(key) is not None for index, key in node.places)


def is_projection(node: Node) -> bool:
    """A product with what is no activation: `linear`, or a product with a parameter."""
    if node.name in LINEARS:
        return bool(node.inputs)
    return node.name in PRODUCTS and any(given.is_weight for given in node.inputs)


def projected(node: Node) -> Node:
    """What a projection was given."""
    inputs = node.inputs[1:] if node.name == "addmm" else node.inputs  # the first is the bias
    return next((given for given in inputs if not given.is_weight), node.inputs[0])
