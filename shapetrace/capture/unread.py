"""A trace before it is read.

To watch a forward takes less time if its calls are only noted. They become data when somebody asks for the trace, which
in a training loop may be never.
"""

from __future__ import annotations

import msgspec

from ..schema import Call, Trace
from .notes import Note, calls_of

__all__ = ["Unread"]

NONE: tuple[str, ...] = ()
"""The very () of a constant: on Python 3.10 `tuple` may make another one, which msgspec would write to a file."""


class Unread(msgspec.Struct, frozen=True):
    """All of a trace but what its calls tell, and these as they were noted."""

    header: Trace
    notes: list[Note]

    def read(self) -> Trace:
        calls = calls_of(self.notes)
        tensors = (tensor for call in calls for tensor in (*call.inputs.values(), *call.outputs.values()))
        first = next((t for t in tensors if t.dtype.startswith(("float", "bfloat", "complex"))), None)
        return msgspec.structs.replace(
            self.header,
            dtype=first.dtype if first else "",
            device=first.device if first else "",
            notes=notes_of(calls),
            calls=calls,
        )


def notes_of(calls: tuple[Call, ...]) -> tuple[str, ...]:
    """The notes of all calls, each once, with the classes it was said of."""
    said: dict[str, dict[str, None]] = {}
    for call in calls:
        if call.note is not None:
            said.setdefault(call.note, {})[call.name] = None
    return tuple(f"{', '.join(names)}: {note}" for note, names in said.items()) or NONE
