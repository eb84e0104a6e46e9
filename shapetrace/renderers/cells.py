"""Text in columns of a terminal, where Hangul is two wide and nothing from a trace is obeyed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.text import Text

__all__ = ["Piece", "axes", "cut", "cut_front", "escape", "line", "sizes", "width_of", "wrap"]

Piece = tuple[str, str]
"""A text and its style, as rich names styles; "" for none."""


def escape(text: str) -> str:
    """`text` with all that a terminal would obey or not show written out: an escape becomes `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def width_of(pieces: Iterable[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


def cut(pieces: list[Piece], width: int) -> list[Piece]:
    """At most `width` columns of `pieces`, with "…" where something is missing."""
    if width_of(pieces) <= max(width, 0):
        return pieces
    kept: list[Piece] = []
    for text, style in pieces:
        if cell_len(text) < width:
            kept.append((text, style))
            width -= cell_len(text)
            continue
        kept.append((set_cell_size(text, max(width - 1, 0)).rstrip() + "…", style))
        break
    return kept


def cut_front(pieces: list[Piece], width: int) -> list[Piece]:
    """At most `width` columns of `pieces`, the last ones, in the style of the first."""
    if width_of(pieces) <= width:
        return pieces
    text = "".join(piece for piece, _ in pieces)
    while cell_len(text) >= width:
        text = text[max(1, (cell_len(text) - width + 1) // 2) :]
    return [(f"…{text}", pieces[0][1])]


def line(cells: Iterable[tuple[list[Piece], int]]) -> Text:
    """Cells, each with the column that it begins in, as one line."""
    text, at = Text(), 0
    for pieces, column in cells:
        if not width_of(pieces):
            continue
        text.append(" " * (column - at))
        for piece, style in pieces:
            text.append(piece, style or None)
        at = max(column, at) + width_of(pieces)
    return text


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces where there are any; one at least."""
    lines, current = [], ""
    for word in text.split(" "):
        longer = f"{current} {word}" if current else word
        if cell_len(longer) <= width:
            current = longer
            continue
        if current:
            lines.append(current)
        while cell_len(word) > width:
            head = set_cell_size(word, width).rstrip()
            lines.append(head)
            word = word[len(head) :]
        current = word
    return [*lines, current] if current or not lines else lines


def axes(named: tuple[str | int, ...] | None, *, tight: bool = False) -> str:
    """The axes of a tensor as papers write them, with the size of a dim that has no name; "" for None."""
    if named is None:
        return ""
    return f"[{(',' if tight else ', ').join('?' if axis == -1 else escape(str(axis)) for axis in named)}]"


def sizes(numbers: tuple[int, ...] | None, *, tight: bool = False) -> str:
    """A shape or a stride as Python writes it, "?" for what is ragged; "" for None."""
    if numbers is None:
        return ""
    parts = ["?" if number == -1 else str(number) for number in numbers]
    inside = ("," if tight else ", ").join(parts)
    return f"({inside},)" if len(parts) == 1 else f"({inside})"
