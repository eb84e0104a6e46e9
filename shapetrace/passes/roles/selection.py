"""Where in `x[1:, ..., 2]` an element of x lies, from how the index is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["OUTSIDE", "Index", "within"]

Index = tuple[int, ...]

OUTSIDE = (-1,)


def within(text: str, shape: tuple[int, ...], index: Index) -> Index | None:
    """The place within `x[text]` of what lies at `index` in x; None if that cannot be told."""
    try:
        steps = list(selected(items_of(text), shape))
    except (SyntaxError, ValueError):
        return None
    found: list[int] = []
    for place, step in zip(index, steps, strict=True):
        if isinstance(step, range):
            if place not in step:
                return OUTSIDE
            found.append(step.index(place))
        elif place != step:
            return OUTSIDE
    return tuple(found)


def items_of(text: str) -> list[ast.expr]:
    """An index, taken apart at its commas."""
    parsed = ast.parse(f"x[{text.strip('()')}]", mode="eval").body
    if not isinstance(parsed, ast.Subscript):
        raise ValueError(text)
    return parsed.slice.elts if isinstance(parsed.slice, ast.Tuple) else [parsed.slice]


def selected(items: list[ast.expr], shape: tuple[int, ...]) -> Iterator[range | int]:
    """Of each dim what an index takes of it. `ValueError` of one that is more than numbers and slices."""
    dots = [place for place, item in enumerate(items) if isinstance(item, ast.Constant) and item.value is ...]
    at = dots[0] if dots else len(items)
    everything: list[ast.expr] = [ast.Slice()] * (len(shape) - len(items) + len(dots))
    for item, size in zip([*items[:at], *everything, *items[at + 1 :]], shape, strict=True):
        if isinstance(item, ast.Slice):
            bounds = [
                None if bound is None else ast.literal_eval(bound) for bound in (item.lower, item.upper, item.step)
            ]
            yield range(size)[slice(*bounds)]
        else:
            place = ast.literal_eval(item)
            if type(place) is not int:
                raise ValueError(place)
            yield place % size
