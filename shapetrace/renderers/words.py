"""What a row says, in styled pieces: its name, and where its memory comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .cells import Piece, escape, width_of
from .row import Row

__all__ = ["NAME_STYLES", "NOTHING", "ROLE", "full_name", "memory_of", "name_of", "said_below", "says", "span"]

NOTHING = "no tensor was seen"

NAME_STYLES = {
    "module": "bold",
    "tensor": "bold",
    "unmade": "dim italic",
    "failed": "bold red",
    "op": "dim",
    "error": "red",
}
ROLE = "magenta"
LETTER = 1
"""A role as short as this is part of any word: "q" of "seq_norm"."""

MEMORY_STYLES = {"copy": "bold yellow", "in place": "bold magenta", "view": "green", "parameter": "blue"}


def name_of(row: Row) -> list[Piece]:
    """Its name, its role, what made it, its class, and last what that does."""
    name, role = row.name or row.role, beside(row)
    style = NAME_STYLES[row.kind]
    if row.role and row.kind == "tensor":
        style = style if role else f"bold {ROLE}" if row.name == row.role else ROLE if not row.name else style
    between = "" if not name else " " if row.maker.startswith("→") else "  "
    maker = f"{between}{escape(row.maker)}" if row.maker else ""
    cls = f"{' ' if row.maker and row.tensor is not None else '  '}{escape(row.cls)}" if row.cls else ""
    does = f" · {escape(row.does)}" if row.does and not says(f"{name} {row.cls}", row.does) else ""
    return [
        (escape(name), style),
        (f" · {escape(role)}" if role else "", ROLE),
        (maker, "dim"),
        (cls, "dim"),
        (does, "dim"),
    ]


def beside(row: Row) -> str:
    """Its role, unless its name is that word, or the name of the module that made it says it: that of `tokens` which
    `token_embedding` made. A part of a variable says nothing: `attn_weights` may be the scores as well.
    """
    if not row.name or re.split(r"[.\[]", row.name)[-1] == row.role:
        return ""
    module = "" if not row.cls else row.maker or row.name
    return "" if len(row.role) > LETTER and says(module, row.role) else row.role


def says(text: str, word: str) -> bool:
    """Whether letters say the same, however they are cased and joined: `FeedForward` says "feed-forward"."""
    return letters_of(word) in letters_of(text)


def letters_of(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def full_name(row: Row) -> str:
    """Its name, with the whole path before it."""
    return escape(".".join(part for part in (row.path, row.name or row.role) if part))


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


def span(rows: Sequence[int]) -> str:
    """Rows as Python counts them where they are evenly spaced, "16:32", "0:32:2"; else each."""
    first, last = rows[0], rows[-1]
    step = rows[1] - first if len(rows) > 1 else 1
    if step > 0 and list(rows) == list(range(first, last + 1, step)):
        return f"{first}:{last + 1}" + (f":{step}" if step > 1 else "")
    return ",".join(map(str, rows))
