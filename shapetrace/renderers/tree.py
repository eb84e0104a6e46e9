"""The tree: a row for each tensor, below the module that it lives in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ..schema import TensorMeta, Trace
from .cells import Piece, axes, cut, escape, line, sizes, width_of, wrap
from .columns import GAP, NAME, ROOMY, Columns, fit, measure
from .head import head
from .output import output
from .row import Row
from .rows import rows
from .style import Style
from .summary import summary
from .words import NOTHING, memory_of, name_of, said_below

__all__ = ["tree", "tree_lines"]


def tree(trace: Trace, style: Style) -> str:
    return output(tree_lines(trace, style.columns, all=style.all, depth=style.depth), style)


def tree_lines(trace: Trace, width: int, *, all: bool = False, depth: int | None = None) -> list[Text]:
    found = rows(trace, all=all, depth=depth)
    lines = head(trace, width)
    if not found:
        return [*lines, Text(NOTHING, "dim")]
    guides = list(guided(found, 2 if width < ROOMY else 3, width // 3))
    columns = measure(found, [guide for guide, _ in guides], width)
    lines.append(line([([(title, "dim")], at) for at, title in columns.titles]))
    for row, (guide, below) in zip(found, guides, strict=True):
        lines += drawn(row, guide, below, columns)
    return [*lines, *summary(trace, width)]


def guided(rows: Sequence[Row], indent: int, width: int) -> Iterator[tuple[str, str]]:
    """The guides before each row, and before what is said below it; at most `width` columns of them, the inner ones."""
    follows = [False] * len(rows)
    deeper: list[bool] = []
    for place in reversed(range(len(rows))):
        depth = rows[place].depth
        del deeper[depth + 1 :]
        deeper += [False] * (depth + 1 - len(deeper))
        follows[place] = deeper[depth]
        deeper[depth] = True
    above: list[str] = []
    for place, row in enumerate(rows):
        del above[row.depth :]
        stem = "".join(above)
        if len(stem) > width:
            stem = f"…{stem[-width + 1 :]}"
        has_inside = place + 1 < len(rows) and rows[place + 1].depth > row.depth
        above.append(("│" if follows[place] else " ").ljust(indent))
        yield f"{stem}{'├─ ' if follows[place] else '└─ '}", f"{stem}{above[-1]}{'│' if has_inside else ''}"


def drawn(row: Row, guide: str, below: str, columns: Columns) -> list[Text]:
    """A row as one line; two where the reason of a copy, or who is identical, does not fit into it."""
    if row.kind == "error":
        return failure(row, guide, below, columns.end)
    if row.tensor is None:
        return [heading(row, guide, columns)]
    room = columns.end - columns.memory
    cells = [(fit([(guide, "dim"), *name_of(row)], columns.axes - GAP), 0), *form(row, row.tensor, columns)]
    sign, said = said_below(row)
    whole, brief = memory_of(row, sign + said, whole=True), memory_of(row, sign + said)
    if not said or width_of(brief) <= room:
        return [line([*cells, (cut(whole if width_of(whole) <= room else brief, room), columns.memory)])]
    first = line([*cells, (cut([*memory_of(row), (sign.rstrip(" ·"), "dim")], room), columns.memory)])
    at = columns.place([(said, "")], len(below) + 1)
    more = cut([(said, "yellow" if sign == ": " else "")], columns.end - at)
    return [first, line([([(below, "dim")], 0), (more, at)])]


def form(row: Row, tensor: TensorMeta, columns: Columns) -> Iterator[tuple[list[Piece], int]]:
    """The axes, the shape and the stride, each where it begins; what stands out is the first of these that there is."""
    dim = {"op": "dim", "unmade": "dim italic"}.get(row.kind)
    plain = "cyan" if columns.shape > columns.axes else "bold cyan"
    for text, style, at, end in (
        (axes(tensor.axes, tight=columns.tight), "bold cyan", columns.axes, columns.shape),
        (sizes(tensor.shape, tight=columns.tight), plain, columns.shape, columns.stride),
        (sizes(tensor.stride, tight=columns.tight), "dim", columns.stride, columns.memory),
    ):
        if at < end:
            yield cut([(text, dim or style)], end - GAP - at), at


def heading(row: Row, guide: str, columns: Columns) -> Text:
    """A row without a tensor: who is identical may begin before the memory, its name may end after its own column."""
    others = escape(row.others)
    name, said = [(guide, "dim"), *name_of(row)], memory_of(row, others)
    if not width_of(said):
        return line([(fit(name, columns.end), 0)])
    at = columns.place([(others, "")], len(guide) + NAME) if others else columns.memory
    return line([(fit(name, at - GAP), 0), (cut(said, columns.end - at), at)])


def failure(row: Row, guide: str, below: str, end: int) -> list[Text]:
    """What was raised, in as many lines as it needs."""
    first, *more = wrap(escape(row.name), end - len(guide))
    lines = [[(guide, "dim"), (first, "red")], *([(below.ljust(len(guide)), "dim"), (text, "red")] for text in more)]
    return [line([(pieces, 0)]) for pieces in lines]
