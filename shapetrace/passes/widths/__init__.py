"""The constant axes of a model that is not built again at other sizes: what it does with a dim tells what it is.

Roles say of some tensors what their dims are: scores have heads, the residual stream has the width of the model. What
the functions of torch do with dims says which others are equally long: `x @ w` sums over the last dim of x and the
first of w. A dim of which nothing is said stays a number, and so does one of which two things are said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...letters import in_order, names_in
from ...schema import TensorMeta, Trace
from ..axes import Axes, with_axes
from ..nesting import given_to, returned_by
from .anchors import SHARING, anchored
from .joined import Joined, Row
from .sized import Written, of_author, sized
from .words import Words

__all__ = ["name_widths"]

NOTHING: Mapping[str, Any] = {}


def name_widths(trace: Trace, declared: Mapping[str, int] = NOTHING, written: Written = NOTHING) -> Trace:
    """`trace`, which has roles and may have axes, with letters for dims that are plain numbers.

    declared   sizes of letters that the user told: a dim that nothing else tells has the one letter of its size
    written    of what the model is given and returns, by its key, the names that its author has for dims
    """
    joined = Joined(trace)
    told = letters_of(trace)
    configured = {letter: size for letter, size in trace.sizes.items() if letter not in told}
    letters = anchored(trace, joined, told, configured, declared)
    sizes = {**declared, **trace.sizes, **{letter: joined.size(dim) for dim, letter in letters.items()}}
    if SHARING in sizes:
        sizes["H"] = sizes["G"] * sizes[SHARING]
    words = further = Words(joined, letters, sizes)
    if declared or written:
        rows = {key: joined.dims.of(tensor) for key, tensor in given_to(trace.calls).items()}
        author = rows | {key: joined.dims.of(tensor) for key, tensor in returned_by(trace.calls).items()}
        more = {**of_author(joined, words, author, written), **sized(joined, words, rows.values(), declared, told)}
        sizes |= {letter: joined.size(dim) for dim, letter in more.items()}
        further = Words(joined, {**letters, **more}, sizes)
    named: dict[Row, Axes] = {}

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        said = tensor.axes or tensor.shape
        row = joined.dims.known.get((tensor.number, said)) if tensor.number is not None else None
        if place == "unmade":
            row = joined.unmade.get(index, {}).get(key)
        if row is None:
            return said
        if row not in named:
            named[row] = tuple(
                axis if is_told(axis) else words.of(dim) or further.of(dim) or axis
                for axis, dim in zip(said, row, strict=True)
            )
        return named[row]

    found = with_axes(trace, axes)
    new = letters_of(found) - told
    return msgspec.structs.replace(found, sizes={**trace.sizes, **in_order({letter: sizes[letter] for letter in new})})


def letters_of(trace: Trace) -> set[str]:
    """The letters that are in the axes of its tensors."""
    axes = {tensor.axes for call in trace.calls for tensor in (*call.inputs.values(), *call.outputs.values())}
    return {letter for found in axes for axis in found or () for letter in names_in(axis)}


def is_told(axis: str | int) -> bool:
    """Whether nothing is left to be said of an axis: not so of 2·B."""
    return isinstance(axis, str) and not axis[0].isdecimal()
