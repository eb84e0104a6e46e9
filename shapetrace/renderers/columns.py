"""How wide the columns of a tree are, so that they stay put from its first row to its last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from .cells import Piece, cut, sizes, width_of
from .row import Row
from .words import memory_of, name_of

__all__ = ["GAP", "NAME", "ROOMY", "Columns", "fit", "longest", "measure", "share"]

GAP = 2
NAME, MEMORY = 16, 12
"""The least that the first and the last column are left with, before strides are cut."""

SHORTEST = 10
"""What a name keeps when it gives way to what made it."""

ROOMY = 100
"""From this width on there is a space after each comma of a shape, and levels are three columns apart, not two."""


class Columns(msgspec.Struct, frozen=True):
    """Where each column begins, and where the last one ends. One that no row needs begins where the next one does."""

    shape: int
    stride: int
    memory: int
    end: int
    tight: bool

    @property
    def titles(self) -> list[tuple[int, str]]:
        places = [
            (self.shape, "shape", self.stride),
            (self.stride, "stride", self.memory),
            (self.memory, "memory", self.end),
        ]
        return [(at, title) for at, title, end in places if at + len(title) <= end]

    def place(self, pieces: list[Piece], least: int) -> int:
        """Where `pieces` can begin and fit: the last column that lets them, else where they must, from `least` on."""
        start = self.end - width_of(pieces)
        return next((at for at in (self.memory, self.stride, self.shape) if at <= start), max(start, least))


def measure(rows: Sequence[Row], guides: Sequence[str], width: int) -> Columns:
    """Wide enough for each column while there is room; else classes give way, and names and memory lose the least."""
    tight = width < ROOMY
    places = [(row, len(guide)) for row, guide in zip(rows, guides, strict=True) if row.tensor is not None]
    tensors = [row.tensor for row, _ in places if row.tensor is not None]
    shape = longest((len(sizes(tensor.shape, tight=tight)) for tensor in tensors), "shape")
    stride = longest((len(sizes(tensor.stride, tight=tight)) for tensor in tensors), "stride")
    memories = Counter(width_of(memory_of(row)) for row, _ in places)
    gaps = GAP * sum(column > 0 for column in (shape, stride, longest(memories)))
    shape = min(shape, width // 3)
    stride = min(stride, max(width - gaps - shape - NAME - MEMORY, len("stride")))
    room = width - gaps - shape - stride
    name = longest(guide + width_of(name_of(row)) for row, guide in places)
    if name + longest(memories) > room:
        name = share(Counter(guide + width_of(name_of(row)[:-1]) for row, guide in places), memories, room)
    at_shape = name + GAP
    at_stride = at_shape + shape + (GAP if shape else 0)
    return Columns(at_shape, at_stride, at_stride + stride + (GAP if stride else 0), width, tight)


def longest(widths: Iterable[int], title: str = "") -> int:
    """The width of a column with this title; 0 if there is nothing in it."""
    most = max(widths, default=0)
    return max(most, len(title)) if most else 0


def share(left: Counter[int], right: Counter[int], room: int) -> int:
    """How much of `room` the left column gets, so that the least is cut off in both."""
    most = max(room - min(MEMORY, longest(right)), 1)
    return min(range(min(NAME, most), most + 1), key=lambda at: (lost(left, at) + lost(right, room - at), -at))


def lost(widths: Counter[int], room: int) -> int:
    return sum(count * (width - room) for width, count in widths.items() if width > room)


def fit(name: list[Piece], width: int) -> list[Piece]:
    """A name without its class if that does not fit; then it is cut, but not what made it, which tells rows apart."""
    if width_of(name) <= width:
        return name
    *guide, word, maker = name[:-1]
    room = width - width_of([*guide, maker])
    if width_of([word]) > room >= SHORTEST:
        return [*guide, *cut([word], room), maker]
    return cut(name[:-1], width)
