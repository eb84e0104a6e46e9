"""What the functions of torch of which masks are made have at a place of their result."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from .arithmetic import BINARY, BITWISE, OTHER_NAMES, UNARY, Number, chosen, least, number, plus
from .functions import CASTS
from .selection import OUTSIDE, Index, within

if TYPE_CHECKING:
    from .elements import Elements
    from .flow import Node

__all__ = ["RECIPES"]

Recipe = Callable[["Elements", "Node", Index], Number]


def binary(function: Callable[[Number, Number], Number], elements: Elements, node: Node, index: Index) -> Number:
    if elements.literal(node, "alpha") not in ("", "1") or elements.literal(node, "rounding_mode") not in ("", "None"):
        return None
    one = elements.at(elements.operand(node, "0", "input", "self"), index)
    return function(one, elements.at(elements.operand(node, "1", "other", "exponent"), index))


def unary(function: Callable[[float], float], elements: Elements, node: Node, index: Index) -> Number:
    one = elements.at(node.inputs[0], index)
    return None if one is None else function(one)


def bitwise(name: str, elements: Elements, node: Node, index: Index) -> Number:
    return binary(BINARY[name], elements, node, index) if node.meta.dtype == "bool" else None


def inverted(elements: Elements, node: Node, index: Index) -> Number:
    one = elements.at(node.inputs[0], index)
    return None if one is None else float(not one) if node.meta.dtype == "bool" else -one - 1


def extreme(function: Callable[[Number, Number], Number], elements: Elements, node: Node, index: Index) -> Number:
    """`max` and `min` of two tensors; of one they are something else."""
    return binary(function, elements, node, index) if len(node.inputs) == 2 else None


def where(elements: Elements, node: Node, index: Index) -> Number:
    """`torch.where(condition, one, other)`, and `one.where(condition, other)`."""
    keys = [("0", "condition"), ("1", "input", "self"), ("2", "other")]
    conditions = [key for key, given in zip(node.keys, node.inputs, strict=True) if given.meta.dtype == "bool"]
    if conditions == ["1"] or ("condition" in conditions and "0" in node.keys):
        keys = [("1", "condition"), ("0",), ("2", "other")]
    elif len(conditions) != 1:
        return None
    return chosen(*(elements.at(elements.operand(node, *names), index) for names in keys))


def masked_fill(elements: Elements, node: Node, index: Index) -> Number:
    keys = [("1", "mask"), ("2", "value"), ("0", "input", "self")]
    return chosen(*(elements.at(elements.operand(node, *names), index) for names in keys))


def clamp(elements: Elements, node: Node, index: Index) -> Number:
    value = elements.at(node.inputs[0], index)
    for keys, function in ((("1", "min"), BINARY["maximum"]), (("2", "max"), least)):
        bound = elements.operand(node, *keys)
        if elements.literal(node, *keys) not in ("", "None") or bound is not None:
            value = function(value, elements.at(bound, index))
    return value


def triangle(elements: Elements, node: Node, index: Index) -> Number:
    """`tril` and `triu`."""
    diagonal = number(elements.literal(node, "1", "diagonal") or "0")
    if diagonal is None or len(index) < 2:
        return None
    row, column = index[-2:]
    is_kept = column - row <= diagonal if node.name == "tril" else column - row >= diagonal
    return elements.at(node.inputs[0], index) if is_kept else 0.0


def arange(elements: Elements, node: Node, index: Index) -> Number:
    places = [key for key in ("0", "1", "2") if elements.literal(node, key)]
    start = elements.operand(node, "0") if len(places) > 1 else number(elements.literal(node, "start") or "0")
    step = number(elements.literal(node, "2", "step") or "1")
    return None if not isinstance(start, float) or step is None else start + step * index[0]


def full(elements: Elements, node: Node, index: Index) -> Number:
    """Also as `new_full`, which is given a tensor first, and size and value after it."""
    place = "2" if "0" in node.keys and node.name == "new_full" else "1"
    value = elements.operand(node, place, "fill_value", "value")
    return elements.at(value, index)


def written_down(elements: Elements, node: Node, index: Index) -> Number:
    """`tensor([[1, 0], [1, 1]])`."""
    try:
        found = ast.literal_eval(elements.literal(node, "0", "data").replace("inf", "1e999"))
        for place in index:
            found = found[place]
    except (ValueError, SyntaxError, IndexError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) else None


def as_before(elements: Elements, node: Node, index: Index) -> Number:
    return elements.at(node.inputs[0], index)


def in_line(elements: Elements, node: Node, index: Index) -> Number:
    """The same elements, one after another, in another shape."""
    given = node.inputs[0]
    if math.prod(given.shape) != math.prod(node.shape):
        return None
    line, found = 0, list[int]()
    for place, size in zip(index, node.shape, strict=True):
        line = line * size + place
    for size in reversed(given.shape):
        line, place = divmod(line, size)
        found.append(place)
    return elements.at(given, tuple(reversed(found)))


def repeated(elements: Elements, node: Node, index: Index) -> Number:
    given = node.inputs[0]
    own = index[len(index) - len(given.shape) :]
    return elements.at(given, tuple([place % size for place, size in zip(own, given.shape, strict=True)]))


def joined(elements: Elements, node: Node, index: Index) -> Number:
    """`cat`: of which part it is."""
    dim = dim_of(elements, node)
    if dim is None or any(len(part.shape) != len(index) for part in node.inputs):
        return None
    place = index[dim]
    for part in node.inputs:
        if place < part.shape[dim]:
            return elements.at(part, (*index[:dim], place, *index[dim + 1 :]))
        place -= part.shape[dim]
    return None


def stacked(elements: Elements, node: Node, index: Index) -> Number:
    dim = dim_of(elements, node)
    return None if dim is None else elements.at(node.inputs[index[dim]], (*index[:dim], *index[dim + 1 :]))


def dim_of(elements: Elements, node: Node) -> int | None:
    found = number(elements.literal(node, "1", "dim", "axis") or "0")
    return None if found is None else int(found) % len(node.shape)


def biased(elements: Elements, node: Node, index: Index) -> Number:
    """`baddbmm`: what is added to a product is known, the product is not."""
    if elements.literal(node, "beta") not in ("", "1", "1.0"):
        return None
    return plus(elements.at(node.inputs[0], index), None)


def written(elements: Elements, node: Node, index: Index) -> Number:
    """`x[1:, 2] = value`, or `x.copy_(value)`."""
    before, is_copy = node.inputs[0], elements.calls[node.index].name == "copy_"
    value = elements.operand(node, "1") if is_copy else elements.operand(node, "2")
    region = index if is_copy else within(elements.literal(node, "1"), before.shape, index)
    if region is None or (not is_copy and "1" not in elements.calls[node.index].literals):
        return None
    return elements.at(before, index) if region == OUTSIDE else elements.at(value, region)


def diagonal(elements: Elements, node: Node, index: Index) -> Number:
    return float(len(set(index)) == 1)


def recipes() -> Iterator[tuple[str, Recipe]]:
    for name, function in BINARY.items():
        yield name, partial(binary, function)
    for other, name in OTHER_NAMES.items():
        yield other, partial(binary, BINARY[name])
    for other, name in BITWISE.items():
        yield other, partial(bitwise, name)
    for name, number_of in UNARY.items():
        yield name, partial(unary, number_of)
    for names, recipe in SHAPED.items():
        yield from ((name, recipe) for name in names.split())


SHAPED: dict[str, Recipe] = {
    "invert bitwise_not": inverted,
    "max": partial(extreme, BINARY["maximum"]),
    "min": partial(extreme, least),
    "where": where,
    "masked_fill": masked_fill,
    "clamp clip": clamp,
    "tril triu": triangle,
    "arange": arange,
    "full full_like new_full fill": full,
    "ones ones_like new_ones": lambda *_: 1.0,
    "zeros zeros_like new_zeros zero": lambda *_: 0.0,
    "eye": diagonal,
    "tensor as_tensor scalar_tensor": written_down,
    "contiguous clone detach alias": as_before,
    " ".join(CASTS) + " bool int long": as_before,
    "view reshape flatten unflatten ravel squeeze unsqueeze view_as reshape_as": in_line,
    "expand expand_as broadcast_to": as_before,
    "repeat tile": repeated,
    "cat concat concatenate": joined,
    "stack": stacked,
    "baddbmm": biased,
    "setitem": written,
}

RECIPES: dict[str, Recipe] = dict(recipes())
"""Name of a function -> an element of what it makes. What is not here makes what is not known."""
