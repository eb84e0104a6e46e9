"""The tensors around a product: q, k and v by heads before it, the heads' output and its way out after it."""

from __future__ import annotations

import math

from ..plumbing import is_float
from .flow import Flow, Node
from .forms import after, base, has_name, is_projection, projected, trail, width
from .functions import CASTS, DIFFERENCES, DROPOUTS, FUSED, JOINS, LAYOUTS, PARTS, QUOTIENTS, SHAPING, TIMES
from .products import is_flip, is_product

__all__ = ["by_heads", "way_out"]


def by_heads(operand: Node, size: int, flow: Flow, *, turned: bool = False) -> Node:
    """The tensor to call q, k or v: what enters a product, in its form by heads, before it is repeated or turned.

    size   of a head: D
    """
    steps = trail(operand)
    sizes = [math.prod(step.shape) for step in steps]
    start = max((place for place in range(1, len(steps)) if sizes[place] < sizes[place - 1]), default=0)
    if turned:
        places = (place for place in range(1, len(steps)) if is_flip(steps[place], steps[place - 1]))
        flip = next(places, 0)
        if (
            by_head(steps[:flip], size) is None or by_head(steps[flip:], size) is not None
        ):  # else heads were split after
            start = max(start, flip)
    return named(steps[start + (by_head(steps[start:], size) or 0) :], flow)


def by_head(steps: list[Node], size: int) -> int | None:
    """The place of the first that is in a form by heads."""
    return next((place for place, step in enumerate(steps) if is_split(step, size)), None)


def is_split(node: Node, size: int) -> bool:
    return len(node.shape) == 4 and size in node.shape[-2:]


def named(steps: list[Node], flow: Flow) -> Node:
    """The first, or what it is a multiple of, if only that has a name."""
    for step in steps:
        if has_name(step, flow):
            return step
        if step.name not in TIMES and step.name not in QUOTIENTS and step.name not in CASTS:
            break
    return steps[0]


def way_out(output: Node) -> tuple[Node, Node | None, Node | None]:
    """The heads' output by heads, what joins the heads, and the output projection of that."""
    head = output
    if len(output.shape) != 4:
        head = next(
            (step for step in after(output) if len(step.shape) == 4 and step.shape[-1] == width(output)), output
        )
    steps = [output, *after(head)]
    concat = joined(steps, head, output) or joined_with_others(steps[-1])
    out = projection_after(concat or steps[-1])
    if out is None or (concat is not None and not is_whole(out, concat)):
        return head, concat, None
    given = projected(out)
    is_by_heads = len(out.shape) == 4 and out.shape[:-1] == given.shape[:-1] and width(given) == width(head)
    if concat is None and is_by_heads:  # each head has its own
        _, concat, out = way_out(out)
        return head, concat, out
    if concat is None and len(given.shape) < len(head.shape) and width(given) > width(head):
        concat = given  # joined only after a gate
    return head, concat, out


def joined(steps: list[Node], head: Node, output: Node) -> Node | None:
    """The last form in which the heads of a token lie side by side; of several, before tokens are flattened. A single
    head does so where its dim is gone."""
    is_single = len(output.shape) == 4 and output.shape[1] == 1
    length = max(1, output.shape[-2]) if len(output.shape) > 1 else 1
    flatter = [
        step
        for step in steps
        if 2 <= len(step.shape) < max(4, len(head.shape))
        and (width(step) > width(head) or (is_single and width(step) == width(head)))
        and math.prod(step.shape[:-1]) % length == 0
    ]
    return max(reversed(flatter), key=lambda step: len(step.shape), default=None)


def joined_with_others(node: Node) -> Node | None:
    """What joins it with the outputs of other heads, where each head attends alone."""
    for user in node.users:
        if user.name in JOINS and len(user.inputs) > 1 and all(is_product(base(given)) for given in user.inputs):
            return user if len(user.shape) == len(node.shape) == 3 and width(user) > width(node) else None
    return None


def is_whole(out: Node, concat: Node) -> bool:
    """Whether a projection is of all tokens, padding aside: not so for that of one expert."""
    is_cut = len(out.shape) == len(concat.shape) > 2 and out.shape[0] == concat.shape[0]
    return is_cut or math.prod(out.shape[:-1]) == math.prod(concat.shape[:-1])


GATES = SHAPING | DROPOUTS | TIMES | JOINS | PARTS | DIFFERENCES


def projection_after(node: Node) -> Node | None:
    """What the joined heads are projected to, through gates and norms, before anything is added."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        for user in one.users:
            if is_projection(user) and projected(user) is one:
                return user
        for user in one.users:
            if user.at in seen or len(seen) > 24 or not is_float(user.meta):
                continue
            if user.name in LAYOUTS and user.inputs[0] is not one:
                continue
            is_merged = user.name == "add" and all(map(is_output, user.inputs))
            if user.name in GATES or user.norm_of is not None or is_merged:
                seen.add(user.at)
                queue.append(user)
    return None


def is_output(node: Node) -> bool:
    """Whether it is what some attention gives, through gates: of several that are added up, each."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        if is_product(one) or one.name in FUSED:
            return True
        for given in one.inputs if one.name in GATES or one.norm_of is not None else ():
            if given.at not in seen and given.is_data and len(seen) < 24:
                seen.add(given.at)
                queue.append(given)
    return False
