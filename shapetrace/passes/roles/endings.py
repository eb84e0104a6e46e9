"""Whether a projection behind attention is no part of it, but what the model says: scores of tokens, of classes."""

from __future__ import annotations

from .flow import Flow, Node
from .forms import FAR, only_data, trail, width
from .functions import ACTIVATIONS, DROPOUTS, JOINS, LOOKUPS, LOSSES, PARTS, QUOTIENTS, SHAPING, SOFTMAX, SUMS, TIMES
from .sources import Sources
from .sums import added_to

__all__ = ["is_of_attention"]

CHOICES = LOSSES | frozenset(
    """binary_cross_entropy binary_cross_entropy_with_logits multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss""".split()
)
"""Losses over classes. One that compares values, as the mean of squares, also teaches a layer to attend."""

FORMS = SHAPING | PARTS | JOINS | DROPOUTS | {"pad"}
SCALING = SUMS | TIMES | QUOTIENTS
SQUASHING = ACTIVATIONS | SOFTMAX | {"log_softmax", "clamp"}


def is_of_attention(out: Node, output: Node, origin: Sources, flow: Flow) -> bool:
    """Whether a projection behind the output of an attention is part of it: it is added to what that was made of; or it
    is made where the queries are, from what that module was given. Where a model embeds, and says something, it is not.
    """
    if is_ending(out, output, origin, flow):
        return False
    if origin.x is None or added_to(out, origin.behind) is not None:
        return True
    module = flow.around(*origin.projections, output, out)
    given = origin.x
    while given.norm_of is not None:
        given = given.norm_of
    if trail(given)[-1].meta.name is not None:  # queries that are learned
        return True
    return given.index < max(module, 0)


def is_ending(out: Node, output: Node, origin: Sources, flow: Flow) -> bool:
    """Whether a loss over classes reads it; or a model of tokens gives it as a result, in another width than that of
    what attends, or where queries are no projections. Not what is added to other values, or projected again, first."""
    is_bare = origin.x is None and not origin.projections
    is_other = (is_bare or width(out) != width(origin.x or output)) and any(is_lookup(node) for node in flow.nodes)
    seen = {out.at}
    queue = [out]
    for node in queue:
        if is_other and node.at in flow.handed:
            return True
        for user in node.users:
            if user.name in CHOICES and user.inputs[0] is node:
                return True
            is_scaled = user.name in SCALING and only_data(user) is node
            if user.at not in seen and len(seen) < FAR and (user.name in FORMS | SQUASHING or is_scaled):
                seen.add(user.at)
                queue.append(user)
    return False


def is_lookup(node: Node) -> bool:
    """Of something that the model was given."""
    return node.name in LOOKUPS and len(node.inputs) > 1 and node.inputs[0].is_data
