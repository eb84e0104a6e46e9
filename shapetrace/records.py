"""The tensors of a trace by the names a reader would use: where each stands, what it is called, which call made it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from .errors import LookupFailed, near
from .schema import ROLES, Call, Stats, TensorMeta, Trace, part

__all__ = ["Record", "Scope", "changed", "part", "record_of", "records", "records_and_writes", "scope", "with_role"]


class Record(msgspec.Struct, frozen=True):
    """A tensor where it stands in a trace.

    path        of the module whose forward holds it
    name        the variable it was assigned to there; else what the module that made it is called there; "" if neither
    call        the call that made it, or, for an input, the module that it was given to
    key         where it stands in the results (or arguments) of that call
    is_input    given to the module at `path`, not made in it
    is_changed  given to a function that wrote to it and does not give it, as `x[0] = y`
    is_owned    a parameter or buffer that has a role as it is, where a function is given it
    materialised   false for what a fused call stands for and never makes: `tensor` says what it would be
    """

    path: str
    name: str
    call: Call
    key: str
    tensor: TensorMeta
    is_input: bool = False
    materialised: bool = True
    is_changed: bool = False
    is_owned: bool = False

    @property
    def role(self) -> str | None:
        return self.tensor.role

    @property
    def axes(self) -> tuple[str | int, ...]:
        """The letter of each dim, or what it is made of; its size where that is not decided."""
        return self.tensor.shape if self.tensor.axes is None else self.tensor.axes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def stride(self) -> tuple[int, ...] | None:
        return self.tensor.stride

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    @property
    def device(self) -> str:
        return self.tensor.device

    @property
    def is_contiguous(self) -> bool:
        return self.tensor.is_contiguous

    @property
    def stats(self) -> Stats | None:
        return self.tensor.stats

    def __repr__(self) -> str:
        where = f"{self.path}." if self.path else ""
        axes = f" [{', '.join(map(str, self.axes))}]" if self.tensor.axes is not None else ""
        role = f" {self.role}" if self.role not in (None, self.name) else ""
        layout = f"stride {self.stride}" if self.materialised else "not materialised"
        return f"<{where}{self.name or self.call.name}{role}{axes} {self.shape} {self.dtype}, {layout}>"


def records(trace: Trace) -> Iterator[Record]:
    """Every tensor of the trace in the order the code comes by them; a module's result comes after what ran inside."""
    return (record for record in met(trace) if not record.is_changed and not record.is_owned)


def records_and_writes(trace: Trace) -> Iterator[Record]:
    """The same, and what a function changed and does not give, where it did so, by the name that it had there."""
    names: dict[tuple[str, int | None], str] = {}
    for record in met(trace):
        if record.is_owned:
            continue
        here = record.path, record.tensor.number
        if record.is_changed:
            record = msgspec.structs.replace(record, name=names.get(here, record.name))
        elif record.name:
            names[here] = record.name
        yield record


def met(trace: Trace) -> Iterator[Record]:
    running: list[tuple[Call, str]] = []  # each with the path of the module whose forward made the call
    for call in trace.calls:
        while len(running) > call.depth:
            yield from results(*running.pop())
        running.append((call, inside(*running[-1]) if running else ""))
        if call.kind == "module":
            for key, tensor in call.inputs.items():
                yield Record(call.path, key, call, key, tensor, is_input=True)
        else:
            yield from owned(call, running[-1][1])
    while running:
        yield from results(*running.pop())


def with_role(trace: Trace, role: str) -> list[Record]:
    """The records of a role; of "norm" also those norms that are the stream itself. `LookupFailed` if there is none."""
    from .passes.roles import normed

    also = normed(trace) if role == "norm" else frozenset()
    found = [record for record in met(trace) if has_role(record, role, also) and not record.is_changed]
    if not found and role not in ROLES:
        raise LookupFailed(f"there is no role {role!r}: {hint(str(role), ROLES)}")
    return found


def has_role(record: Record, role: str, also: Collection[int | None]) -> bool:
    return record.role == role or (record.role == "residual" and record.tensor.number in also)


def record_of(trace: Trace, number: int) -> Record | None:
    """Where the tensor with this number was made: under the first name it had, else by the function that made it.

    Its role is the one that it has under any name. What no call here made is an input: of the module that it was first
    given to, or, as a parameter, of its own module.
    """
    found = [record for record in records(trace) if record.tensor.number == number and record.materialised]
    if not found or found[0].is_input:
        return found[0] if found else given(trace, number)
    made = [record for record in found if not record.is_input]
    first = next((record for record in made if record.name), made[0])
    role = next((record.role for record in made if record.role), None)
    return msgspec.structs.replace(first, tensor=msgspec.structs.replace(first.tensor, role=first.role or role))


def given(trace: Trace, number: int) -> Record | None:
    """The first function that a tensor was given to, which no module was given."""
    for call in trace.calls:
        for key, tensor in call.inputs.items():
            if tensor.number == number:
                path, _, name = (tensor.name or "").rpartition(".")
                return Record(path if name else call.path, name, call, key, tensor, is_input=True)
    return None


def inside(call: Call, path: str) -> str:
    """The path of the module that what runs inside of `call` belongs to, if `call` itself belongs to `path`."""
    return call.path if call.kind == "module" else path


def results(call: Call, path: str) -> Iterator[Record]:
    """What a call made in the forward of the module at `path`, after what it stands for."""
    for role, tensor in call.unmade.items():
        yield Record(path, role, call, role, tensor, materialised=False)
    for key, tensor in call.outputs.items():
        yield Record(path, name_of(call, key, path), call, key, tensor)
    for key in changed(call):
        tensor = call.inputs[key]
        name = (tensor.name or "").removeprefix(f"{path}.")
        yield Record(path, name, call, key, tensor, is_changed=True)


def owned(call: Call, path: str) -> Iterator[Record]:
    for key, tensor in call.inputs.items():
        if tensor.role is not None and tensor.name is not None:
            name = tensor.name.removeprefix(f"{path}.")
            yield Record(path, name, call, key, tensor, is_input=True, is_owned=True)


def changed(call: Call) -> Iterator[str]:
    """The keys of the arguments that a function or an op changed in place and does not give, each tensor once."""
    if call.kind == "module" or not call.written:
        return
    told = {tensor.number for tensor in call.outputs.values()}
    for key, tensor in call.inputs.items():
        if tensor.number in call.written and tensor.number not in told:
            told.add(tensor.number)
            yield key


def name_of(call: Call, key: str, path: str) -> str:
    """What the result at `key` of a call is called in the module at `path`."""
    variable = call.variable(key)
    if variable is not None or call.kind != "module":
        return variable or ""
    return part(call.path.removeprefix(f"{path}.") if path else call.path or "output", key)


class Scope(dict[str, Record]):
    """The tensors of one module by name. A name that is assigned again and again holds the last, as in the code.

    elsewhere   the names of other modules' tensors -> the paths of these modules
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.elsewhere: dict[str, dict[str, None]] = {}

    def __missing__(self, name: str) -> Record:
        if name in self.elsewhere:
            tip = f"it is in {listed(map(called, self.elsewhere[name]), most=3)}"
        else:
            tip = hint(str(name), self)
        raise LookupFailed(f"{called(self.path)} has no tensor {name!r}: {tip}")


def scope(trace: Trace, path: str) -> Scope:
    """The tensors of the module at `path`: what it was given, what its forward assigned, and what its submodules made.

    Its own result is there as "output" ("output[0]", "output.logits") if no variable has that name.
    """
    paths = dict.fromkeys(call.path for call in trace.calls if call.kind == "module" and call.path)
    if path != "" and path not in paths:
        tip = hint(str(path), paths) if paths else 'there is only the model itself, ""'
        raise LookupFailed(f"no module {path!r} ran in this trace: {tip}")
    found = Scope(path)
    output: dict[str, Record] = {}
    for record in records(trace):
        if record.name and record.path == path:
            found[record.name] = record
        elif record.name:
            found.elsewhere.setdefault(record.name, {})[record.path] = None
        if record.call.kind == "module" and record.call.path == path and not record.is_input:
            output[part("output", record.key)] = record
    for name, record in output.items():
        found.setdefault(name, record)
    return found


def called(path: str) -> str:
    return repr(path) if path else "the model"


def hint(word: str, words: Collection[str]) -> str:
    meant = near(word, words)
    return f"did you mean {listed(meant)}?" if meant else f"there is {listed(words) or 'none'}"


def listed(words: Iterable[str], most: int = 8) -> str:
    """The first of many words."""
    whole = list(words)
    more = f" and {len(whole) - most} more" if len(whole) > most else ""
    return ", ".join(whole[:most]) + more
