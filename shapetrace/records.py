"""The tensors of a trace by the names a reader would use: where each stands, what it is called, which call made it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .errors import LookupFailed, near
from .schema import Call, TensorMeta, Trace

__all__ = ["Branch", "Record", "Scope", "branches", "records", "scope"]


class Branch(msgspec.Struct, frozen=True):
    """A call with the calls that ran inside of it. `scope` is the path of the module whose forward made the call."""

    call: Call
    scope: str
    children: list[Branch]


def branches(trace: Trace) -> list[Branch]:
    """The calls of `trace` as trees: those that nothing else ran inside of, in order. Usually one, the model."""
    roots: list[Branch] = []
    above: list[Branch] = []
    for call in trace.calls:
        del above[call.depth :]
        inside = next((branch.call.path for branch in reversed(above) if branch.call.kind == "module"), "")
        branch = Branch(call, inside, [])
        (above[-1].children if above else roots).append(branch)
        above.append(branch)
    return roots


class Record(msgspec.Struct, frozen=True):
    """A tensor where it stands in a trace.

    path        of the module whose forward holds it
    name        the variable it was assigned to there; else what the module that made it is called there; "" if neither
    call        the call that made it, or, for an input, the module that it was given to
    key         where it stands in the results (or arguments) of that call
    is_input    given to the module at `path`, not made in it
    """

    path: str
    name: str
    call: Call
    key: str
    tensor: TensorMeta
    is_input: bool = False

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

    def __repr__(self) -> str:
        where = f"{self.path}." if self.path else ""
        return f"<{where}{self.name or self.call.name} {self.shape} {self.dtype}, stride {self.stride}>"


def records(trace: Trace) -> Iterator[Record]:
    """Every tensor of the trace in the order the code comes by them; a module's result comes after what ran inside."""
    for branch in branches(trace):
        yield from _records(branch)


def _records(branch: Branch) -> Iterator[Record]:
    call = branch.call
    if call.kind == "module":
        for key, tensor in call.inputs.items():
            yield Record(call.path, key, call, key, tensor, is_input=True)
    for child in branch.children:
        yield from _records(child)
    for key, tensor in call.outputs.items():
        yield Record(branch.scope, name_of(call, key, branch.scope), call, key, tensor)


def name_of(call: Call, key: str, scope: str) -> str:
    """What the result at `key` of a call is called in the module at `scope`."""
    variable = call.variable(key)
    if variable is not None or call.kind != "module":
        return variable or ""
    return part(call.path.removeprefix(f"{scope}.") if scope else call.path or "output", key)


def part(name: str, key: str) -> str:
    """What stands at `key` of what is called `name`: "out[0]", "out.logits", or "out" itself."""
    if not key:
        return name
    return f"{name}[{key}]" if key.isdigit() else f"{name}.{key}"


class Scope(dict[str, Record]):
    """The tensors of one module by name. A name that is assigned again and again holds the last, as in the code."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def __missing__(self, name: str) -> Record:
        where = f"{self.path!r}" if self.path else "the model"
        meant = near(name, self)
        hint = f"did you mean {', '.join(meant)}?" if meant else f"it holds {', '.join(self) or 'none'}"
        raise LookupFailed(f"{where} has no tensor {name!r}: {hint}")


def scope(trace: Trace, path: str) -> Scope:
    """The tensors of the module at `path`: what it was given, what its forward assigned, and what its submodules made.

    Its own result is there as "output" ("output[0]", "output.logits") if no variable has that name.
    """
    found = Scope(path)
    results: dict[str, Record] = {}
    for record in records(trace):
        if record.path == path and record.name:
            found[record.name] = record
        if record.call.kind == "module" and record.call.path == path and not record.is_input:
            results[part("output", record.key)] = record
    paths = dict.fromkeys(call.path for call in trace.calls if call.kind == "module" and call.path)
    if path and path not in paths:
        meant = near(path, paths) or list(paths)[:8]
        hint = f"did you mean {', '.join(meant)}?" if meant else 'there is only the model itself, ""'
        raise LookupFailed(f"no module {path!r} ran in this trace: {hint}")
    for name, record in results.items():
        found.setdefault(name, record)
    return found
