"""The copies of a forward: what was copied, by what, on which line, and what made it necessary.

Memory counts once: what `contiguous` returned is one copy, however many modules hand it on. With aten ops in the trace,
copies inside of a function are there as well: `matmul` has to straighten an operand that is broadcast, `softmax` with
a dtype casts its input first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..schema import Call, TensorMeta, Trace, itemsize
from .accounts import Memory, Taken
from .expressions import SIGNS, plain_name
from .memory import Ledger, ledger

__all__ = ["Copy", "Totals", "copies", "totals"]

Place = tuple[str, int]


class Copy(msgspec.Struct, frozen=True, gc=False):
    """A copy that was made.

    name     the variable that its statement is assigned to, else the copy as code; of a hidden one, what was copied
    path     of the module in whose forward it was made
    memory   its account: what it is a copy of, how many bytes, why
    by       the function that made it
    inside   of which other function, if it is hidden in one; "" if it is not
    source   (file, line) of the call
    since    of a copy of what was not contiguous, the last function that made that so; "" if it was given like that
    line     (file, line) of that function
    """

    name: str
    path: str
    memory: Memory
    by: str
    inside: str = ""
    source: Place | None = None
    since: str = ""
    line: Place | None = None

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def made_by(self) -> str:
        return f"{self.by} in {self.inside}" if self.inside else self.by

    @property
    def why(self) -> str:
        """What made it necessary, in a sentence; if nothing did, of what it is a copy."""
        if not self.memory.why:
            return f"of {self.memory.of}"
        if " → " in self.memory.why:
            return f"of {self.memory.of}, {self.memory.why}"
        since = f" since {SIGNS.get(self.since, self.since)}" if self.is_elsewhere else ""
        return self.memory.why + since

    @property
    def is_elsewhere(self) -> bool:
        """Whether what made it necessary is not in the copy's own code: in `x.t().reshape(16)` it is."""
        return self.since != "" and f".{self.since}(" not in self.memory.of


class Totals(msgspec.Struct, frozen=True, gc=False):
    """What a forward took.

    activations   bytes of the memory that its functions took for their results, each storage once
    copied        bytes of those copies that `copies` lists
    by            what made them -> how many
    """

    activations: int
    copied: int
    by: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.by.values())


def copies(trace: Trace) -> list[Copy]:
    """The copies in the order in which they were made; none are known of a portable trace, which has no storages."""
    return listed(trace, ledger(trace))


def listed(trace: Trace, kept: Ledger) -> list[Copy]:
    return [copy(trace.calls, taken) for taken in sorted(kept.copied.values(), key=lambda taken: taken.index)]


def copy(calls: Sequence[Call], taken: Taken) -> Copy:
    call = calls[taken.index]
    around = enclosing(calls, taken.index)
    cause = None if taken.cause is None else calls[taken.cause]
    return Copy(
        name=taken.name or (taken.code if around is None else around.variable("") or taken.memory.of),
        path=call.path,
        memory=taken.memory,
        by=plain_name(call),
        inside="" if around is None else around.name,
        source=call.source if around is None else around.source,
        since="" if cause is None else plain_name(cause),
        line=None if cause is None or taken.cause is None else (enclosing(calls, taken.cause) or cause).source,
    )


def enclosing(calls: Sequence[Call], index: int) -> Call | None:
    """The function that an op ran in."""
    depth = calls[index].depth
    if calls[index].kind != "op":
        return None
    for place in range(index - 1, -1, -1):
        around = calls[place]
        if around.depth < depth and around.kind != "op":
            return around if around.kind == "function" else None
    return None


def totals(trace: Trace) -> Totals | None:
    """None where no memory is known: in a portable trace, or in one without functions."""
    kept = ledger(trace)
    storages = {storage for storage, taken in kept.taken.items() if trace.calls[taken.index].kind == "function"}
    if not storages:
        return None
    sizes = dict.fromkeys(storages, 0)
    for call in trace.calls:
        for tensor in call.outputs.values():
            if tensor.storage is not None and tensor.storage in storages:
                sizes[tensor.storage] = max(sizes[tensor.storage], extent(tensor))
    by: dict[str, int] = {}
    found = listed(trace, kept)
    for one in found:
        by[one.made_by] = by.get(one.made_by, 0) + 1
    ordered = dict(sorted(by.items(), key=lambda item: -item[1]))
    return Totals(sum(sizes.values()), sum(one.nbytes for one in found), ordered)


def extent(tensor: TensorMeta) -> int:
    """Bytes from the beginning of its storage to its last element."""
    if tensor.stride is None or tensor.nbytes == 0:
        return tensor.nbytes
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride, strict=False))
    return (tensor.offset + last + 1) * itemsize(tensor.dtype)
