"""What is added to the residual stream: attention, and feed-forward, which is found here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .attention import Attention
from .flow import Node
from .forms import FAR, base, is_projection, projected, settled, unscaled
from .functions import ACTIVATIONS, CASTS, COMPARISONS, DROPOUTS, LAYOUTS, QUOTIENTS, SHAPING, SUMS, TIMES
from .products import is_mixing
from .sums import MANY
from .talking import is_turned

__all__ = ["Branch", "experts", "feed_forward", "unadded"]


class Branch(msgspec.Struct, frozen=True, eq=False):
    """start        the value of the stream that was added to
    total        the sum
    out          what was added: the output of an attention, or of a feed-forward
    reads        what its first projections were given
    attention    None for a feed-forward
    hidden       of a feed-forward: what its last projection was given; None for one of many experts
    projections  of a feed-forward, the first and the last
    """

    start: Node
    total: Node
    out: Node
    reads: Node | None
    attention: Attention | None = None
    hidden: Node | None = None
    projections: tuple[Node, ...] = ()

    @property
    def given(self) -> list[Node]:
        """What the queries of an attention were projected from, which may be a norm of their own of what it reads."""
        return [] if self.attention is None else [base(projected(one)) for one in self.attention.sources.projections]


def feed_forward(starts: Sequence[Node], total: Node, added: Node) -> Branch | None:
    """x + projection(activation(projection(norm(x)))), with gates, dropout and norms where they may be.

    starts   values of the stream that it may have been made of
    """
    for out in last_projections(added):
        hidden = projected(out)
        for first in first_projections(hidden):
            x = base(projected(first))
            read = base(unscaled(x))
            before = None if read.norm_of is None else unscaled(read.norm_of)
            if (read not in starts and before not in starts) or is_of_tokens(first, read):
                continue
            while len(hidden.shape) < len(x.shape) and hidden.name in LAYOUTS:
                hidden = hidden.inputs[0]
            return Branch(starts[0], total, settled(out, len(x.shape)), x, None, hidden, (first, out))
    return None


def unadded(starts: Sequence[Node], ends: Iterable[Node]) -> Iterator[Branch]:
    """Feed-forwards without a residual connection.

    starts   what they may be made of: what attention gives, the stream
    ends     what comes of them: what attends next, or is said
    """
    for end in ends:
        out = base(end)
        while out.norm_of is not None:
            out = base(out.norm_of)
        found = feed_forward(starts, out, out) if is_projection(out) else None
        if found is not None:
            yield found


def is_of_tokens(projection: Node, x: Node) -> bool:
    """Whether it projects tokens on others, dim by dim of x: as linear layers of what was turned do. A norm over
    another dim may be of what was turned, and be turned back."""
    node, turns = projected(projection), 0
    end = x if x.norm_of is None else x.norm_of
    while node.at > end.at and node.inputs and projection.name in ("linear", "addmm", "matmul"):
        turns += is_turned(node)
        same = (given for given in node.inputs if given.is_data and math.prod(given.shape) == math.prod(node.shape))
        node = next(same, node.inputs[0])
    return turns % 2 == 1


def experts(starts: tuple[Node, Node], total: Node, added: Node) -> Branch | None:
    """A feed-forward of which a router picks a few experts for each token. Its parts have no roles."""
    out = added if added.norm_of is None else added.norm_of
    choice: Node | None = None
    reads: Node | None = None
    seen = {out.at}
    queue = [out]
    for node in queue:
        before = None if node.norm_of is None else unscaled(node.norm_of)
        if node in starts or before in starts:
            reads = node
            continue
        if is_mixing(node) or len(seen) > MANY:
            return None
        if is_choice(node):
            choice = node
        for given in node.inputs:
            if given.at not in seen and given.at >= starts[1].at:  # what is older is no part of the branch
                seen.add(given.at)
                queue.append(given)
    if choice is None or reads is None:
        return None
    out = settled(base(out), len(reads.shape))
    return Branch(starts[0], total, out, reads, projections=(choice, out))


def is_choice(node: Node) -> bool:
    """The numbers of the largest: `topk`, or several times the largest of what is left."""
    return node.name == "topk" or (node.name in ("max", "argmax") and node.meta.dtype.startswith("int"))


def last_projections(added: Node) -> list[Node]:
    """Those whose results were added, through norms, scale and dropout, and maybe beside others."""
    found: list[Node] = []
    seen = {added.at}
    queue = [added]
    for node in queue:
        if is_projection(node):
            found.append(node)
            continue
        given: tuple[Node, ...] = ()
        if node.norm_of is not None:
            given = (node.norm_of,)
        elif node.name in ADDED:
            given = node.inputs
        for before in given:
            if before.at not in seen and before.is_data and len(seen) < 24:
                seen.add(before.at)
                queue.append(before)
    return found


ADDED = SHAPING | DROPOUTS | TIMES | QUOTIENTS | SUMS

POINTWISE = (
    ACTIVATIONS
    | SUMS
    | TIMES
    | QUOTIENTS
    | LAYOUTS
    | CASTS
    | DROPOUTS
    | COMPARISONS
    | frozenset(
        """chunk split getitem narrow unbind where masked_fill lerp addcmul minimum maximum min max clamp clip neg abs
        sign pow exp expm1 log log1p sqrt rsqrt reciprocal sin cos""".split()
    )
)
"""What treats each position alone: no mixing of tokens, so no convolution, scan or second attention."""


def first_projections(hidden: Node) -> list[Node]:
    """Those that `hidden` was made of, point by point and with an activation; none if it was made otherwise."""
    found: list[Node] = []
    is_curved = False
    seen = {hidden.at}
    queue = [hidden]
    for node in queue:
        if is_projection(node):
            found.append(node)
            continue
        if node.norm_of is None and node.name not in POINTWISE:
            return []
        is_gate = node.name in TIMES and len(node.inputs) == 2 and all(given.is_data for given in node.inputs)
        is_curved |= node.name in ACTIVATIONS or is_gate
        for before in node.inputs if node.norm_of is None else (node.norm_of,):
            if before.at not in seen and before.is_data and len(seen) < FAR:
                seen.add(before.at)
                queue.append(before)
    return found if is_curved else []
