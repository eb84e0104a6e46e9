"""Where the memory of each tensor comes from: new, a view, a copy, written in place.

Read from the numbers of tensors and storages, never from what a function is called: `contiguous` that had nothing to
do and dropout in eval return their input, and `reshape` copies only where it must. A name decides one thing: whether
memory that *is* new holds the same elements again (a copy) or others.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ..schema import Call, TensorMeta, Trace
from .expressions import plain_name
from .labels import Labels
from .nesting import walk

__all__ = ["Account", "Memory", "layout", "memory", "nbytes"]

REARRANGING = frozenset(
    """contiguous reshape reshape_as flatten ravel clone copy to type type_as _to_copy float double half
    bfloat16 int long short char byte bool cfloat cdouble cpu cuda to_dense repeat repeat_interleave tile cat concat
    concatenate stack hstack vstack dstack column_stack roll flip rot90 _reshape_copy""".split()
)
"""Functions whose result holds elements of their inputs, as they are or in another dtype."""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """Where the memory of one tensor comes from.

    of       what the other tensor is called: the one it is a view of, is the same as, or was written in place on
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
        """Without the reason: "copy, 256 B"."""
        if self.kind == "copy":
            return f"copy, {nbytes(self.nbytes)}"
        between = {"input": " = ", "view": " of ", "same": " as ", "in place": " on "}.get(self.kind, " ")
        return f"{self.kind}{between}{self.of}" if self.of else self.kind

    def __str__(self) -> str:
        return f"{self.summary}: {self.why}" if self.why else self.summary


class Account(msgspec.Struct, frozen=True, gc=False):
    """Of one call, by key; what is not known is not there.

    inputs       of a module, or of a call that failed: what its caller calls them
    steps        of the results, as this call alone accounts for
    statements   of the results, as the whole statement accounts for: in `c = x.transpose(0, 1).contiguous().view(8)`
                 the view is a step, the copy is what `c` cost
    written      of the inputs that were changed in place
    returned     of a module: what its own forward calls the results, where it gave them names
    code         a call that failed, as code
    """

    inputs: dict[str, Memory] = {}
    steps: dict[str, Memory] = {}
    statements: dict[str, Memory] = {}
    written: dict[str, Memory] = {}
    returned: dict[str, str] = {}
    code: str = ""


def memory(trace: Trace) -> list[Account]:
    """The account of each call. A portable trace has no numbers, and so nothing but empty accounts."""
    ledger = Ledger(trace.calls)
    for index, entering in walk(trace.calls):
        if entering:
            ledger.enter(index)
        else:
            ledger.leave(index)
    return ledger.accounts


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


class Scope(msgspec.Struct):
    """How the tensors in the forward of one module came about.

    bases    number of a view -> what the tensor is called that owns the memory
    steps    number of a result that has no name -> its account; emptied where a statement ends, in an assignment
    """

    bases: dict[int | None, str] = {}
    steps: dict[int | None, Memory] = {}


class Ledger:
    def __init__(self, calls: tuple[Call, ...]) -> None:
        self.calls = calls
        self.accounts = [Account()] * len(calls)
        self.labels = Labels()
        self.scopes = [Scope()]
        self.owners: dict[int, tuple[TensorMeta, int]] = {}  # storage -> the tensor it was first seen with, and when
        self.makers: dict[int, tuple[Call, TensorMeta]] = {}  # storage -> the call that took it, and for which tensor
        self.wrote: dict[int, int] = {}  # tensor -> the last call that changed it in place
        self.entered: dict[int, int] = {}

    def enter(self, index: int) -> None:
        call = self.calls[index]
        for tensor in call.inputs.values():
            self.meet(tensor)
        self.entered[index] = len(self.owners)
        code = "" if call.error is None else self.labels.code(call).text
        if call.kind == "module" or code:
            self.accounts[index] = Account(
                {key: self.given(key, tensor) for key, tensor in call.inputs.items()}, code=code
            )
        if call.kind == "module":
            self.labels.enter(call)
            self.scopes.append(Scope())

    def given(self, key: str, tensor: TensorMeta) -> Memory:
        label = self.labels.of(tensor)
        return Memory("input", "" if label is None or label.text == key else label.text)

    def leave(self, index: int) -> None:
        call, account = self.calls[index], self.accounts[index]
        returned: dict[str, str] = {}
        if call.kind == "module":
            returned = self.labels.leave(call)
            self.scopes.pop()
        self.wrote.update(dict.fromkeys(call.written, index))
        made = {key: self.result(index, tensor) for key, tensor in call.outputs.items()}
        if made or call.written:
            written = {key: tensor for key, tensor in call.inputs.items() if self.is_written(index, tensor)}
            self.accounts[index] = msgspec.structs.replace(
                account,
                steps={key: step for key, (step, _) in made.items() if step is not None},
                statements={key: whole for key, (_, whole) in made.items() if whole is not None},
                written={
                    key: Memory("in place", self.labels.text(tensor), by=call.name) for key, tensor in written.items()
                },
                returned=returned,
            )
        self.labels.assign(call)
        if call.variables:
            self.scopes[-1].steps.clear()

    def result(self, index: int, tensor: TensorMeta) -> tuple[Memory | None, Memory | None]:
        """What the call itself accounts for, and what its statement does."""
        call, scope = self.calls[index], self.scopes[-1]
        if tensor.number is None:
            return None, None
        source = source_of(tensor, call)
        step = self.made(index, tensor) if source is None else self.inherited(index, source, tensor)
        self.meet(tensor)
        if step is None:
            return None, None
        if step.kind == "view":
            scope.bases[tensor.number] = step.of
        whole = step
        if source is not None and source.number in scope.steps:
            before = scope.steps[source.number]
            whole = step if before.kind == "view" and step.kind == "view" else before
        is_other = source is None or source.number != tensor.number
        if call.kind == "function" and not call.variables and (is_other or tensor.number in scope.steps):
            scope.steps[tensor.number] = whole
        return step, whole

    def inherited(self, index: int, source: TensorMeta, tensor: TensorMeta) -> Memory:
        """The account of a result that is `source`, an input, or shares its memory."""
        by, text = self.calls[index].name, self.labels.text(source)
        if source.number == tensor.number:
            return Memory("in place" if self.is_written(index, tensor) else "same", text, by=by)
        return Memory("view", self.scopes[-1].bases.get(source.number, text), by=by)

    def is_written(self, index: int, tensor: TensorMeta) -> bool:
        """Whether the call, or one inside of it, changed this tensor."""
        return tensor.number is not None and self.wrote.get(tensor.number, -1) >= index

    def made(self, index: int, tensor: TensorMeta) -> Memory | None:
        """The account of a result whose memory is that of no input."""
        call, storage = self.calls[index], tensor.storage
        if tensor.name is not None:
            return Memory("parameter", self.labels.text(tensor))
        if storage is None:
            return None
        owner, since = self.owners.get(storage, (None, 0))
        maker, first = self.makers.get(storage, (None, tensor))
        if owner is not None and (maker is None or since < self.entered[index]):
            return Memory("same" if owner.number == tensor.number else "view", self.labels.text(owner), by=call.name)
        if maker is not None and (call.kind == "module" or maker.kind == "function"):
            return self.taken(maker, first)
        if call.kind == "module":
            return None
        self.makers[storage] = call, tensor
        return self.taken(call, tensor)

    def taken(self, call: Call, tensor: TensorMeta) -> Memory:
        """The account of a call that took new memory for `tensor`."""
        key, source = next(iter(call.inputs.items()), ("", None))
        if plain_name(call) not in REARRANGING or source is None:
            return Memory("new", by=call.name)
        why = ""
        if "[" in key:  # of several, as `cat` takes them
            pass
        elif source.dtype != tensor.dtype:
            why = f"{source.dtype} → {tensor.dtype}"
        elif source.device != tensor.device:
            why = f"{source.device} → {tensor.device}"
        elif straightens(call) and not source.is_contiguous:
            why = f"{self.labels.text(source)} was not contiguous"
        return Memory("copy", why=why, nbytes=tensor.nbytes, by=call.name)

    def meet(self, tensor: TensorMeta) -> None:
        if tensor.storage is not None and tensor.number is not None:
            self.owners.setdefault(tensor.storage, (tensor, len(self.owners)))


def straightens(call: Call) -> bool:
    """Whether a function copies only if its input is not contiguous."""
    if plain_name(call) == "clone":
        return call.literals.get("memory_format") == "torch.contiguous_format"
    return plain_name(call) in ("contiguous", "reshape", "reshape_as", "flatten", "ravel", "_reshape_copy")


def source_of(tensor: TensorMeta, call: Call) -> TensorMeta | None:
    """The input that a result is, or else one whose memory it shares."""
    for given in call.inputs.values():
        if given.number == tensor.number:
            return given
    if tensor.storage is None:
        return None
    return next((given for given in call.inputs.values() if given.storage == tensor.storage), None)
