"""One line of what there is to show, and what can be said on it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..passes.memory import Memory, layout
from ..schema import Call, TensorMeta, Trace, line_of

__all__ = ["Row", "facets", "noted", "raised"]

LONGEST_NOTE = 24

Kind = Literal["tensor", "module", "op", "unmade", "failed", "error"]


class Row(msgspec.Struct, frozen=True, gc=False):
    """One line.

    kind      "module" heads what happens inside of it, "op" is a step below a function, "unmade" a tensor that a fused
              call never makes, "failed" a call that raised, and "error" what it raised
    depth     how far in it stands
    path      of the module in whose forward it is
    name      the variable; else the module, as seen from `path`; "" if there is neither
    maker     what made it: the module, the function; of a module that is opened "→ x", what its result is assigned to
    cls       the class of the module
    remarks   what else there is to say of its memory
    others    the modules that are identical to this one
    role      what the tensor does, also where a call that is not shown says it
    does      what the module does as a whole
    """

    kind: Kind
    depth: int
    path: str
    name: str
    maker: str = ""
    cls: str = ""
    tensor: TensorMeta | None = None
    memory: Memory | None = None
    remarks: tuple[str, ...] = ()
    others: str = ""
    role: str = ""
    does: str = ""


def facets(tensor: TensorMeta, made: Memory | None, trace: Trace) -> tuple[str, ...]:
    """What is unlike the rest of the trace, and not said yet: "int64", "not contiguous"."""
    is_said = made is not None and made.why.endswith(f" {tensor.dtype}")
    found = (
        tensor.dtype if tensor.dtype != trace.dtype and not is_said else "",
        tensor.device if tensor.device != trace.device and trace.device else "",
        tensor.kind or "" if tensor.kind != "Parameter" else "",
        layout(tensor),
        values_of(tensor),
    )
    return tuple(filter(None, found))


def values_of(tensor: TensorMeta) -> str:
    """What its values are like, if that is known: "2 NaN · 0.12 ± 0.98 in -3.1…2.7", mean and deviation."""
    stats = tensor.stats
    if stats is None:
        return ""
    strange = [f"{count} {what}" for count, what in ((stats.nan, "NaN"), (stats.inf, "inf")) if count]
    if None not in (stats.mean, stats.std, stats.min, stats.max):
        strange.append(f"{stats.mean:.3g} ± {stats.std:.3g} in {stats.min:.3g}…{stats.max:.3g}")
    return " · ".join(strange)


def noted(call: Call) -> tuple[str, ...]:
    """The note of a call up to its first colon; the whole of it stands above the tree."""
    if call.note is None:
        return ()
    word = call.note.partition(":")[0]
    return (word if len(word) <= LONGEST_NOTE else f"{word[: LONGEST_NOTE - 1]}…",)


def raised(call: Call) -> str:
    """What a call raised, and the line that it stands in; of a module, whose line is its caller's, just what."""
    if call.source is None or call.kind == "module":
        return call.error or ""
    return f"{call.error} ({line_of(call.source)})"
