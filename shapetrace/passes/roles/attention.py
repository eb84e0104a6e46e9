"""Find attention: a softmax over a product of two activations, whose result goes into a product with a third."""

from __future__ import annotations

from collections.abc import Iterator

from ...schema import Call
from ..plumbing import is_float
from .flow import Flow, Node, base, is_projection, numel, projected, single
from .functions import (
    CASTS,
    DIFFERENCES,
    DROPOUTS,
    FUSED,
    JOINS,
    LAYOUTS,
    LOOKUPS,
    PARTS,
    PRODUCTS,
    QUOTIENTS,
    SHAPING,
    SOFTMAX,
    SUMS,
    TIMES,
    WITHIN_SCORES,
    WITHIN_WEIGHTS,
)

__all__ = ["Attention", "attentions", "given_out", "handed_out"]

MOST = 96
"""How many steps to look in one direction."""


class Attention:
    """One attention: the nodes of its tensors, None where there is no such tensor.

    fused       the call that does it as a whole; then there are no scores and no weights
    operands    what enters the product as queries and as keys
    visited     what q was made of, up to the residual stream
    is_self     whether queries and keys come from one tensor; None if that cannot be told
    """

    __slots__ = (
        "attn_out",
        "concat",
        "fused",
        "given",
        "head_output",
        "inside",
        "is_causal",
        "is_self",
        "k",
        "operands",
        "output",
        "product",
        "projections",
        "q",
        "scores",
        "softmax",
        "v",
        "visited",
        "weights",
        "x",
    )

    def __init__(self, output: Node) -> None:
        self.output = output
        self.fused: int | None = None
        self.softmax: Node | None = None
        self.product: Node | None = None
        self.operands: tuple[Node, ...] = ()
        self.q: Node | None = None
        self.k: Node | None = None
        self.v: Node | None = None
        self.scores: Node | None = None
        self.weights: Node | None = None
        self.head_output: Node | None = None
        self.concat: Node | None = None
        self.attn_out: Node | None = None
        self.x: Node | None = None
        self.given: list[Node] = []
        self.projections: list[Node] = []
        self.visited: dict[int, Node] = {}
        self.inside: dict[int, Node] = {}
        self.is_self: bool | None = None
        self.is_causal = False


def attentions(flow: Flow) -> list[Attention]:
    """In the order in which their outputs are made."""
    found: list[Attention] = []
    handed = handed_out(flow)
    for node in flow.nodes:
        if node.index < 0:
            continue
        if node.name in FUSED and node.key in ("", "0") and is_float(node.meta):
            one = fused(node, flow.calls[node.index])
        elif is_softmax(node):
            one = written_out(node, flow)
        else:
            continue
        if one is not None:
            found.append(one)
    found = once(found, handed)
    for one in found:
        if one.weights is not None:
            one.given = given_out(one.weights, handed)
    return found


def handed_out(flow: Flow) -> set[int]:
    """Places in the flow of what the outermost modules give as results."""
    return {
        node.at
        for node in flow.nodes
        if node.places and flow.parents[node.places[-1][0]] < 0 and flow.calls[node.places[-1][0]].kind == "module"
    }


def once(found: list[Attention], handed: set[int]) -> list[Attention]:
    """Without what is part of another: a product of attentions is one, and so is one that was computed twice, for
    one half of the values and the other."""
    values = {base(one.operands[2]).at for one in found}
    kept: dict[object, Attention] = {}
    for one in found:
        if base(one.output).at in values or any(step.at in values for step in after(one.output)):
            continue
        q, k = one.q, one.k
        key = (q.at if q else None, k.at if k else None)
        before = kept.get(key)
        if before is not None and before.weights is not None and before.weights.at in handed:
            continue
        kept[key] = one
    return sorted(kept.values(), key=lambda one: one.output.at)


def given_out(weights: Node, handed: set[int], kept: tuple[int, int] = (0, 1)) -> list[Node]:
    """A tensor as the model gives it as a result, if it gives another form or part of it than it uses itself.

    `kept` are the dims that a part must have whole.
    """
    if not handed or weights.at in handed:
        return []
    found: list[Node] = []
    seen = {weights.at}
    queue = [weights]
    for node in queue:
        for user in node.users:
            if user.at in seen or len(seen) > MOST:
                continue
            is_part = (
                user.name == "getitem"
                and len(user.shape) == len(node.shape)
                and all(user.shape[dim] == node.shape[dim] for dim in kept)
            )
            if is_part or (user.name in LAYOUTS and user.inputs[0] is node):
                seen.add(user.at)
                queue.append(user)
                if user.at in handed and (len(user.shape) == len(weights.shape) or kept != (0, 1)):
                    found.append(user)
    return found


def is_softmax(node: Node) -> bool:
    """`softmax`, or the same by hand: exponentials over their sum, or of what is less than its `logsumexp`."""
    if node.name in SOFTMAX:
        return len(node.shape) >= 2
    if node.name == "exp" and node.inputs and node.inputs[0].name in DIFFERENCES and len(node.inputs[0].inputs) == 2:
        x, total = node.inputs[0].inputs
        return total.name == "logsumexp" and total.inputs[0] is x
    if node.name in QUOTIENTS and len(node.inputs) == 2:
        top, bottom = node.inputs
        return top.name == "exp" and bottom.name == "sum" and bottom.inputs[0] is top
    return False


def fused(node: Node, call: Call) -> Attention | None:
    given = dict(zip(node.keys, node.inputs, strict=True))
    operands = [given.get(name, given.get(place)) for name, place in (("query", "0"), ("key", "1"), ("value", "2"))]
    q, k, v = operands
    if q is None or k is None or v is None or len(q.shape) < 2:
        return None
    found = Attention(node)
    found.fused = node.index
    found.operands = (q, k, v)
    width = q.shape[-1]
    found.q, found.k = form(q, width, False), form(k, width, False)
    found.v = form(v, v.shape[-1], False)
    mask = given.get("attn_mask", given.get("3"))
    causal = call.literals.get("is_causal", call.literals.get("5"))
    found.is_causal = causal == "True" or (mask is not None and mask.is_causal)
    finish(found)
    return found


def written_out(softmax: Node, flow: Flow) -> Attention | None:
    start = softmax.inputs[0] if softmax.name in SOFTMAX else softmax.inputs[0].inputs[0]
    product, scores_path = scores_of(start)
    if product is None:
        return None
    end = use_of(softmax, scores_path)
    if end is None:
        return None
    output, path, v = end
    found = Attention(output)
    found.softmax, found.product = softmax, product
    one, other, flipped = factors(product, flow)
    if is_turned(softmax, scores_path, flow):
        one, other = other, one
        flipped = not flipped
    q, k = one, other
    found.operands = (q, k, v)
    width = contracted(product, flow)
    found.q, found.k = form(q, width, flipped), form(k, width, not flipped)
    found.v = form(v, v.shape[-1], False)
    found.weights = weights_of(path)
    found.scores = scores(scores_path, found.weights, flow)
    found.is_causal = any(given.is_causal for node in scores_path for given in node.inputs)
    finish(found)
    return found


# From softmax back to the product


def is_product(node: Node) -> bool:
    """Of two activations."""
    if node.name in PRODUCTS:
        pair = node.inputs[-2:]
        return len(pair) == 2 and all(is_float(one.meta) and not one.is_weight for one in pair)
    if node.name == "sum" and node.inputs[0].name in TIMES:
        pair = node.inputs[0].inputs
        return len(pair) == 2 and all(one.is_data and one.shape != node.inputs[0].shape for one in pair)
    return False


def scores_of(start: Node) -> tuple[Node | None, list[Node]]:
    """The product that enters softmax, and what lies between, from the product on. Best is one of two activations
    that both depend on the data; a product with what is only computed from parameters is second best."""
    seen: dict[int, Node | None] = {start.at: None}
    queue = [start]
    second: Node | None = None
    found: Node | None = None
    for node in queue:
        if is_product(node):
            if all(factor.is_data for factor in pair_of(node)):
                found = node
                break
            if any(factor.is_data for factor in pair_of(node)):
                second = second or node
            continue
        if node.name not in WITHIN_SCORES or len(seen) > MOST:
            continue
        for given in node.inputs:
            if given.is_data and given.at not in seen and is_float(given.meta):
                seen[given.at] = node
                queue.append(given)
    found = found or second
    path: list[Node] = []
    step = found
    while step is not None:
        path.append(step)
        step = seen[step.at]
    return found, path


def pair_of(product: Node) -> list[Node]:
    return product.inputs[0].inputs if product.name == "sum" else product.inputs[-2:]


# From softmax on to the product with the values


def use_of(softmax: Node, scores_path: list[Node]) -> tuple[Node, list[Node], Node] | None:
    """The product that weights go into, the way to it, and what they are multiplied with."""
    seen: dict[int, Node | None] = {softmax.at: None}
    queue = [softmax]
    for node in queue:
        for user in node.users:
            other = values(user, node)
            if other is not None and is_mixture(other):
                if user.at not in seen:
                    seen[user.at] = node
                    queue.append(user)
                continue
            if other is not None:
                path = [node]
                while (before := seen[path[-1].at]) is not None:
                    path.append(before)
                return user, path[::-1], other
        if len(seen) > MOST:
            continue
        for user in node.users:
            if user.at not in seen and user.name in WITHIN_WEIGHTS and is_float(user.meta):
                if user.name in SUMS and any(given.is_data and given is not node for given in user.inputs):
                    continue
                if user.name in TIMES and numel(user.shape) > numel(node.shape):
                    total = next((one for one in user.users if one.name == "sum"), None)
                    others = [given for given in user.inputs if given is not node and given.is_data]
                    if total is not None and others:
                        path = [node]
                        while (before := seen[path[-1].at]) is not None:
                            path.append(before)
                        return total, path[::-1], others[0]
                    continue
                seen[user.at] = node
                queue.append(user)
    return None


def values(user: Node, weights: Node) -> Node | None:
    """What `user` multiplies the weights with, if it is a product with an activation."""
    if user.name not in PRODUCTS:
        return None
    pair = user.inputs[-2:]
    if len(pair) != 2 or weights not in pair:
        return None
    other = pair[0] if pair[1] is weights else pair[1]
    return other if other.is_data and not other.is_weight and is_float(other.meta) else None


def is_mixture(node: Node) -> bool:
    """Whether it is made of nothing but weights: a product with it gives weights again."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        if is_softmax(one):
            continue
        given = [before for before in one.inputs if before.is_data]
        if not given or len(seen) > MOST or is_projection(one):
            return False
        for before in given:
            if before.at not in seen:
                seen.add(before.at)
                queue.append(before)
    return True


# Which is which


def factors(product: Node, flow: Flow) -> tuple[Node, Node, bool]:
    """What gives the rows of a product, what gives its columns, and whether rows are made of columns."""
    one, other = pair_of(product)
    if product.name == "rmatmul":
        one, other = other, one
    if product.name == "einsum":
        left, right, result = equation(product, flow)
        if result and left and result[-1] in left and result[-1] not in right:
            one, other = other, one
            left, right = right, left
        return one, other, False
    return one, other, False


def equation(product: Node, flow: Flow) -> tuple[str, str, str]:
    text = flow.calls[product.index].literals.get("0", "").strip("'\"").replace(" ", "")
    terms, arrow, result = text.partition("->")
    left, comma, right = terms.partition(",")
    return (left, right, result) if arrow and comma else ("", "", "")


def contracted(product: Node, flow: Flow) -> int:
    """The size of the dim that a product sums over."""
    one, _, _ = factors(product, flow)
    if product.name == "einsum":
        left, right, result = equation(product, flow)
        shared = [letter for letter in left if letter in right and letter not in result]
        first = product.inputs[-2]
        if shared and len(left) == len(first.shape):
            return first.shape[left.index(shared[-1])]
    return one.shape[-1] if one.shape else 0


def is_turned(softmax: Node, path: list[Node], flow: Flow) -> bool:
    """Whether softmax is taken over the rows of the product: its queries are the columns then."""
    literals = flow.calls[softmax.index].literals
    dim = literals.get("dim", literals.get("1", "-1"))
    turned = dim in ("-2", str(len(softmax.shape) - 2)) and softmax.name in SOFTMAX
    for before, after in zip(path, path[1:], strict=False):
        turned ^= is_flip(before, after)
    return turned


def is_flip(before: Node, after: Node) -> bool:
    """Whether the last two dims change places."""
    one, other = before.meta.stride, after.meta.stride
    return (
        after.name in LAYOUTS
        and one is not None
        and other is not None
        and len(one) == len(other) >= 2
        and after.meta.storage == before.meta.storage
        and one[-2:] == other[:-3:-1]
        and before.shape[-2:] == after.shape[:-3:-1]
        and one[:-2] == other[:-2]
        and after.name not in ("view", "reshape", "contiguous", "clone", "alias", "detach")
    )


def trail(node: Node) -> list[Node]:
    """What it is another form of, step by step back: reshaped, cast, repeated, scaled by a number."""
    found = [node]
    while True:
        before: Node | None = None
        if node.name in SHAPING or node.name in DROPOUTS:
            before = node.inputs[0] if node.inputs else None
        elif node.name in TIMES or node.name in QUOTIENTS:
            before = single(node)
            if before is not None and before.shape != node.shape:
                before = None
        elif node.name == "getitem" and node.inputs and numel(node.inputs[0].shape) == numel(node.shape):
            before = node.inputs[0]
        if before is None or len(found) > MOST:
            return found
        found.append(before)
        node = before


def form(operand: Node, width: int, is_flipped: bool) -> Node:
    """The tensor to call q, k or v: what enters the product, in its form by heads, before it is repeated or turned."""
    steps = trail(operand)
    start = 0
    for place in range(1, len(steps)):
        if numel(steps[place].shape) < numel(steps[place - 1].shape):
            start = place
    upright = 0
    if is_flipped:
        for place in range(1, len(steps)):
            if is_flip(steps[place - 1], steps[place]):
                upright = place
                break
    usable = steps[max(start, upright) :]
    for step in usable:
        if len(step.shape) == 4 and width in step.shape[-2:]:
            return step
    return usable[0]


def weights_of(path: list[Node]) -> Node:
    """The tensor to call weights, of all that lie between softmax and the values.

    The last before it is laid out anew for the product; of several views of that, the one by heads.
    """
    last = 0
    for place in range(1, len(path)):
        if path[place].name in RELAID or is_one_of_many(path[place], path[place - 1]):
            break
        last = place
    same = last
    while same > 0 and path[same].name in LAYOUTS and path[same].name != "clone":
        same -= 1
    group = path[same : last + 1]
    for node in group:
        if len(node.shape) == 4:
            return node
    for node in reversed(group):
        for user in node.users:
            if user.name in LAYOUTS and len(user.shape) == 4:
                return user
    return group[-1]


def is_one_of_many(part: Node, whole: Node) -> bool:
    """Whether other parts of the same weights go into other products."""
    if part.name not in PARTS or numel(part.shape) == numel(whole.shape):
        return False
    siblings = [user for user in whole.users if user.name in PARTS and user is not part]
    return any(user.name in PRODUCTS for sibling in siblings for user in sibling.users)


RELAID = frozenset({"pad", "as_strided", "cat", "roll", "flip", "gather", "index_put", "merge", "setitem", "scatter"})


def scores(path: list[Node], weights: Node, flow: Flow) -> Node | None:
    """The tensor to call scores: the last before softmax that has a name, else the last, of the shape of the weights."""
    last = path[-1]
    alike = [node for node in path if node.shape == weights.shape] or [last]
    for node in reversed(alike):
        if any(flow.calls[index].variable(key) is not None for index, key in node.places):
            return node
    return alike[-1]


# What comes after, and what it all came from


def finish(found: Attention) -> None:
    output = found.output
    head = output
    merged = None
    steps = [output]
    if len(output.shape) != 4:
        width = output.shape[-1]
        for step in after(output):
            if len(step.shape) == 4 and step.shape[-1] == width:
                head = step
                break
    found.head_output = head
    width = head.shape[-1]
    for step in after(head):
        steps.append(step)
    for step in reversed(steps):
        if len(step.shape) < len(head.shape) and step.shape and step.shape[-1] > width:
            merged = step
            break
    found.concat = merged
    out = projection_after(merged or steps[-1])
    if out is not None and (merged is None or is_whole(out, merged)):
        found.attn_out = out
    sources(found)


def is_whole(out: Node, merged: Node) -> bool:
    """Whether a projection is of all tokens, padding aside: not so for that of one expert."""
    is_cut = len(out.shape) == len(merged.shape) > 2 and out.shape[0] == merged.shape[0]
    return is_cut or numel(out.shape[:-1]) == numel(merged.shape[:-1])


def after(node: Node) -> Iterator[Node]:
    """The forms that a value goes on in, as long as each has one use in another form."""
    for _ in range(12):
        nexts = [user for user in node.users if (user.name in LAYOUTS or user.name in CASTS) and user.inputs[0] is node]
        if not nexts:
            return
        node = nexts[0]
        yield node


def projection_after(node: Node) -> Node | None:
    """The output projection: what the joined heads go into, through gates and norms, before anything is added."""
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
            if user.name in GATHERED or user.norm_of is not None:
                seen.add(user.at)
                queue.append(user)
    return None


GATHERED = SHAPING | DROPOUTS | TIMES | JOINS | PARTS | DIFFERENCES


def sources(found: Attention) -> None:
    """Where queries and keys come from: x, and whether it is the same for both."""
    q, k, v = found.operands
    inside: dict[int, Node] = {}
    of_q, q_projections = origins(q, inside)
    of_k, k_projections = origins(k, inside)
    origins(v, inside)
    found.inside = inside
    found.projections = q_projections
    shared = [node for at, node in of_q.items() if at in of_k]
    found.x = shared[0] if shared else next(iter(of_q.values()), None)
    farther_q = further(of_q)
    found.visited = farther_q
    if shared:
        found.is_self = True
    elif not of_q or not of_k:
        found.is_self = None
    else:
        farther_k = further(of_k)
        common = [node for at, node in farther_q.items() if at in farther_k]
        found.is_self = bool(common)
        if common:
            found.x = common[0]


def origins(node: Node, inside: dict[int, Node]) -> tuple[dict[int, Node], list[Node]]:
    """What the projections were given that made an operand, and these projections."""
    found: dict[int, Node] = {}
    projections: list[Node] = []
    seen = {node.at}
    queue = [node]
    for one in queue:
        inside[one.at] = one
        if is_projection(one):
            projections.append(one)
            given = base(projected(one))
            if given.is_data:
                found[given.at] = given
            continue
        if one.name in LOOKUPS or is_softmax(one) or is_product(one):
            continue
        for given in one.inputs:
            if given.at not in seen and given.is_data and len(seen) < MOST and is_float(given.meta):
                seen.add(given.at)
                queue.append(given)
    return found, projections


def further(start: dict[int, Node]) -> dict[int, Node]:
    """All that these were made of, up to where the residual stream was last added to."""
    seen = dict(start)
    queue = list(start.values())
    for one in queue:
        is_added = one.name in SUMS and len(one.inputs) == 2 and all(given.is_data for given in one.inputs)
        if (is_added and one.inputs[0].shape == one.inputs[1].shape) or one.name in LOOKUPS or is_product(one):
            continue
        for given in one.inputs if one.norm_of is None else (one.norm_of,):
            if given.at not in seen and given.is_data and len(seen) < MOST:
                seen[given.at] = given
                queue.append(given)
    return seen
