"""The constant axes of a model that is not built again at other sizes: what it does with a dim tells what it is.

Roles say of some tensors what their dims are: scores have heads, the residual stream has the width of the model. What
the functions of torch do with dims says which others are equally long: `x @ w` sums over the last dim of x and the
first of w. A dim of which nothing is said stays a number, and so does one of which two things are said.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...letters import in_order
from ...schema import TensorMeta, Trace
from ..axes import Axes, letters_in, with_axes
from .anchors import anchored
from .dims import Dim
from .joined import Joined
from .words import Words

__all__ = ["name_widths"]

INPUTS = frozenset("BTSP")


def name_widths(trace: Trace, declared: Mapping[str, int] = {}) -> Trace:
    """`trace`, which has roles and may have axes, with letters for dims that are plain numbers.

    declared   sizes of letters that the user told: a dim that nothing else tells has the one letter of its size
    """
    joined = Joined(trace)
    told = letters_of(trace)
    known = {**{letter: size for letter, size in trace.sizes.items() if letter not in told}, **declared}
    letters = anchored(trace, joined, told, known)
    sizes = {**trace.sizes, **declared, **{letter: joined.size(dim) for dim, letter in letters.items()}}
    words = Words(joined, letters, sizes)
    widths = {letter: size for letter, size in sizes.items() if letter not in INPUTS}
    by_size = of_size(widths, declared)
    named: dict[Dim, str | None] = {}

    def word(dim: Dim) -> str | None:
        root = joined.dims.root(dim)
        if root not in named:
            named[root] = words.of(root) or (by_size.get(joined.size(root)) if joined.is_open(root) else None)
        return named[root]

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        said = tensor.axes or tensor.shape
        row = (
            joined.unmade.get(index, {}).get(key) if place == "unmade" else joined.dims.known.get((tensor.number, said))
        )
        if row is None:
            return said
        return tuple(axis if is_told(axis) else word(dim) or axis for axis, dim in zip(said, row, strict=True))

    found = with_axes(trace, axes)
    new = letters_of(found) - trace.sizes.keys()
    return msgspec.structs.replace(
        found, sizes={**trace.sizes, **in_order({letter: sizes[letter] for letter in new if letter in sizes})}
    )


def letters_of(trace: Trace) -> set[str]:
    """The letters that are in the axes of its tensors."""
    axes = {tensor.axes for call in trace.calls for tensor in (*call.inputs.values(), *call.outputs.values())}
    return {letter for found in axes for letter in letters_in(found)}


def is_told(axis: str | int) -> bool:
    """Whether nothing is left to be said of an axis: not so of 2·B."""
    return isinstance(axis, str) and not axis[0].isdecimal()


def of_size(known: Mapping[str, int], declared: Mapping[str, int]) -> dict[int, str]:
    """Of a size that only one known letter has, that letter, if it was declared."""
    sizes = list(known.values())
    return {size: letter for letter, size in declared.items() if sizes.count(size) == 1 and size > 1}
