"""Where the memory of each tensor comes from: new, a view, a copy, written in place.

Read from the numbers of tensors and storages, never from what a function is called: `contiguous` that had nothing to
do and dropout in eval return their input, and `reshape` copies only where it must. A name decides one thing: whether
memory that *is* new holds the same elements again (a copy) or others. What picks some of them by value or by index
(`gather`, `x[index]`, an embedding) makes others; what writes into memory that was there before (`y.copy_(x)`,
`y[0] = x`) is in place, and takes none.
"""

from __future__ import annotations

import msgspec

from ..schema import Call, TensorMeta, Trace
from .accounts import Account, Memory, Taken, layout, nbytes
from .copying import CROOKED, bends, copied, is_crooked, joined, reason
from .labels import Labels
from .nesting import walk

__all__ = ["Account", "Ledger", "Memory", "Taken", "layout", "ledger", "memory", "nbytes"]


def memory(trace: Trace) -> list[Account]:
    """The account of each call. A portable trace has no numbers, and so nothing but empty accounts."""
    return ledger(trace).accounts


def ledger(trace: Trace) -> Ledger:
    """The accounts, and what memory was taken."""
    kept = Ledger(trace.calls)
    for index, entering in walk(trace.calls):
        if entering:
            kept.enter(index)
        else:
            kept.leave(index)
    return kept


class Scope(msgspec.Struct):
    """How the tensors in the forward of one module came about.

    bases       number of a view -> what the tensor is called that owns the memory
    steps       number of a result with neither name nor role, of which there is nothing to see -> its account; emptied
                where a statement ends, in an assignment
    statements  number of a result -> the account of the last statement that it comes of
    """

    bases: dict[int | None, str] = {}
    steps: dict[int | None, Memory] = {}
    statements: dict[int | None, Memory] = {}


class Ledger:
    """Follows a trace call by call.

    accounts   of each call
    taken      storage -> who took it; an op only if the function that it ran in did not
    """

    def __init__(self, calls: tuple[Call, ...]) -> None:
        self.calls = calls
        self.accounts = [Account()] * len(calls)
        self.labels = Labels()
        self.scopes = [Scope()]
        self.owners: dict[int, tuple[TensorMeta, int]] = {}  # storage -> the tensor it was first seen with, and when
        self.taken: dict[int, Taken] = {}
        self.copied: dict[int, Taken] = {}  # storage -> of those, the copies, also by an op for a function that is none
        self.origins: dict[int, int] = {}  # tensor -> the first function that gave it, or else op
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
        inside: dict[str, Memory] = {}
        if call.kind == "module":
            inside = self.seen_inside(call)
            returned = self.labels.leave(call)
            self.scopes.pop()
        self.wrote.update(dict.fromkeys(call.written, index))
        made = {key: self.result(index, tensor) for key, tensor in call.outputs.items()}
        for key, (_, whole) in made.items():
            self.remember(index, key, whole)
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
                inside=inside,
            )
        self.labels.assign(call)
        if call.variables:
            self.scopes[-1].steps.clear()

    def seen_inside(self, module: Call) -> dict[str, Memory]:
        """The accounts of the results of a module that ends, as its own forward has them."""
        statements = dict(self.scopes[-1].statements)
        for tensor in module.inputs.values():
            if tensor.number is not None:
                statements.setdefault(tensor.number, Memory("same", self.labels.text(tensor)))
        return {key: statements[tensor.number] for key, tensor in module.outputs.items() if tensor.number in statements}

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
        scope.statements[tensor.number] = whole
        is_other = source is None or source.number != tensor.number
        if tensor.role is not None:
            scope.steps.pop(tensor.number, None)
        elif call.kind == "function" and not call.variables and (is_other or tensor.number in scope.steps):
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
        taken = self.taken.get(storage)
        maker = None if taken is None else self.calls[taken.index]
        if owner is not None and (maker is None or since < self.entered[index]):
            return Memory("same" if owner.number == tensor.number else "view", self.labels.text(owner), by=call.name)
        if taken is not None and maker is not None and (call.kind == "module" or maker.kind == "function"):
            return self.account(maker, taken.tensor)
        if call.kind == "module":
            return None
        return self.take(index, tensor, storage)

    def take(self, index: int, tensor: TensorMeta, storage: int) -> Memory:
        call = self.calls[index]
        step = self.account(call, tensor)
        self.taken[storage] = taken = Taken(index, tensor, step)
        if step.kind == "copy":
            source = copied(call)[0]
            self.copied[storage] = msgspec.structs.replace(
                taken,
                source=source,
                code=self.labels.code(call).text,
                cause=self.cause(index, source) if step.why.endswith(CROOKED) else None,
            )
        return step

    def account(self, call: Call, tensor: TensorMeta) -> Memory:
        """The account of a call that took new memory for `tensor`."""
        sources = copied(call)
        if not sources:
            return Memory("new", by=call.name)
        of = joined([self.labels.text(source) for source in sources])
        return Memory("copy", of, reason(call, sources, tensor, of), tensor.nbytes, call.name)

    def cause(self, index: int, tensor: TensorMeta) -> int | None:
        """The last call before `index` by which what is copied lies otherwise than straight; None if none did here."""
        found = None
        while tensor.number is not None and (origin := self.origins.get(tensor.number, index)) < index:
            found = index = origin
            crooked = [given for given in self.calls[index].inputs.values() if is_crooked(given)]
            crooked.sort(key=lambda given: given.storage != tensor.storage)  # what it is a view of comes first
            if not crooked or bends(tensor) - bends(crooked[0]):
                break
            tensor = crooked[0]
        return found

    def meet(self, tensor: TensorMeta) -> None:
        if tensor.storage is not None and tensor.number is not None:
            self.owners.setdefault(tensor.storage, (tensor, len(self.owners)))

    def remember(self, index: int, key: str, whole: Memory | None) -> None:
        """Which call first gave a tensor, or made it crooked in place: a function rather than the op in it. And what
        the statement of a copy is assigned to."""
        call, tensor = self.calls[index], self.calls[index].outputs[key]
        if tensor.number is None:
            return
        if call.kind != "module":
            given = next((given for given in call.inputs.values() if given.number == tensor.number), None)
            if given is None:
                self.origins[tensor.number] = min(index, self.origins.get(tensor.number, index))
            elif is_crooked(tensor) and not is_crooked(given):
                self.origins[tensor.number] = index
        copy = self.copied.get(tensor.storage) if tensor.storage is not None else None
        if (
            copy is not None
            and tensor.storage is not None
            and not copy.name
            and whole is not None
            and whole.kind == "copy"
        ):
            self.copied[tensor.storage] = msgspec.structs.replace(copy, name=call.variable(key) or "")


def source_of(tensor: TensorMeta, call: Call) -> TensorMeta | None:
    """The input that a result is, or else one whose memory it shares."""
    for given in call.inputs.values():
        if given.number == tensor.number:
            return given
    if tensor.storage is None:
        return None
    return next((given for given in call.inputs.values() if given.storage == tensor.storage), None)
