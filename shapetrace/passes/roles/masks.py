"""Whether a mask is causal: whether each query sees up to one key more than the one before it, and nothing beyond."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from ...schema import TensorMeta
from .arithmetic import LOW, Number
from .elements import Elements, Held, is_view
from .flow import Flow, Node
from .forms import width
from .functions import JOINS, QUOTIENTS
from .selection import Index

__all__ = ["Masks", "last_seen"]

ROWS, FEW = 64, 3
"""How many places of a dim are looked at: of the first head, and of the last."""

MANY = 4096
"""Keys, of which no longer each is looked at."""


class Masks:
    """Tells of the masks of a flow whether they are causal; of one that several layers share, once."""

    def __init__(self, flow: Flow, held: Held) -> None:
        self.elements = Elements(flow, partial(of_grids, held))
        self.calls = flow.calls
        self.told: dict[Hashable, bool] = {}

    def hide_later(self, path: Sequence[Node], dim: int) -> bool:
        """Whether scores, on their `path` from a product to a softmax over `dim`, are masked causally."""
        form = tuple([self.form(node, path) for node in path])
        if form not in self.told:
            self.told[form] = any(self.is_causal(node, dim, lambda value: value <= LOW) for node in masked(path))
        return self.told[form]

    def drop_later(self, path: Sequence[Node], dim: int) -> bool:
        """Whether weights, on their `path` from softmax to the values, are masked causally and add up to 1 again: else
        each is a share of what comes later, too."""
        masked = [node for node, following in pairwise(path) if is_renormalised(node, following)]
        return any(self.is_causal(node, dim, lambda value: value == 0) for node in masked)

    def hides_later(self, mask: Node) -> bool:
        """Whether what a fused attention is given as a mask is causal."""
        if mask.at not in self.told:
            is_hidden = (lambda value: value == 0) if mask.meta.dtype == "bool" else (lambda value: value <= LOW)
            self.told[mask.at] = self.is_causal(mask, -1, is_hidden)
        return self.told[mask.at]

    def form(self, node: Node, path: Sequence[Node]) -> Hashable:
        """What masks a step on a path: the same in all layers."""
        given = node.inputs if node is not path[0] else node.inputs[:-2]
        others = [origin(one) for one in given if one not in path]
        return node.name, node.shape, *self.calls[node.index].literals.items(), *others

    def is_causal(self, node: Node, dim: int, is_hidden: Callable[[float], bool]) -> bool:
        """Whether some dim counts queries that see so of the keys in `dim`: in the first head, and in the last, where
        padding may be hidden, too."""
        rank = len(node.shape)
        keys = dim % rank if -rank <= dim < rank else rank - 1

        def hides(corner: Sequence[int], queries: int, query: int, key: int) -> bool:
            place = list(corner)
            place[queries], place[keys] = query, key
            value = self.elements.at(node, tuple(place))
            return value is not None and is_hidden(value)

        def is_stair(queries: int) -> bool:
            sizes = node.shape[queries], node.shape[keys]
            first, last = (
                partial(hides, corner, queries) for corner in ([0] * rank, [size - 1 for size in node.shape])
            )
            border = border_of(first, *sizes)
            return border is not None and all(last(*cell) for cell in beyond(border, *sizes, FEW))

        return 0 not in node.shape and any(is_stair(queries) for queries in reversed(range(rank)) if queries != keys)


def of_grids(held: Held, meta: TensorMeta, key: str, index: Index) -> Number:
    """Only of what may be of queries and keys: of what is given, [B, T] is of keys that are padding or not."""
    shape = meta.shape
    is_grid = len(shape) > 1 and min(shape[-2:]) > 1 and (len(shape) > 2 or shape[0] == shape[1])
    return held(meta, key, index) if is_grid or meta.name is not None else None


def masked(path: Sequence[Node]) -> Iterator[Node]:
    """Where scores on a path are masked: at its end, or before a sink, of one column or no data, is put beside them."""
    yield path[-1]
    for before, node in pairwise(path):
        others = [given for given in node.inputs if given is not before]
        if node.name in JOINS and not any(given.is_data and width(given) > 1 for given in others):
            yield before


def is_renormalised(node: Node, following: Node) -> bool:
    """Whether it is divided by its sum next, plus a little maybe."""
    if following.name not in QUOTIENTS or len(following.inputs) != 2 or following.inputs[0] is not node:
        return False
    total = following.inputs[1]
    while total.name in ("add", "clamp", "clamp_min") and total.inputs:
        total = total.inputs[0]
    return total.name == "sum" and node in total.inputs[:1]


def origin(node: Node) -> Hashable:
    """What a value is a view of, and which."""
    first = node
    while first.inputs and is_view(first.meta, first.inputs[0].meta):
        first = first.inputs[0]
    return first.at, node.shape, node.meta.stride, node.meta.offset


def border_of(hides: Callable[[int, int], bool], queries: int, keys: int) -> int | None:
    """The last key that the first query sees, if each other query sees up to one more than that before it, no further.

    A single query tells nothing, nor do queries that see no more than one key each. Of more keys than queries the first
    may be a past, if none of it is hidden; else which of the keys are the queries' own is not known.
    """
    first = last_seen(hides, keys)
    if queries < 2 or first + queries > keys or not sees_earlier(partial(hides, queries - 1), first + queries - 1):
        return None
    if keys > queries and any(hides(queries - 1, key) for key in some(first + queries, ROWS)):
        return None
    if any(hides(query, first + query) for query in some(queries, ROWS) if first + query >= 0):
        return None
    return first if all(hides(*cell) for cell in beyond(first, queries, keys, ROWS)) else None


def sees_earlier(hides: Callable[[int], bool], own: int) -> bool:
    """Whether a query sees any key before its own: the nearest are looked at, and of many that are farther some."""
    near = max(0, own - ROWS)
    return any(not hides(key) for key in [*reversed(range(near, own)), *some(near, ROWS)])


def last_seen(hides: Callable[[int, int], bool], keys: int) -> int:
    """The last key that the first query sees, -1 if it sees none. Of many keys not all are looked at: as far as it sees
    it is taken to see all."""
    if keys <= MANY:
        return next((key for key in reversed(range(keys)) if not hides(0, key)), -1)
    seen, hidden = -1, keys
    while hidden - seen > 1:
        middle = (seen + hidden) // 2
        seen, hidden = (seen, middle) if hides(0, middle) else (middle, hidden)
    unlike = (key for key in reversed(some(keys, ROWS)) if key > seen and not hides(0, key))
    return next(unlike, seen)


def beyond(border: int, queries: int, keys: int, rows: int) -> Iterator[tuple[int, int]]:
    """Of so many queries the first key that each must not see, and the last."""
    for query in some(queries, rows):
        yield from ((query, key) for key in {border + query + 1, keys - 1} if border + query < key < keys)


def some(count: int, most: int) -> list[int]:
    """Places of a dim: all of a few; of many the first, the last, and others between."""
    return list(range(count)) if count <= most else [*range(0, count - 1, -(-count // most)), count - 1]
