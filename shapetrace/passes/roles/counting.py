"""Whether whole numbers are positions: counted by the model, or given to it so."""

from __future__ import annotations

from itertools import pairwise

from .elements import Elements
from .flow import Node
from .functions import PICKS

__all__ = ["counts_on", "is_counted", "is_varied", "numbers"]

NEAR = 24


def is_counted(ids: Node) -> bool:
    """Whether they are positions: `arange`, or a running sum over what is no padding."""
    seen = {ids.at}
    queue = [ids]
    for node in queue:
        if node.is_position or node.name in ("arange", "cumsum"):
            return True
        for given in node.inputs[:1] if node.name in PICKS else node.inputs:
            if given.at not in seen and len(seen) < NEAR:
                seen.add(given.at)
                queue.append(given)
    return False


def numbers(ids: Node, elements: Elements) -> list[list[float]]:
    """The first numbers of the first row, and of the last; nothing if not all of them are known."""
    if len(ids.shape) not in (1, 2) or 0 in ids.shape:
        return []
    rows = (0, ids.shape[0] - 1) if len(ids.shape) == 2 else (0,)
    found = [[elements.at(ids, (row, at)) for at in range(min(NEAR, ids.shape[-1]))] for row in rows]
    known = [[number for number in row if number is not None] for row in found]
    return known if known == found else []


def is_varied(found: list[list[float]]) -> bool:
    return len({number for row in found for number in row}) > 1


def counts_on(found: list[list[float]]) -> bool:
    """Whether each row counts on to 2 or more, where it does not stand still for padding or begins again, at 0 or 1."""
    steps = [pair for row in found for pair in pairwise(row)]
    counting = [pair for pair in steps if pair[0] + 1 == pair[1]]
    begins = {row[0] for row in found}
    return (
        2 * len(counting) > len(steps)
        and any(number not in (0, 1) for _, number in counting)
        and all(pair in counting or pair[1] in (0, 1) for pair in steps)
        and (len(begins) == 1 or begins <= {0, 1})
    )
