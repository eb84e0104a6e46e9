"""What a row says, in styled pieces: its name, and where its memory comes from."""

from __future__ import annotations

from .cells import Piece, escape, width_of
from .row import Row

__all__ = ["NAME_STYLES", "NOTHING", "full_name", "memory_of", "name_of", "said_below"]

NOTHING = "no tensor was seen"

NAME_STYLES = {"module": "bold", "tensor": "bold", "failed": "bold red", "op": "dim", "error": "red"}
MEMORY_STYLES = {"copy": "bold yellow", "in place": "bold magenta", "view": "green", "parameter": "blue"}


def name_of(row: Row) -> list[Piece]:
    """Its name, what made it, and last its class."""
    between = "" if not row.name else " " if row.maker.startswith("→") else "  "
    maker = f"{between}{escape(row.maker)}" if row.maker else ""
    cls = f"{' ' if row.maker and row.tensor is not None else '  '}{escape(row.cls)}" if row.cls else ""
    return [(escape(row.name), NAME_STYLES[row.kind]), (maker, "dim"), (cls, "dim")]


def full_name(row: Row) -> str:
    """Its name, with the whole path before it."""
    return escape(".".join(part for part in (row.path, row.name) if part))


def memory_of(row: Row, extra: str = "", *, whole: bool = False) -> list[Piece]:
    """Where its memory comes from, with `extra`, and what is unusual about it; `whole` names the source of a copy."""
    pieces: list[Piece] = []
    if row.memory is not None:
        pieces.append(
            (escape(row.memory.said if whole else row.memory.summary), MEMORY_STYLES.get(row.memory.kind, "dim"))
        )
    pieces.append((extra, "yellow" if row.memory is not None and row.memory.why else ""))
    for remark in row.remarks:
        pieces.append((f"{' · ' if width_of(pieces) else ''}{escape(remark)}", "dim"))
    return pieces


def said_below(row: Row) -> tuple[str, str]:
    """What may stand on a line of its own: the reason of a copy, or who is identical; and the sign before it."""
    if row.memory is not None and row.memory.why:
        return ": ", escape(row.memory.why)
    return " · " if row.memory is not None and row.others else "", escape(row.others)
