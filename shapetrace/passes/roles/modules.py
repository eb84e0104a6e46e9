"""What a module does as a whole: attention, feed-forward, or a block of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .attention import Attention
from .branches import Branch
from .flow import Flow, Node
from .forms import dropped, unscaled
from .stream import Stream

__all__ = ["Modules"]


class Modules:
    """calls   index of a call -> its role
    given   index of a module -> key of the argument that is x
    """

    def __init__(self, flow: Flow, found: list[Attention], made: Stream) -> None:
        self.flow = flow
        self.made = made
        self.calls: dict[int, str] = {}
        self.given: dict[int, str] = {}
        self.classes = Counter(call.name for call in flow.calls if call.kind == "module")
        self.sums = self.counts(made.sums())
        self.attended = self.counts({one.end.at: one.end for one in found}.values())
        self.fed = self.counts(branch.total for branch in made.branches if branch.attention is None)
        for one in found:
            self.attention(one)
        for branch in made.branches:
            if branch.attention is None:
                self.feed_forward(branch)
        self.going_on = {node.norm_of.at for node in made.values.values() if node.norm_of is not None}
        self.normed = {node.norm_of.at: node for node in made.norms.values() if node.norm_of is not None}
        self.added_to = {start.at for start in made.starts.values()}
        for branch in made.branches:
            if branch.attention is not None:
                self.block(branch, branch.attention)

    def counts(self, nodes: Iterable[Node]) -> dict[int, int]:
        """Index of a call -> how many of the nodes were made inside of it."""
        found: dict[int, int] = {}
        for node in nodes:
            index = self.flow.parents[node.index] if node.index >= 0 else -1
            while index >= 0:
                found[index] = found.get(index, 0) + 1
                index = self.flow.parents[index]
        return found

    def attention(self, one: Attention) -> None:
        if one.sources.is_self is None:
            return
        kind = "self-attention" if one.sources.is_self else "cross-attention"
        role = f"causal {kind}" if one.sources.is_self and one.is_causal else kind
        module = self.flow.around(*one.sources.projections, one.end)
        if self.attended.get(module) == 1 and self.sums.get(module, 0) <= 1 and not self.fed.get(module):
            self.set(module, role, one.sources.x)
        elif one.fused is not None:
            self.calls[one.fused] = role

    def feed_forward(self, branch: Branch) -> None:
        module = self.flow.around(*branch.projections)
        if module >= 0 and not self.sums.get(module) and not self.attended.get(module):
            self.set(module, "feed-forward", branch.reads)

    def block(self, branch: Branch, attention: Attention) -> None:
        """The smallest module that adds both an attention and a feed-forward, or the attention alone.

        One with several of them may be all blocks together, if there is no other module like it.
        """
        kind = self.kind(branch)
        smallest = module = self.flow.around(attention.end, branch.total)
        while module >= 0 and not self.fed.get(module):
            module = self.flow.parents[module]
        if self.fed.get(module) != 1 or self.is_fed_elsewhere(smallest, module):
            module = smallest
        if kind is None or module < 0 or module in self.calls:
            return
        count = self.fed.get(module) or self.attended.get(module, 0)
        if count > 1 and self.classes[self.flow.calls[module].name] < 2:
            return
        if self.sums.get(module, 0) <= 6 and self.attended.get(module, 0) <= 2 and self.is_all(kind, module):
            self.set(module, kind, branch.start)

    def is_all(self, kind: str, module: int) -> bool:
        """Whether all branches of a module are normalised in the same place: half a pre-LN block is none."""
        within = range(module, self.flow.ends[module])
        return all(
            branch.reads is None or self.kind(branch) == kind
            for branch in self.made.branches
            if branch.total.at in self.made.starts and branch.total.index in within and branch.out.index in within
        )

    def is_fed_elsewhere(self, smallest: int, module: int) -> bool:
        """Whether another module of the same class in `module` attends and feeds forward: that is a block then."""
        name = self.flow.calls[smallest].name
        return any(
            self.flow.calls[index].name == name and self.attended.get(index) and self.fed.get(index)
            for index in range(module + 1, self.flow.ends[module])
            if index != smallest
        )

    def kind(self, branch: Branch) -> str | None:
        if branch.reads is None:
            return None
        x, begins = unscaled(branch.reads), (branch.start, self.made.begin(branch.start))
        if any(given.norm_of is not None and unscaled(given.norm_of) in begins for given in (x, *branch.given)):
            return "pre-LN block"
        if x not in begins:
            return None
        if self.is_post(branch):
            return "post-LN block"
        is_normed = any(unscaled(given).norm_of is not None for given in branch.total.inputs if given is not x)
        return "res-post-norm block" if is_normed else None

    def is_post(self, branch: Branch) -> bool:
        """Whether the sum is normalised, and nothing but its norm goes on as the stream: not so where the next branch
        alone reads that. A norm behind the last block is none of it."""
        if branch.total.at in self.going_on:
            return True
        norm = self.normed.get(branch.total.at)
        module = self.flow.around(branch.out, branch.total)
        return norm is not None and branch.total.at not in self.added_to and norm.index < self.flow.ends[max(module, 0)]

    def set(self, module: int, role: str, x: Node | None) -> None:
        self.calls[module] = role
        if x is None:
            return
        numbers = {node.meta.number for node in (x, *dropped(x)) if node.meta.number is not None}
        for key, tensor in self.flow.calls[module].inputs.items():
            if tensor.number in numbers:
                self.given.setdefault(module, key)
                return
