"""The residual stream: what blocks read, and what they add to; feed-forward, norms, and how a block orders them."""

from __future__ import annotations

from ..plumbing import is_float
from .attention import Attention, after
from .flow import Flow, Node, base, is_projection, numel, projected, single
from .functions import (
    ACTIVATIONS,
    CASTS,
    DROPOUTS,
    LAYOUTS,
    LOOKUPS,
    PARTS,
    QUOTIENTS,
    SHAPING,
    SUMS,
    TIMES,
)

__all__ = ["Branch", "Stream", "stream"]

MOST = 64


class Branch:
    """What was added to the stream.

    start   the value of the stream that was added to
    total   the sum
    out     the attention output, or that of a feed-forward
    hidden  of a feed-forward: what its last projection was given
    reads   what its first projections were given
    """

    __slots__ = ("attention", "hidden", "out", "projections", "reads", "start", "total")

    def __init__(self, start: Node, total: Node, out: Node, reads: Node | None) -> None:
        self.start = start
        self.total = total
        self.out = out
        self.reads = reads
        self.hidden: Node | None = None
        self.attention: Attention | None = None
        self.projections: list[Node] = []


class Stream:
    """values: place in the flow -> each value of the stream; branches in the order they were added."""

    def __init__(self) -> None:
        self.values: dict[int, Node] = {}
        self.sums: dict[int, Node] = {}
        self.branches: list[Branch] = []
        self.norms: dict[int, Node] = {}
        self.starts: dict[int, Node] = {}

    def add(self, start: Node, total: Node) -> None:
        self.sums[total.at] = self.values[total.at] = total
        self.starts[total.at] = start


def stream(flow: Flow, found: list[Attention]) -> Stream:
    made = Stream()
    for one in found:
        branch = of_attention(one)
        if branch is not None:
            made.branches.append(branch)
            carry(made, branch.start)
            made.values[branch.start.at] = branch.start
            made.add(branch.start, branch.total)
    used = {at for one in found for at in one.inside}
    for node in flow.nodes:
        if not is_sum(node) or node.at in used:
            continue
        for start, added in (node.inputs, node.inputs[::-1]):
            value = unscaled(start)
            if value.at not in made.values and not follows_norm(value, made):
                continue
            other = unscaled(added)
            begin = made.starts.get(value.at, value)
            if other.at in made.values or other.at < begin.at:
                continue
            made.values[value.at] = value
            made.add(value, node)
            branch = of_feed_forward((value, begin), node, added)
            if branch is not None:
                made.branches.append(branch)
            break
    for node in flow.nodes:
        if node.norm_of is None or (node.at in used and node.at not in made.values):
            continue
        if any(user.norm_of is node.norm_of for user in node.users):
            continue
        start = made.starts.get(node.norm_of.at)
        if start is not None and follows_norm(start, made):
            made.values[node.at] = node
        elif node.norm_of.at in made.values or unscaled(node.norm_of).at in made.values:
            made.norms[node.at] = node
    outs = {base(branch.out).at for branch in made.branches}
    for node in flow.nodes:
        if node.norm_of is not None and node.norm_of.at in outs and node.at not in used:
            if not any(user.norm_of is node.norm_of for user in node.users):
                made.norms[node.at] = node
    return made


def follows_norm(value: Node, made: Stream) -> bool:
    """post-LN: the stream goes on as a norm of it."""
    return value.norm_of is not None and value.norm_of.at in made.sums


def carry(made: Stream, start: Node) -> None:
    """Back along the stream from where a branch was added, to where it began: of two that were added up, the older."""
    node = start
    for _ in range(100_000):
        if node.at in made.values:
            return
        made.values[node.at] = node
        if is_sum(node):
            one, other = sorted((unscaled(given) for given in node.inputs), key=lambda given: given.at)
            if other.name in LOOKUPS or (one.name in LOOKUPS and other.norm_of is None and not other.users):
                return
            made.sums[node.at] = node
            node = one
        elif node.norm_of is not None and is_sum(node.norm_of):
            node = node.norm_of
        else:
            return


def is_sum(node: Node) -> bool:
    """Of two activations of one shape."""
    if node.name not in SUMS or len(node.inputs) != 2 or len(node.shape) < 2:
        return False
    one, other = node.inputs
    return one.is_data and other.is_data and one.shape == other.shape and is_float(node.meta) and one is not other


def unscaled(node: Node) -> Node:
    """What it is another form of, up to a factor. The stream of a model that scales its embedding begins after that."""
    while True:
        found = base(node)
        if (found.name in TIMES or found.name in QUOTIENTS) and found.inputs:
            before = single(found) or factor(found)
            if before is not None and before.shape == found.shape and base(before).name not in LOOKUPS:
                node = before
                continue
        return found


def factor(node: Node) -> Node | None:
    """What is multiplied with something that does not depend on the data."""
    data = [given for given in node.inputs if given.is_data]
    return data[0] if len(data) == 1 else None


def of_attention(one: Attention) -> Branch | None:
    """Where the output of an attention is added to what the attention was made of."""
    if one.attn_out is None:
        return None
    seen = {one.attn_out.at}
    queue = [one.attn_out]
    for node in queue:
        for user in node.users:
            if user.at in seen or len(seen) > MOST or not is_float(user.meta):
                continue
            if is_sum(user):
                other = user.inputs[0] if user.inputs[1] is node else user.inputs[1]
                start = base(other) if base(other).at in one.visited else unscaled(other)
                if start.at in one.visited or (start.norm_of is not None and start.norm_of.at in one.visited):
                    branch = Branch(start, user, one.attn_out, one.x)
                    branch.attention = one
                    return branch
            elif (
                user.name not in TIMES | SHAPING | DROPOUTS | SUMS | QUOTIENTS | PARTS and user.norm_of is None
            ) or is_projection(user):
                continue
            seen.add(user.at)
            queue.append(user)
    return None


def of_feed_forward(starts: tuple[Node, Node], total: Node, added: Node) -> Branch | None:
    """x + projection(activation(projection(norm(x)))), with gates, dropout and norms where they may be."""
    for out in last_projections(added):
        hidden = projected(out)
        reads, projections, is_curved = first_projections(hidden)
        if not is_curved:
            continue
        for x in reads:
            before = None if x.norm_of is None else unscaled(x.norm_of)
            if x in starts or before in starts:
                branch = Branch(starts[0], total, out, x)
                branch.hidden = hidden
                branch.projections = [*projections, out]
                return branch
    return None


def last_projections(added: Node) -> list[Node]:
    found: list[Node] = []
    seen = {added.at}
    queue = [added]
    for node in queue:
        if is_projection(node):
            found.append(node)
            continue
        is_passed = node.name in SHAPING or node.name in DROPOUTS or node.name in TIMES or node.name in SUMS
        if node.norm_of is not None:
            given = [node.norm_of]
        elif is_passed or node.name in QUOTIENTS:
            given = node.inputs
        else:
            continue
        for before in given:
            if before.at not in seen and before.is_data and len(seen) < 24:
                seen.add(before.at)
                queue.append(before)
    return found


POINTWISE = (
    ACTIVATIONS
    | SUMS
    | TIMES
    | QUOTIENTS
    | LAYOUTS
    | CASTS
    | DROPOUTS
    | frozenset("chunk split getitem pow clamp exp neg rdiv narrow unbind erf minimum maximum min max where".split())
)


def first_projections(hidden: Node) -> tuple[list[Node], list[Node], bool]:
    """What lies point by point before `hidden`: what its projections were given, they, and whether there is a curve."""
    reads: list[Node] = []
    projections: list[Node] = []
    is_curved = False
    seen = {hidden.at}
    queue = [hidden]
    for node in queue:
        if is_projection(node):
            projections.append(node)
            reads.append(base(projected(node)))
            continue
        if node.norm_of is None and node.name not in POINTWISE:
            return [], [], False
        is_curved |= node.name in ACTIVATIONS or (node.name == "mul" and not single(node) and len(node.inputs) == 2)
        for before in node.inputs:
            if before.at not in seen and before.is_data and len(seen) < MOST:
                seen.add(before.at)
                queue.append(before)
    return reads, projections, is_curved


_ = (after, numel)
