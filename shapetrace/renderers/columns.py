"""How wide the columns of a tree are, so that they stay put from its first row to its last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from rich.cells import cell_len

from ..schema import TensorMeta
from .cells import Piece, axes, cut, sizes, width_of
from .row import Row
from .words import memory_of, name_of

__all__ = ["GAP", "NAME", "ROOMY", "Columns", "fit", "longest", "measure", "share"]

GAP = 2
NAME, MEMORY = 16, 12
"""The least that the first and the last column are left with, before strides are cut."""

SHORTEST, SHORT = 10, 4
"""What a name keeps when it gives way to what made it, or to its role."""

TOLERATED = 4
"""A column cut off in every so many rows is less of a loss than strides in none."""

ROOMY = 100
"""From this width on there is a space after each comma of a shape, and levels are three columns apart, not two."""


class Columns(msgspec.Struct, frozen=True):
    """Where each column begins, and where the last one ends. One that no row needs begins where the next one does."""

    axes: int
    shape: int
    stride: int
    memory: int
    end: int
    tight: bool

    @property
    def titles(self) -> list[tuple[int, str]]:
        places = [
            (self.axes, "axes", self.shape),
            (self.shape, "shape", self.stride),
            (self.stride, "stride", self.memory),
            (self.memory, "memory", self.end),
        ]
        return [(at, title) for at, title, end in places if at + len(title) <= end]

    def place(self, pieces: list[Piece], least: int) -> int:
        """Where `pieces` can begin and fit: the last column that lets them, else where they must, from `least` on."""
        start = self.end - width_of(pieces)
        return next((at for at in (self.memory, self.stride, self.shape, self.axes) if at <= start), max(start, least))


def measure(rows: Sequence[Row], guides: Sequence[str], width: int) -> Columns:
    """Wide enough for each column while there is room; else classes give way, and names and memory lose the least.

    Where there are axes, the spaces after commas and the strides are missed less than an end of a name: they go first.
    """
    places = [(row, row.tensor, len(guide)) for row, guide in zip(rows, guides, strict=True) if row.tensor is not None]
    has_axes = any(tensor.axes for _, tensor, _ in places)
    ways = [(width < ROOMY, True)]
    if has_axes:
        ways = [way for way in ((False, True), (True, True), (False, False), (True, False)) if way[0] >= ways[0][0]]
    for tight, has_stride in ways:
        columns, missing = laid_out(places, width, tight=tight, has_stride=has_stride)
        if missing <= len(places) // TOLERATED:
            break
    return columns


def laid_out(
    places: Sequence[tuple[Row, TensorMeta, int]], width: int, *, tight: bool, has_stride: bool
) -> tuple[Columns, int]:
    """Columns for rows with tensors, each in a guide so wide; and how much of names and memory is cut off in them."""
    tensors = [tensor for _, tensor, _ in places]
    named = longest((cell_len(axes(tensor.axes, tight=tight)) for tensor in tensors), "axes")
    shape = longest((len(sizes(tensor.shape, tight=tight)) for tensor in tensors), "shape")
    stride = longest((len(sizes(tensor.stride, tight=tight)) for tensor in tensors if has_stride), "stride")
    named, shape = min(named, width // 4), min(shape, width // (4 if named else 3))
    names = Counter(guide + width_of(needed(name_of(row))) for row, _, guide in places)
    memories = Counter(width_of(memory_of(row)) for row, _, _ in places)
    room = width - taken(named, shape) - (GAP if longest(memories) else 0)
    stride = min(stride, max(room - GAP - NAME - MEMORY, len("stride"))) if stride else 0
    room -= taken(stride)
    name = longest(guide + width_of(name_of(row)) for row, _, guide in places)
    if name + longest(memories) > room:
        name = share(names, memories, room)
    at_shape = name + GAP + taken(named)
    at_stride = at_shape + taken(shape)
    columns = Columns(name + GAP, at_shape, at_stride, at_stride + taken(stride), width, tight)
    return columns, lost(names, name) + lost(memories, room - name)


def needed(name: list[Piece]) -> list[Piece]:
    """What of a name should not be cut off: its word, and its role or what made it, which tell rows apart."""
    word, role, maker, *_ = name
    return [word, role] if role[0] else [word, maker]


def taken(*columns: int) -> int:
    """What columns take with the gaps beside them; one that is not there takes nothing."""
    return sum(column + GAP for column in columns if column)


def longest(widths: Iterable[int], title: str = "") -> int:
    """The width of a column with this title; 0 if there is nothing in it."""
    most = max(widths, default=0)
    return max(most, len(title)) if most else 0


def share(left: Counter[int], right: Counter[int], room: int) -> int:
    """How much of `room` the left column gets, so that the least is cut off in both."""
    most = max(room - min(MEMORY, longest(right)), room // 2, 1)
    return min(range(min(NAME, most), most + 1), key=lambda at: (lost(left, at) + lost(right, room - at), -at))


def lost(widths: Counter[int], room: int) -> int:
    return sum(count * (width - room) for width, count in widths.items() if width > room)


def fit(name: list[Piece], width: int) -> list[Piece]:
    """A name in its guide without its class if that does not fit, nor what it does; nor what made it, if it has a role.

    Then it is cut, but not its role, or what made it, which tell rows apart; a role may stand alone in the end.
    """
    guide, *pieces = name
    word, role, maker, _, does = pieces
    core = [guide, *needed(pieces)]
    for way in (name, [guide, word, role, maker, does], [guide, word, role, maker], core):
        if width_of(way) <= width:
            return way
    room = width - width_of([guide, core[-1]])
    if width_of([word]) > room >= (SHORT if width_of([role]) else SHORTEST):
        return [guide, *cut([word], room), core[-1]]
    return cut([guide, (role[0].removeprefix(" · "), role[1])] if role[0] else core, width)
