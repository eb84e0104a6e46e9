"""Where the residual stream of a model of tokens begins: at the first value to which something made of it is added."""

from __future__ import annotations

from collections.abc import Container

from .flow import Flow, Node
from .sums import carried, is_sum, is_worked_on

__all__ = ["beginnings"]


def beginnings(flow: Flow, looked_up: list[Node], within: Container[int]) -> list[Node]:
    """One for each lookup of tokens: of an encoder, of a decoder. The states of a recurrent model are no stream: they
    hold one token each.

    within   places in the flow of what is no sum of the stream
    """
    sums = [node for node in flow.nodes if is_sum(node) and node.at not in within]
    found: dict[int, Node] = {}
    for lookup in looked_up:
        first: Node | None = None
        descended = made_of(lookup, flow) if len(lookup.shape) > 2 else ()
        for total in sums if descended else ():
            for value, branch in (total.inputs, total.inputs[::-1]):
                start = carried(value)
                is_earlier = len(start.shape) > 2 and (first is None or start.at < first.at)
                if is_earlier and start.at in descended and is_worked_on(start, branch):
                    first = start
        if first is not None:
            found[first.at] = first
    return list(found.values())


def made_of(lookup: Node, flow: Flow) -> set[int]:
    """Places in the flow of all that the lookup went into, and of itself."""
    found = {lookup.at}
    for node in flow.nodes[lookup.at + 1 :]:
        if any(given.at in found for given in node.inputs):
            found.add(node.at)
    return found
