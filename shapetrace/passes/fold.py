"""Sibling modules of equal form, to be shown once: the twelve blocks of a GPT.

Two calls have equal form if they and all that ran inside of them are equal but for the index in the module's path:
class, names, shapes, axes, roles, dtypes, strides, literals but the numbers of an index, which tensor goes where, and
whether there is NaN or inf.
Forms are numbered bottom-up, so each call is looked at once.
"""

from __future__ import annotations

import re

import msgspec

from ..schema import Call, TensorMeta, Trace
from .nesting import ends, siblings, within

__all__ = ["Run", "fold", "forms", "starred"]


class Run(msgspec.Struct, frozen=True):
    """Siblings of equal form that follow one another: the index of each call, and its path."""

    calls: tuple[int, ...]
    paths: tuple[str, ...]

    def said(self, path: str) -> str:
        """What to say of the others beside the first, in the module at `path`."""
        count, first, last = len(self.calls), within(path, self.paths[0]), within(path, self.paths[-1])
        if len(set(self.paths)) == 1:
            return f"called {count} times, each identical"
        if count == 2:
            return f"{last} is identical"
        return f"×{count}: {first} … {last} are identical"


def forms(trace: Trace) -> list[int]:
    """The number of the form of each call; equal numbers are equal forms."""
    return Forms(trace.calls, ends(trace.calls)).numbers


def fold(trace: Trace, numbers: list[int] | None = None) -> dict[int, Run]:
    """Index of the first call -> its run, for each run of two and more. `numbers` are those of the forms, if known."""
    calls, forms_of = trace.calls, forms(trace) if numbers is None else numbers
    stops = ends(calls)
    runs: dict[int, Run] = {}
    for start, stop in ((0, len(calls)), *((index + 1, stop) for index, stop in enumerate(stops) if stop > index + 2)):
        run: list[int] = []
        for index in siblings(stops, start, stop):
            if run and alike(calls, forms_of, run[-1], index):
                run.append(index)
                continue
            add(runs, calls, run)
            run = [index] if calls[index].kind == "module" else []
        add(runs, calls, run)
    return runs


def add(runs: dict[int, Run], calls: tuple[Call, ...], run: list[int]) -> None:
    if len(run) > 1:
        runs[run[0]] = Run(tuple(run), tuple(calls[index].path for index in run))


def alike(calls: tuple[Call, ...], forms: list[int], one: int, other: int) -> bool:
    return forms[one] == forms[other] and pattern(calls[one].path) == pattern(calls[other].path)


def starred(path: str) -> str:
    """A path without its indices: "h.0.attn" -> "h.*.attn"."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def pattern(path: str) -> list[str]:
    """A path without its last index: "h.0.attn" -> "h", "*", "attn"."""
    parts = path.split(".")
    last = max((place for place, part in enumerate(parts) if part.isdigit()), default=None)
    if last is not None:
        parts[last] = "*"
    return parts


class Forms:
    """The number of the form of each call; equal numbers are equal forms."""

    def __init__(self, calls: tuple[Call, ...], stops: list[int]) -> None:
        self.calls = calls
        self.stops = stops
        self.flows = flows(calls, stops)
        known: dict[object, int] = {}
        self.numbers = [0] * len(calls)
        for index in reversed(range(len(calls))):
            self.numbers[index] = known.setdefault(self.form(index), len(known))

    def form(self, index: int) -> object:
        call = self.calls[index]
        inside = tuple(
            (within(call.path, self.calls[child].path), self.numbers[child], self.flows[child])
            for child in siblings(self.stops, index + 1, self.stops[index])
        )
        inputs = tuple((key, tensor_form(call, tensor)) for key, tensor in call.inputs.items())
        outputs = tuple((key, tensor_form(call, tensor), sharing(call, tensor)) for key, tensor in call.outputs.items())
        written = tuple(key for key, tensor in call.inputs.items() if tensor.number in call.written)
        literals = tuple((key, text_form(call, text)) for key, text in call.literals.items())
        said = call.kind, call.name, tuple(call.variables.items()), literals, call.note, call.error, call.role
        unmade = tuple((role, tensor_form(call, tensor)) for role, tensor in call.unmade.items())
        return said, inputs, outputs, unmade, written, inside


def flows(calls: tuple[Call, ...], stops: list[int]) -> list[tuple[object, ...]]:
    """Where the inputs of each call come from, as seen from inside the module that it ran in.

    How many calls before it, if it was made in there; or else the argument of the module that it is, or nothing.
    """
    found: list[tuple[object, ...]] = []
    running: list[int] = []
    latest: dict[int | None, int] = {}
    for index, call in enumerate(calls):
        while running and stops[running[-1]] <= index:
            running.pop()
        parent = running[-1] if running else -1
        arguments = {tensor.number: key for key, tensor in calls[parent].inputs.items()} if running else {}
        makers = [(latest.get(tensor.number, -1), tensor.number) for tensor in call.inputs.values()]
        found.append(tuple(index - maker if maker > parent else arguments.get(number) for maker, number in makers))
        latest.update((tensor.number, index) for tensor in call.outputs.values() if tensor.number is not None)
        running.append(index)
    return found


def text_form(call: Call, text: str) -> str:
    """An argument that is no tensor; an index without its numbers: a block may have a place of its own in a state."""
    return NUMBER.sub("0", text) if call.name in INDEXING else text


INDEXING = frozenset({"__getitem__", "__setitem__", "select"})
NUMBER = re.compile(r"\d+")


def tensor_form(call: Call, tensor: TensorMeta) -> object:
    name = None if tensor.name is None else within(call.path, tensor.name)
    return (
        tensor.shape,
        tensor.stride,
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.is_contiguous,
        tensor.kind,
        tensor.axes,
        tensor.role,
        None if tensor.stats is None else (tensor.stats.nan > 0, tensor.stats.inf > 0),
        name,
    )


def sharing(call: Call, tensor: TensorMeta) -> object:
    """Which input a result is, and which ones it shares its memory with."""
    if tensor.storage is None:
        return None
    return tuple(given.number == tensor.number for given in call.inputs.values() if given.storage == tensor.storage)
