"""A trace before it is read.

To watch a forward takes less time if its calls are only noted. They become data when somebody asks for the trace, which
in a training loop may be never.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..schema import Stats, Trace
from .materialised import was_written_out
from .noted import Noted, calls_of
from .notes import notes_of
from .stats import with_stats

__all__ = ["Unread"]


class Unread(msgspec.Struct, frozen=True):
    """All of a trace but what its calls tell, and these as they were noted.

    materialise   whether fused attention was to be written out
    stats         what the values of its tensors are like, if that was asked for
    """

    header: Trace
    noted: list[Noted]
    materialise: bool = False
    stats: Sequence[Stats | None] | None = None

    def read(self) -> Trace:
        calls = calls_of(self.noted)
        tensors = (tensor for call in calls for tensor in (*call.inputs.values(), *call.outputs.values()))
        first = next((t for t in tensors if t.dtype.startswith(("float", "bfloat", "complex"))), None)
        notes = notes_of(calls, materialised=self.materialise and was_written_out(calls))
        trace = msgspec.structs.replace(
            self.header,
            dtype=first.dtype if first else self.header.dtype,
            device=first.device if first else self.header.device,
            notes=(*self.header.notes, *notes) if self.header.notes else notes,
            calls=calls,
        )
        return trace if self.stats is None else with_stats(trace, self.stats)
