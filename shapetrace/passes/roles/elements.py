"""Single elements of a mask, worked out from how it was made: nothing is read but what the model holds or was given.

A mask is made of `arange`, `ones`, `tril`, comparisons, `where` and the like, and the record has the arguments of each.
What depends on the data is not known, which need not matter: nothing that is added to -inf brings it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...schema import TensorMeta
from .arithmetic import Number, number
from .flow import Flow, Node
from .recipes import RECIPES
from .selection import Index

__all__ = ["Elements", "Held", "nothing"]

Held = Callable[[TensorMeta, str, Index], Number]
"""An element of a tensor that no call made: of a buffer, by its name, or of what the model was given, by its key."""


def nothing(*_: object) -> None:
    """No element of what no call made."""


class Elements:
    """The elements of the values in a flow, each worked out once."""

    def __init__(self, flow: Flow, held: Held) -> None:
        self.calls = flow.calls
        self.held = held
        self.known: dict[tuple[int, Index], Number] = {}

    def at(self, operand: Node | Number, index: Index) -> Number:
        """What `operand` has at this place of a tensor that it is broadcast to. A number has itself everywhere."""
        if not isinstance(operand, Node):
            return operand
        own = index[len(index) - len(operand.shape) :]
        index = tuple([0 if size == 1 else place for place, size in zip(own, operand.shape, strict=True)])
        key = operand.at, index
        if key not in self.known:
            found = self.found(operand, index)
            self.known[key] = None if found is None else as_dtype(found, operand.meta.dtype)
        return self.known[key]

    def found(self, node: Node, index: Index) -> Number:
        if node.index < 0:
            return self.held(node.meta, node.key, index)
        source = node.inputs[0] if node.inputs else None
        if source is not None and is_view(node.meta, source.meta):
            place = inside(source.meta, address(node.meta, index))
            return None if place is None else self.at(source, place)
        recipe = RECIPES.get(node.name)
        try:
            return None if recipe is None or "out" in node.keys else recipe(self, node, index)
        except (ArithmeticError, LookupError, ValueError, RecursionError):  # not the arguments that torch takes; a loop
            return None

    def operand(self, node: Node, *keys: str) -> Node | Number:
        """An argument, by its position or its name, a tensor or a number."""
        for key, given in zip(node.keys, node.inputs, strict=True):
            if key in keys:
                return given
        return number(self.literal(node, *keys))

    def literal(self, node: Node, *keys: str) -> str:
        """An argument that is no tensor, as Python writes it; "" if there is none."""
        literals = self.calls[node.index].literals
        return next((literals[key] for key in keys if key in literals), "")


def is_view(result: TensorMeta, source: TensorMeta) -> bool:
    """Whether it has the elements of `source` in another form. With the same number it has been written to."""
    is_shared = result.storage is not None and result.storage == source.storage
    return is_shared and result.number != source.number and result.dtype == source.dtype


def address(meta: TensorMeta, index: Index) -> int:
    """Where in its storage an element lies; -1 if that is not known."""
    if meta.stride is None:
        return -1
    return meta.offset + sum(place * stride for place, stride in zip(index, meta.stride, strict=True))


def inside(meta: TensorMeta, address: int) -> Index | None:
    """The place in a tensor of what lies at `address`; None if it has none there."""
    rest = address - meta.offset
    if meta.stride is None or rest < 0:
        return None
    found = [0] * len(meta.shape)
    for stride, dim in sorted(zip(meta.stride, range(len(found)), strict=True), reverse=True):
        if meta.shape[dim] > 1 and stride > 0:
            found[dim], rest = divmod(rest, stride)
    is_there = rest == 0 and all(place < max(size, 1) for place, size in zip(found, meta.shape, strict=True))
    return tuple(found) if is_there else None


def as_dtype(value: float, dtype: str) -> Number:
    if math.isnan(value):
        return None
    if dtype == "bool":
        return float(value != 0)
    if value < 0 and dtype.startswith("uint"):  # it goes round
        return None
    is_whole = dtype.startswith(("int", "uint")) and math.isfinite(value)
    return float(math.trunc(value)) if is_whole else value
