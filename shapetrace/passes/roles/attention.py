"""Find attention: a softmax over a product of two activations, whose result goes into a product with a third."""

from __future__ import annotations

import msgspec

from ..plumbing import is_float
from .endings import is_of_attention
from .flow import Flow, Node
from .forms import after, base, given_out, projected, settled, width
from .functions import FUSED, JOINS
from .heads import by_heads, way_out
from .masks import Masks
from .products import contracted, dim_of, factors, softmax_of, turns
from .scores import named_scores, way_to_softmax
from .sources import Sources, is_pooled, sources
from .talking import is_map_of_heads
from .weights import canonical_weights, use_of

__all__ = ["Attention", "attentions"]


class Attention(msgspec.Struct, frozen=True, eq=False):
    """One attention, by its tensors; None where there is no such tensor.

    output     the product of weights and values, or the result of the fused call
    operands   queries, keys and values as they enter the products
    weights    several, if the model gives parts of them as results; none in a fused call
    fused      index of the call that does it as a whole
    """

    output: Node
    operands: tuple[Node, Node, Node]
    q: Node
    k: Node
    v: Node
    scores: Node | None
    weights: tuple[Node, ...]
    head_output: Node
    concat: Node | None
    attn_out: Node | None
    sources: Sources
    is_causal: bool
    fused: int | None = None

    @property
    def end(self) -> Node:
        """Its output; of one head of several that attend one by one, what all heads together come to."""
        if self.concat is not None and self.concat.name in JOINS:
            return self.attn_out or self.concat
        return self.output


def attentions(flow: Flow, masks: Masks) -> list[Attention]:
    """In the order in which their outputs are made."""
    found: list[Attention] = []
    for node in flow.nodes:
        one = None
        if node.name in FUSED:
            one = fused(node, flow, masks)
        elif (start := softmax_of(node)) is not None:
            one = written_out(node, start, flow, masks)
        if one is not None:
            found.append(one)
    return without_others(once(found, flow))


def written_out(softmax: Node, start: Node, flow: Flow, masks: Masks) -> Attention | None:
    path = way_to_softmax(start, flow)
    use = use_of(softmax, flow) if path else None
    if use is None:
        return None
    product = path[0]
    if any(is_map_of_heads(node, flow) for node in path) and product.shape[-2:] != start.shape[-2:]:
        return None
    q, k = factors(product, flow)
    if is_pooled(q) and is_pooled(k):
        return None
    is_turned = turns(softmax, path, use.path, use.product, flow)
    if is_turned:
        q, k = k, q
    size = contracted(product, flow)
    weights = canonical_weights(use.path)
    dim = dim_of(softmax, flow)
    return around(
        use.product,
        (q, k, use.values),
        by_heads(q, size, flow, turned=is_turned),
        by_heads(k, size, flow, turned=not is_turned),
        flow,
        scores=named_scores(path, weights, flow),
        weights=tuple(given_out(weights, flow, (0, 1), same_dims=True)) or (weights,),
        is_causal=masks.hide_later(path, dim) or masks.drop_later(use.path, dim),
    )


def fused(node: Node, flow: Flow, masks: Masks) -> Attention | None:
    literals = flow.calls[node.index].literals
    given = dict(zip(node.keys, node.inputs, strict=True))
    q, k, v, mask = (
        given.get(name, given.get(place)) for place, name in enumerate_keys("query", "key", "value", "attn_mask")
    )
    if (
        q is None
        or k is None
        or v is None
        or min(len(q.shape), len(k.shape)) < 2
        or node.key not in ("", "0")
        or not is_float(node.meta)
    ):
        return None
    is_causal = literals.get("is_causal", literals.get("5")) == "True" or (mask is not None and masks.hides_later(mask))
    size = width(q)
    return around(
        node,
        (q, k, v),
        by_heads(q, size, flow),
        by_heads(k, size, flow),
        flow,
        is_causal=is_causal,
        fused=node.index,
    )


def enumerate_keys(*names: str) -> list[tuple[str, str]]:
    """Each argument by its position, and by its name."""
    return [(str(place), name) for place, name in enumerate(names)]


def around(
    output: Node,
    operands: tuple[Node, Node, Node],
    q: Node,
    k: Node,
    flow: Flow,
    *,
    scores: Node | None = None,
    weights: tuple[Node, ...] = (),
    is_causal: bool,
    fused: int | None = None,
) -> Attention:
    """What lies before and after the products, and the whole."""
    values = operands[2]
    v = by_heads(values, width(values), flow)
    head_output, concat, attn_out = way_out(output)
    origin = sources(*operands)
    if attn_out is not None and not is_of_attention(attn_out, output, origin, flow):
        attn_out = None
    if attn_out is not None and origin.x is not None:
        attn_out = settled(attn_out, dims_given(origin, output, flow) or len(origin.x.shape))
    return Attention(
        output, operands, q, k, v, scores, weights, head_output, concat, attn_out, origin, is_causal, fused
    )


def dims_given(origin: Sources, output: Node, flow: Flow) -> int | None:
    """How many dims what attends has where the module that attends is given it: outside it may have others."""
    module = flow.around(*origin.projections, output)
    node = projected(origin.projections[0]) if origin.projections and module >= 0 else None
    while node is not None and node.index > module:
        node = node.inputs[0] if node.inputs and base(node) is not node else None
    return None if node is None else len(node.shape)


def once(found: list[Attention], flow: Flow) -> list[Attention]:
    """Without what is part of another: a product of attentions is one, and so is one that is computed twice, for one
    half of the values and for the other. Of two, the one whose weights the model gives as a result; else the last."""
    values = {base(one.operands[2]).at for one in found}
    kept: dict[tuple[int, int], Attention] = {}
    for one in found:
        if base(one.output).at in values or any(step.at in values for step in after(one.output)):
            continue
        before = kept.get((one.q.at, one.k.at))
        if before is None or not any(node.at in flow.handed for node in before.weights):
            kept[one.q.at, one.k.at] = one
    return sorted(kept.values(), key=lambda one: one.output.at)


def without_others(found: list[Attention]) -> list[Attention]:
    """Where one attends to what another gives as it is, the projections of its queries, keys and values are its own."""
    projections = {at for one in found for at in one.sources.between}
    return [
        msgspec.structs.replace(one, attn_out=None) if one.attn_out and one.attn_out.at in projections else one
        for one in found
    ]
