"""What can be said of where memory comes from, of one tensor and of one call; and the words for it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..schema import TensorMeta

__all__ = ["Account", "Memory", "Taken", "layout", "nbytes"]


class Memory(msgspec.Struct, frozen=True, gc=False):
    """Where the memory of one tensor comes from.

    of       what the other tensor is called: the one it is a view or copy of, is the same as, or was written on
    why      what made the copy necessary
    nbytes   of a copy
    by       the function whose doing it is
    """

    kind: Literal["input", "parameter", "new", "view", "copy", "in place", "same"]
    of: str = ""
    why: str = ""
    nbytes: int = 0
    by: str = ""

    @property
    def summary(self) -> str:
        """Without the reason, and of a copy without its source: "copy, 256 B"."""
        return f"copy, {nbytes(self.nbytes)}" if self.kind == "copy" else self.said

    @property
    def said(self) -> str:
        """Without the reason: "copy of x, 256 B"."""
        between = {"input": " = ", "view": " of ", "copy": " of ", "same": " as ", "in place": " on "}.get(
            self.kind, " "
        )
        text = f"{self.kind}{between}{self.of}" if self.of else self.kind
        return f"{text}, {nbytes(self.nbytes)}" if self.kind == "copy" else text

    def __str__(self) -> str:
        return f"{self.said}: {self.why}" if self.why else self.said


class Taken(msgspec.Struct, frozen=True, gc=False):
    """Memory that a call took.

    index    of the call
    tensor   its result in that memory
    source   of a copy, the first tensor that was copied
    memory   the account of the call
    code     of a copy, the call as code
    name     of a copy, the variable that its statement is assigned to; "" if there is none
    cause    of a copy made because its source was not contiguous, the index of the call that made that so
    """

    index: int
    tensor: TensorMeta
    memory: Memory
    source: TensorMeta | None = None
    code: str = ""
    name: str = ""
    cause: int | None = None


class Account(msgspec.Struct, frozen=True, gc=False):
    """Of one call, by key; what is not known is not there.

    inputs       of a module, or of a call that failed: what its caller calls them
    steps        of the results, as this call alone accounts for
    statements   of the results, as the whole statement accounts for: in `c = x.transpose(0, 1).contiguous().view(8)`
                 the view is a step, the copy is what `c` cost; a statement with a role inside (in `(w @ v).mT` the
                 product is the head output) begins again after that
    written      of the inputs that were changed in place
    returned     of a module: what its own forward calls the results, where it gave them names
    inside       of a module: of its results, as the statements of its own forward account for
    code         a call that failed, as code
    """

    inputs: dict[str, Memory] = {}
    steps: dict[str, Memory] = {}
    statements: dict[str, Memory] = {}
    written: dict[str, Memory] = {}
    returned: dict[str, str] = {}
    inside: dict[str, Memory] = {}
    code: str = ""


def layout(tensor: TensorMeta) -> str:
    """What is unusual about how the elements lie in memory; "" if nothing is."""
    if tensor.layout != "strided":
        return tensor.layout
    if any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride or (), strict=False)):
        return "broadcast (stride 0)"
    return "" if tensor.is_contiguous else "not contiguous"


def nbytes(count: int) -> str:
    """256 -> "256 B", 1536 -> "1.54 kB"."""
    size, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 999.5:
        size, unit = size / 1000, next(units, "PB")
    return f"{size:.3g} {unit}"
