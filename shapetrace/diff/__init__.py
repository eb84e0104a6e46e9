"""Compare two traces: what was added, removed, moved and changed, as data that knows no torch.

    diff = compare(before, after)
    if diff: print(diff)

Tensors correspond by the structure of the two models and by what they do, never by their shapes; the variables and
paths by which they go are how they are found, and are not compared themselves.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ..errors import ShapetraceError
from ..schema import Trace
from .changes import Change, Diff, Line, Sizes
from .fields import Comparer, chosen, refuse
from .items import Item, Place
from .outline import Outline
from .pairing import Pairing
from .pairs import pairs

__all__ = ["Change", "Diff", "Item", "Line", "Place", "Sizes", "compare", "pairs"]


def compare(
    before: Trace, after: Trace, *, exact: bool = False, only: Collection[str] = (), ignore: Collection[str] = ()
) -> Diff:
    """What differs between two traces.

    exact          also stride, contiguity and memory, which are comparable on one device and torch version
    only, ignore   of the fields: shape, axes, role, dtype, layout, device (of a tensor that is not where its model is),
                   class, tied, bias, made, error, layers, order, structure

    Raises `ShapetraceError` for a field that is not there, and for traces that are not comparable exactly.
    """
    for trace in (before, after):
        if not isinstance(trace, Trace):
            raise ShapetraceError(f"traces are compared, not {type(trace).__name__}; shapetrace.load reads one")
    fields = chosen(only, ignore, exact=exact)
    if exact:
        refuse(before, after)
    comparer = Comparer(before, after, fields)
    outline = Outline(before, after, Pairing(before, after), comparer)
    lines = outline.lines()
    sizes = tuple(Sizes(letter, *both, outline.letters.get(letter, 0)) for letter, both in comparer.sizes.items())
    ours, theirs = (msgspec.structs.replace(trace, calls=()) for trace in (before, after))
    return Diff(ours, theirs, lines, sizes, tuple(outline.explained), tuple(outline.unnamed))
