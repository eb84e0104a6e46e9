"""What a module does as a whole: attention, feed-forward, or a block of both."""

from __future__ import annotations

from collections.abc import Iterable

from .attention import Attention
from .flow import Flow, Node
from .stream import Branch, Stream, unscaled

__all__ = ["Modules"]


class Modules:
    """calls: index of a call -> its role; inputs: index of a module -> key of the argument that is x."""

    def __init__(self, flow: Flow, found: list[Attention], made: Stream) -> None:
        self.flow = flow
        self.calls: dict[int, str] = {}
        self.inputs: dict[int, str] = {}
        self.sums = self.above(made.sums.values())
        self.attended = self.above(one.output for one in found)
        self.fed = self.above(branch.total for branch in made.branches if branch.attention is None)
        for one in found:
            self.attention(one)
        for branch in made.branches:
            if branch.attention is None:
                self.feed_forward(branch)
        norms = {node.norm_of.at for node in made.values.values() if node.norm_of is not None}
        norms |= {node.norm_of.at for node in made.norms.values() if node.norm_of is not None}
        for branch in made.branches:
            if branch.attention is not None:
                self.block(branch, made, norms)

    def above(self, nodes: Iterable[Node]) -> dict[int, int]:
        """Index of a call -> how many of the nodes were made inside of it."""
        counts: dict[int, int] = {}
        for node in nodes:
            index = self.flow.parents[node.index] if node.index >= 0 else -1
            while index >= 0:
                counts[index] = counts.get(index, 0) + 1
                index = self.flow.parents[index]
        return counts

    def around(self, nodes: Iterable[Node]) -> int:
        """The smallest module that all of these were made in; -1 if there is none."""
        indices = [node.index for node in nodes if node.index >= 0]
        if not indices:
            return -1
        first, last = min(indices), max(indices)
        module = last
        while module >= 0 and (module > first or self.flow.calls[module].kind != "module"):
            module = self.flow.parents[module]
        return module

    def attention(self, one: Attention) -> None:
        if one.is_self is None:
            return
        kind = "self-attention" if one.is_self else "cross-attention"
        role = f"causal {kind}" if one.is_self and one.is_causal else kind
        module = self.around([*one.projections, one.output])
        if module >= 0 and self.attended.get(module) == 1 and not self.sums.get(module):
            self.calls[module] = role
            self.given(module, one.x)
        elif one.fused is not None:
            self.calls[one.fused] = role

    def feed_forward(self, branch: Branch) -> None:
        module = self.around(branch.projections)
        if module >= 0 and not self.sums.get(module) and not self.attended.get(module):
            self.calls[module] = "feed-forward"
            self.given(module, branch.reads)

    def block(self, branch: Branch, made: Stream, norms: set[int]) -> None:
        x, start = branch.reads, branch.start
        assert branch.attention is not None
        if x is None:
            return
        begins = (start, made.starts.get(start.at, start))
        if x.norm_of is not None and unscaled(x.norm_of) in begins:
            kind = "pre-LN block"
        elif x in begins and branch.total.at in norms:
            kind = "post-LN block"
        else:
            return
        smallest = self.around([branch.attention.output, branch.total])
        module = smallest
        while module >= 0 and not self.fed.get(module):
            module = self.flow.parents[module]
        if module < 0 or self.fed[module] > 1:
            module = smallest
        if module >= 0 and module not in self.calls and self.sums.get(module, 0) <= 4 and self.attended[module] <= 2:
            self.calls[module] = kind
            self.given(module, start)

    def given(self, module: int, x: Node | None) -> None:
        if x is None:
            return
        call = self.flow.calls[module]
        for key, tensor in call.inputs.items():
            if tensor.number is not None and tensor.number == x.meta.number:
                self.inputs.setdefault(module, key)
                return
