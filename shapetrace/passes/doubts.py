"""Which axes of a trace are in doubt: those that runs at other sizes may give by chance, and those of which nothing is
known at any other size."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..letters import is_of_input, names_in
from ..schema import Call, TensorMeta, Trace
from .axes import is_varying, without
from .nesting import forward_of
from .plumbing import is_float

__all__ = ["axes_of", "decided", "goes_by_values", "is_formula", "may_be_chance", "used", "without_shares"]

BY_VALUES = frozenset("nonzero argwhere masked_select unique unique_consecutive bincount repeat_interleave".split())

SHORT = re.compile(r"([2-4]·)?\w(/[24])?|\w/[^\W\d]")
"""A few times a letter, or a share of it; or how often one goes into another."""

NUMBER = re.compile(r"(?<!\w)\d+")
RANK_OF_IMAGES = 4
"""The last dim of floats that are no image is a width."""

FEW = 3
"""What stands so often side by side, as queries, keys and values, is no length."""


def axes_of(trace: Trace) -> set[str | int]:
    places = ((call.inputs, call.outputs, call.unmade) for call in trace.calls)
    found = {tensor.axes or () for tensors in places for place in tensors for tensor in place.values()}
    return {axis for axes in found for axis in axes}


def decided(named: Trace, changed: Mapping[str, int] | None) -> Trace:
    """`named` without what is in doubt; `changed` are the letters that had other sizes in runs, if there were any."""
    named = without(named, is_varying) if any(map(is_varying, axes_of(named))) else named
    undecided = undecided_in(named)
    if changed is not None:  # of 4·B nothing is known at other heads, where these stayed four
        own = {letter: size for letter, size in named.sizes.items() if not is_of_input(letter)}
        undecided |= {size for letter, size in own.items() if letter not in changed and size > FEW}
    if any(is_made_of(axis, undecided) for axis in axes_of(named)):
        return without(named, lambda axis: is_made_of(axis, undecided))
    return named


def without_shares(named: Trace) -> tuple[Trace, Trace] | None:
    """`named` without the axes C/2 that stand beside a 2, and without any C; None if there are none of them.

    So wide heads are, of which nobody said how many there are. What the model does with C then says more of it than
    runs where the heads stay as they are.
    """
    found = shares(named)
    return (without(named, found.__contains__), without(named, lambda axis: "C" in names_in(axis))) if found else None


def shares(named: Trace) -> set[str]:
    rows = {
        tensor.axes or ()
        for call in named.calls
        for tensor in (*call.inputs.values(), *call.outputs.values(), *call.unmade.values())
    }
    return {f"C/{axis}" for row in rows for axis in row if isinstance(axis, int) and f"C/{axis}" in row}


def is_formula(axis: str | int) -> bool:
    """Whether it is more than a product of letters; that may fit two runs by chance, as the tokens of an expert do."""
    return isinstance(axis, str) and not is_varying(axis) and "·".join(names_in(axis)) != axis


def undecided_in(named: Trace) -> set[int]:
    """The sizes of what the model was given that are no letter, but for widths and a few: rows of a picture, a past. A
    width is one that a weight has."""
    index = forward_of(named.calls)
    tensors = [] if index is None else named.calls[index].inputs.values()
    widths = {size for call in named.calls for tensor in call.inputs.values() if tensor.name for size in tensor.shape}
    dims = (
        axis
        for tensor in tensors
        for place, axis in enumerate(tensor.axes or (), 1 - len(tensor.shape))
        if isinstance(axis, int) and not (place == 0 and is_width(tensor, widths))
    )
    return {size for size in dims if size > FEW}


def is_width(tensor: TensorMeta, widths: Collection[int]) -> bool:
    """Whether the last dim of an input is one; without weights in the record nothing else is known of it."""
    return is_float(tensor) and len(tensor.shape) < RANK_OF_IMAGES and (not widths or tensor.shape[-1] in widths)


def is_made_of(axis: str | int, undecided: set[int]) -> bool:
    """Whether a number in it may be one of these: of 5·B, where an input has 5 rows, nothing is known at 6."""
    return (
        isinstance(axis, str)
        and any(map(is_of_input, names_in(axis)))
        and any(int(number) in undecided for number in NUMBER.findall(axis))
    )


def may_be_chance(axis: str | int) -> bool:
    """Whether it is a formula that is to be confirmed: not where it is short, and the model's own: 3·C, D/2, H/G."""
    is_short = isinstance(axis, str) and SHORT.fullmatch(axis) is not None
    return is_formula(axis) and not (is_short and not any(map(is_of_input, names_in(axis))))


def goes_by_values(call: Call) -> bool:
    """Whether what comes of it is of a size that the values in a tensor say; two runs may fit a letter by chance."""
    if call.name == "where":  # of three, it says which of two are taken
        return len(call.inputs) + len(call.literals) == 1
    return call.name in BY_VALUES or (
        call.name == "__getitem__" and any(tensor.dtype == "bool" for tensor in list(call.inputs.values())[1:])
    )


def used(trace: Trace) -> dict[str, int]:
    """The sizes of those letters that a dim of some result has, or of one that a call stands for."""
    places = ((call.outputs, call.unmade) for call in trace.calls)
    made = (tensor for tensors in places for place in tensors for tensor in place.values())
    letters = {letter for tensor in made for axis in tensor.axes or () for letter in names_in(axis)}
    return {letter: size for letter, size in trace.sizes.items() if letter in letters}
