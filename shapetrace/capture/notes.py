"""What a reader must know to believe a trace, and what an exception is told."""

from __future__ import annotations

from contextlib import suppress

from ..schema import Call

__all__ = ["note", "notes_of"]

NONE: tuple[str, ...] = ()
"""The very () of a constant: on Python 3.10 `tuple` may make another one, which msgspec would write to a file."""

MATERIALISED = (
    "scaled_dot_product_attention was written out, as asked: its scores and weights are real, and its results equal "
    "those of the fused kernel within rounding"
)


def notes_of(calls: tuple[Call, ...], *, materialised: bool = False) -> tuple[str, ...]:
    """The notes of all calls, each once, with the classes it was said of; and that attention was written out."""
    said: dict[str, dict[str, None]] = {}
    for call in calls:
        if call.note is not None:
            said.setdefault(call.note, {})[call.name] = None
    found = tuple(f"{', '.join(names)}: {note}" for note, names in said.items())
    return (*found, MATERIALISED) if materialised else found or NONE


def note(error: BaseException, text: str) -> None:
    """As `add_note`, which Python 3.10 lacks; once, for an exception may be raised again."""
    with suppress(Exception):  # it is the user's, and may have slots, or notes of another kind
        notes = error.__dict__.setdefault("__notes__", [])
        if text not in notes:
            notes.append(text)
