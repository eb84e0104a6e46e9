"""The table: a row for each tensor under its whole name, for wide terminals."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from ..schema import Trace
from .cells import Piece, axes, cut, cut_front, escape, line, sizes, width_of
from .columns import GAP, ROOMY, longest, share
from .head import head
from .output import output
from .row import Row
from .rows import rows
from .style import Style
from .summary import summary
from .words import NAME_STYLES, NOTHING, ROLE, full_name, memory_of, said_below

__all__ = ["flat", "table"]

TITLES = ("tensor", "role", "made by", "axes", "shape", "stride", "dtype", "memory")

ENOUGH = {"dtype": 50, "made by": 50, "stride": 50, "role": 25, "axes": 12}
"""While the first and the last column have neither the room they want nor so much, these go, one after the other."""


def table(trace: Trace, style: Style) -> str:
    width = style.columns
    found = flat(trace, style)
    if not found:
        return output([*head(trace, width), Text(NOTHING, "dim")], style)
    has_axes = any(row.tensor is not None and row.tensor.axes for row in found)
    grid = [cells(row, width < ROOMY, "cyan" if has_axes else "bold cyan") for row in found]
    columns = list(zip(*grid, strict=True))
    widths = [longest(map(width_of, column), title) for title, column in zip(TITLES, columns, strict=True)]
    for title, enough in ENOUGH.items():
        if room_of(widths, width) < min(enough, widths[0] + widths[-1]):
            widths[TITLES.index(title)] = 0
    room = room_of(widths, width)
    if widths[0] + widths[-1] > room:
        memories = Counter([len(TITLES[-1]), *map(width_of, columns[-1])])
        widths[0] = share(Counter(map(width_of, columns[0])), memories, room)
        widths[-1] = room - widths[0]
    titles = [[(title, "dim")] for title in TITLES]
    lines = [laid(line, widths) for line in (titles, *grid)]
    return output([*head(trace, width), *lines, *summary(trace, width)], style)


def room_of(widths: list[int], width: int) -> int:
    """What the first and the last column share."""
    return width - sum(size + GAP for size in widths[1:-1] if size) - GAP


def flat(trace: Trace, style: Style) -> list[Row]:
    """The rows that say something by themselves: those of modules only where there is more to say than their name."""
    found = rows(trace, all=style.all, depth=style.depth)
    return [row for row in found if says_something(row)]


def says_something(row: Row) -> bool:
    return row.tensor is not None or row.kind != "module" or bool(row.others or row.remarks or row.does)


def cells(row: Row, tight: bool, shape_style: str) -> list[list[Piece]]:
    """A row, cell by cell as in `TITLES`."""
    if row.kind == "error":
        return [[(escape(row.path), "red")], *[[]] * (len(TITLES) - 2), [(escape(row.name), "red")]]
    sign, said = said_below(row)
    made_by = " ".join(escape(word) for word in (row.maker, row.cls) if word)
    name: list[Piece] = [(full_name(row), NAME_STYLES[row.kind])]
    role = escape(row.role or row.does)
    lettered = shape = stride = dtype = ""
    if row.tensor is not None:
        lettered = axes(row.tensor.axes, tight=tight)
        shape, stride = sizes(row.tensor.shape, tight=tight), sizes(row.tensor.stride, tight=tight)
        dtype = escape(row.tensor.dtype)
    memory = memory_of(row, sign + said, whole=not tight)
    middle = [(role, ROLE), (made_by, "dim"), (lettered, "bold cyan"), (shape, shape_style), (stride, "dim")]
    return [name, *([piece] for piece in middle), [(dtype, "dim")], memory]


def laid(cells: list[list[Piece]], widths: list[int]) -> Text:
    at, placed = 0, []
    for place, (pieces, width) in enumerate(zip(cells, widths, strict=True)):
        if width:
            placed.append(((cut if place else cut_front)(pieces, width), at))
            at += width + GAP
    return line(placed)
