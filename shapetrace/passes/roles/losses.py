"""The loss: of torch's own functions, or written out as what a model gives of logits and targets."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..plumbing import is_float
from .flow import Flow, Node
from .forms import base, unscaled
from .functions import CASTS, DIFFERENCES, LAYOUTS, LOSSES, OTHER_LOSSES, PARTS, PICKS, QUOTIENTS, SHAPING, SUMS, TIMES
from .products import softmax_of
from .sums import is_made_of

__all__ = ["before_softmax", "losses"]

Loss = tuple[Node, Node | None]
"""A loss as it leaves the model, and its logits as they were before they were shifted and flattened, if it has some."""


def losses(flow: Flow) -> list[Loss]:
    found = [
        (final(node, flow), unflattened(node.inputs[0], flow))
        for node in flow.nodes
        if node.name in LOSSES and node.inputs and node.key in ("", "0")
    ]
    known = {loss.at for loss, _ in found}
    return found + [loss for loss in written_out(flow) if loss[0].at not in known]


def final(loss: Node, flow: Flow) -> Node:
    """As it leaves the model: reduced, and added to others."""
    loss = reduced(loss)
    for _ in range(6):
        following = next((user for user in loss.users if user.name in SCALING and math.prod(user.shape) == 1), None)
        if following is None or loss.at in flow.handed:
            break
        loss = following
    return loss


def reduced(loss: Node) -> Node:
    """The mean of a loss of each token, if there is one; else what there is."""
    queue = [loss]
    for node in queue:
        if math.prod(node.shape) == 1 or len(queue) > 12:
            return node if math.prod(node.shape) == 1 else loss
        queue += [user for user in node.users if user.name in WITHIN and user not in queue]
    return loss


SCALING = SUMS | TIMES | QUOTIENTS | CASTS

WITHIN = (
    SCALING | LAYOUTS | PARTS | frozenset("mean sum neg where masked_fill masked_select nanmean nansum log".split())
)
"""What may lie between a loss and what it is the mean of."""


def unflattened(node: Node, flow: Flow) -> Node | None:
    """Back from what a loss was given to what the model hands out, or else to where it was made."""
    for _ in range(24):
        is_form = node.name in SHAPING or node.name in PARTS or node.name == "pad"
        is_given = node.at in flow.handed and len(node.shape) > 1 and before_softmax(node) is None
        if not node.inputs or is_given or not (is_form or node.name == "log_softmax"):
            break
        node = node.inputs[0]
    return node if node.index >= 0 and node.is_data else None


def before_softmax(node: Node) -> Node | None:
    """What softmax or its logarithm was taken of, if `node` is that, or another form of it."""
    node = base(node)
    return softmax_of(node) or before_logarithm(node)


def before_logarithm(node: Node) -> Node | None:
    """What the logarithm of softmax was taken of: `log_softmax`, or the same by hand."""
    node = base(node)
    if node.name == "log_softmax":
        return node.inputs[0]
    if node.name in DIFFERENCES and len(node.inputs) == 2:
        x, total = node.inputs
        return x if is_sum_of_exponentials(total, x) else None
    if node.name == "log" and node.inputs:
        return softmax_of(unscaled(node.inputs[0]))
    return None


def is_sum_of_exponentials(total: Node, x: Node) -> bool:
    total = base(total)
    return total.name == "logsumexp" and base(total.inputs[0]) is base(x)


# Written out

FAR = 48


def written_out(flow: Flow) -> Iterator[Loss]:
    """Single numbers that the model gives, or that nothing further is made of, and that compare what was made with
    targets: a logarithm of softmax by them, or a difference from them."""
    for node in flow.nodes:
        if node.index >= 0 and not node.shape and node.is_data and is_float(node.meta) and is_end(node, flow):
            found = next(compared(node, flow), None)
            if found is not None:
                scores = found[0]
                yield node, None if scores is None else unflattened(scores, flow)


def is_end(node: Node, flow: Flow) -> bool:
    is_outside = flow.parents[node.index] < 0 and flow.calls[node.index].kind != "module"
    return node.at in flow.handed or (is_outside and not any(is_float(user.meta) for user in node.users))


def compared(total: Node, flow: Flow) -> Iterator[tuple[Node | None]]:
    """What a loss was taken of, as (logits,) or, of values, (None,)."""
    seen = {total.at}
    queue = [total]
    for node in queue:
        if node.name in OTHER_LOSSES:
            yield (node.inputs[0] if "with_logits" in node.name else None,)
        yield from of_values(node)
        if not is_picked(node) and node.name not in WITHIN:
            continue
        for given in node.inputs[:1] if node.name in PICKS else node.inputs:
            if given.is_data and given.at not in seen and len(seen) < FAR and is_float(given.meta):
                seen.add(given.at)
                queue.append(given)
    if any(is_less(node, flow) for node in queue):
        yield from of_choices(queue)


def is_picked(node: Node) -> bool:
    """Whether it is what stands at some places, as targets tell them."""
    return node.name in PICKS and any(given.is_data and given.meta.dtype.startswith("int") for given in node.inputs[1:])


def is_less(node: Node, flow: Flow) -> bool:
    """Whether it takes off: of a likelihood that is wanted high, what is left is a loss."""
    if node.name in TIMES or node.name in QUOTIENTS:
        return any(text.startswith("-") for text in flow.calls[node.index].literals.values())
    return node.name == "neg" or node.name in DIFFERENCES


def of_choices(nodes: list[Node]) -> Iterator[tuple[Node]]:
    """Logits of which the targets were picked: after the logarithm of softmax, or beside it."""
    is_logarithm = any(node.name == "log" for node in nodes)
    for node in nodes:
        if is_picked(node):
            source = base(node.inputs[0])
            while source.name == "neg" or source.name in SHAPING:
                source = base(source.inputs[0])
            scores = before_logarithm(source) or (softmax_of(source) if is_logarithm else None)
            if scores is None and any(one.name == "logsumexp" and is_sum_of_exponentials(one, source) for one in nodes):
                scores = source
            if scores is not None:
                yield (scores,)
        elif node.name in TIMES and len(node.inputs) == 2:
            for one, other in (node.inputs, node.inputs[::-1]):
                scores = before_logarithm(one)
                if scores is not None and other.is_data and not is_made_of(other, base(scores)):
                    yield (scores,)


def of_values(node: Node) -> Iterator[tuple[None]]:
    """A squared or absolute difference from what the model was given; or that times a logarithm, as of two classes."""
    inner = [base(given) for given in dict.fromkeys(node.inputs) if given.is_data]
    is_square = node.name in TIMES and len(node.inputs) == 2 and len({one.inputs for one in inner}) == 1
    if node.name in ("pow", "square", "abs") or is_square:
        pair = inner[0].inputs if inner and inner[0].name in DIFFERENCES else ()
        if len(pair) == 2 and all(one.is_data for one in pair) and is_given(pair[0]) is not is_given(pair[1]):
            yield (None,)
    elif node.name in TIMES and len(inner) == 2:
        for one, other in (inner, inner[::-1]):
            if one.name in LOGARITHMS and is_given(other):
                yield (None,)


LOGARITHMS = frozenset("log log1p logsigmoid log_sigmoid softplus".split())


def is_given(node: Node) -> bool:
    """Whether the model was given it, in this form or another."""
    for _ in range(8):
        if node.index < 0:
            return node.is_data
        data = [given for given in node.inputs if given.is_data]
        if len(data) != 1 or node.name not in FORMS:
            return False
        node = data[0]
    return False


FORMS = SHAPING | PARTS | SUMS | TIMES | QUOTIENTS
