"""The residual stream: what attention and feed-forward read, and what they are added to."""

from __future__ import annotations

from .attention import Attention
from .beginnings import beginnings
from .branches import Branch, experts, feed_forward, unadded
from .flow import Flow, Node
from .forms import base, uncut, unscaled
from .norms import is_last_of_norm, last_of_norm
from .sums import added_to, carried, is_made_of, is_sum, is_worked_on, since

__all__ = ["Stream", "stream"]


class Stream:
    """values     place in the flow -> each value of the stream: where it begins, each sum, and each norm of a sum that
               is added to again (post-LN)
    starts     of each sum, the value that was added to
    norms      normalised values of the stream or of a branch, that are not added to again
    branches   what was added, where it was recognised
    """

    def __init__(self) -> None:
        self.values: dict[int, Node] = {}
        self.starts: dict[int, Node] = {}
        self.norms: dict[int, Node] = {}
        self.branches: list[Branch] = []

    def add(self, start: Node, total: Node) -> None:
        self.values[start.at] = start
        self.values[total.at] = total
        self.starts[total.at] = start

    def begin(self, value: Node) -> Node:
        """The value before the last sum: what a second branch beside the first was made of."""
        return self.starts.get(value.at, value)

    def goes_through(self, norm: Node) -> bool:
        """Whether it normalises a sum."""
        return norm.norm_of is not None and norm.norm_of.at in self.starts

    def went_into(self, node: Node) -> bool:
        """Whether any value of it did."""
        return any(given.at in self.values for given in since(self.values[min(self.values)], node))

    def first(self) -> list[Node]:
        """Where it begins, once or several times."""
        return [node for at, node in self.values.items() if at not in self.starts and not self.goes_through(node)]

    def sums(self) -> list[Node]:
        return [self.values[at] for at in self.starts]


def stream(flow: Flow, found: list[Attention], looked_up: list[Node], said: list[Node]) -> Stream:
    """
    looked_up   the embeddings of tokens
    said        what logits are a projection of
    """
    made = Stream()
    for one in found:
        branch = added(one)
        if branch is not None:
            made.branches.append(branch)
            trace_back(made, branch.start)
            made.add(branch.start, branch.total)
    within = {at for one in found for at in one.sources.between}
    for start in beginnings(flow, looked_up, within):
        made.values[start.at] = start
    for node in flow.nodes:
        if is_sum(node) and node.at not in within:
            go_on(made, node)
    attended = [base(one.attn_out) for one in found if one.attn_out is not None]
    known = {base(branch.out).at for branch in made.branches}
    ends = [one.sources.x for one in found if one.sources.x is not None] + said
    made.branches += [
        branch for branch in unadded([*attended, *made.values.values()], ends) if base(branch.out).at not in known
    ]
    made.values |= {last.at: last for last in map(last_of_norm, made.values.values())}
    outs = {base(branch.out).at for branch in made.branches} | {node.at for node in attended}
    added_to = {start.at for start in made.starts.values()}
    for node in flow.nodes:
        if node.norm_of is not None and node.at not in within and is_last_of_norm(node):
            set_norm(made, node, node.norm_of, outs, added_to)
    return made


def added(one: Attention) -> Branch | None:
    """Where the output of an attention is added to what the attention was made of."""
    found = None if one.attn_out is None else added_to(one.attn_out, one.sources.behind)
    return None if one.attn_out is None or found is None else Branch(*found, one.attn_out, one.sources.x, one)


def trace_back(made: Stream, node: Node) -> None:
    """From where a branch was added back to where the stream begins, or is known."""
    while node.at not in made.values:
        made.values[node.at] = node
        if is_sum(node):
            before = continued(node, made)
            if before is None:
                return
            made.starts[node.at] = before
            node = before
        elif node.norm_of is not None and is_in_stream(node.norm_of, made):
            node = node.norm_of
        else:
            return


def is_in_stream(total: Node, made: Stream) -> bool:
    """Whether it is a sum of the stream, and not of what the stream begins with, as tokens and positions."""
    return is_sum(total) and (total.at in made.values or continued(total, made) is not None)


def continued(total: Node, made: Stream) -> Node | None:
    """Which of the two that were added up is the stream; the other was made of it."""
    one, other = (carried(given) for given in total.inputs)
    for value, branch in ((one, other), (other, one)):
        if value.at in made.values and branch.at not in made.values:
            return value
    for value, branch in ((one, other), (other, one)):
        if is_made_of(branch, value):
            return value
    return None


def go_on(made: Stream, total: Node) -> None:
    """A sum with a value of the stream is the next one, whatever was added."""
    for start, branch in (total.inputs, total.inputs[::-1]):
        value, other = carried(start), carried(branch)
        if value.at not in made.values and not (made.goes_through(value) and is_worked_on(value, branch)):
            continue
        if other.at in made.values or (other.at < made.begin(value).at and not made.went_into(other)):
            continue
        starts = value, made.begin(value)
        found = experts(starts, total, branch) or feed_forward(starts, total, branch)
        if found is not None:
            made.branches.append(found)
        made.add(value, total)
        return


def set_norm(made: Stream, node: Node, source: Node, outs: set[int], added_to: set[int]) -> None:
    """A norm of the stream, or of what is added to it. Behind the last post-LN sum it is the stream, as elsewhere."""
    if node.at in made.values:
        return
    start = made.starts.get(source.at)
    if start is not None and made.goes_through(start) and source.at not in added_to:
        made.values[node.at] = node
    elif uncut(unscaled(source)).at in made.values or source.at in made.values or source.at in outs:
        made.norms[node.at] = node
