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

    declared   sizes of letters that the user told, for dims that nothing else tells
    """
    joined = Joined(trace)
    letters = {dim: said.pop() for dim, said in anchored(trace, joined, declared).items() if len(said) == 1}
    sizes = {**trace.sizes, **{letter: joined.size(dim) for dim, letter in letters.items()}}
    words = Words(joined, letters, sizes)
    by_size = of_size({**{letter: size for letter, size in sizes.items() if letter not in INPUTS}, **declared}, declared)
    named: dict[Dim, str | None] = {}

    def word(dim: Dim) -> str | None:
        root = joined.dims.root(dim)
        if root not in named:
            named[root] = words.of(root) or (by_size.get(joined.size(root)) if joined.is_open(root) else None)
        return named[root]

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        said = tensor.axes or tensor.shape
        row = joined.unmade.get(index, {}).get(key) if place == "unmade" else joined.dims.known.get((tensor.number, said))
        if row is None:
            return said
        return tuple(axis if is_told(axis) else word(dim) or axis for axis, dim in zip(said, row, strict=True))

    found = with_axes(trace, axes)
    told = {letter for call in found.calls for tensor in call.outputs.values() for letter in letters_in(tensor.axes)}
    new = {letter: size for letter, size in {**declared, **sizes}.items() if letter in told and letter not in trace.sizes}
    return msgspec.structs.replace(found, sizes={**trace.sizes, **in_order(new)})


def is_told(axis: str | int) -> bool:
    """Whether nothing is left to be said of an axis: not so of 2·B."""
    return isinstance(axis, str) and not axis[0].isdecimal()


def of_size(known: Mapping[str, int], declared: Mapping[str, int]) -> dict[int, str]:
    """Of a size that only one known letter has, that letter, if it was declared."""
    sizes = list(known.values())
    return {size: letter for letter, size in declared.items() if sizes.count(size) == 1 and size > 1}
