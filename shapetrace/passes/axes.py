"""The axes of each tensor: an axis is what changes when you change it.

The model is run again with letters at other sizes. A dim that was 2 where B=2, and is 3 and 5 where B=3 and B=5, is B,
whatever else has the size 2. A dim that cannot be decided stays a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..letters import NAME, is_unknown
from ..schema import Call, TensorMeta, Trace
from .align import align
from .formulas import Formulas
from .lengths import settled

__all__ = ["Axes", "Sight", "filled", "is_varying", "name_axes", "rename_axes", "unseen", "with_axes", "without"]

Axes = tuple[str | int, ...]

VARYING = "~"

Sight = tuple[int, str, str]
"""Where a tensor is: the index of a call, "inputs" or "outputs", and a key."""

Shapes = tuple[tuple[int, ...], ...]
"""Of one tensor in each of the runs."""


def name_axes(
    trace: Trace, probes: Sequence[Trace], declared: Mapping[str, int] | None = None, *, varying: bool = False
) -> Trace:
    """`trace` with the axes of its tensors, as far as `probes` tell them: runs of the model at other `sizes`.

    A letter in the sizes that `is_unknown` is an axis of the input of which it is not known yet which: what attention
    does with it tells, or the one letter of that size in `declared`, or else its dims stay numbers.

    varying   whether dims that change, and are nothing that is known, have an axis that `is_varying`, the same for all
              that change alike: they are no constants of the model
    """
    runs = Runs(trace, probes, varying=varying)
    names = {letter: letter for letter in trace.sizes} | settled(trace, runs.axes, declared or {})
    names = {letter: name for letter, name in names.items() if not is_unknown(name)}
    runs.rename(names)
    sizes = {name: trace.sizes[letter] for letter, name in names.items()}
    return with_axes(msgspec.structs.replace(trace, sizes=sizes), runs.axes)


def unseen(trace: Trace, probes: Sequence[Trace]) -> set[Sight]:
    """The places of tensors that are not there in one of the probes."""
    found: set[Sight] = set()
    for probe in probes:
        for index, (call, other) in enumerate(zip(trace.calls, align(trace.calls, probe.calls), strict=True)):
            for place in ("inputs", "outputs"):
                theirs: Mapping[str, TensorMeta] = {} if other is None else getattr(other, place)
                for key, tensor in getattr(call, place).items():
                    if key not in theirs or len(theirs[key].shape) != len(tensor.shape):
                        found.add((index, place, key))
    return found


class Runs:
    """The same forward at several sizes, call by call."""

    def __init__(self, trace: Trace, probes: Sequence[Trace], *, varying: bool) -> None:
        self.varying: dict[tuple[int, ...], str] | None = {} if varying else None
        self.calls = [align(trace.calls, probe.calls) for probe in probes]
        self.letters = {
            letter: tuple(run.sizes[letter] for run in (trace, *probes))
            for letter in trace.sizes
            if all(letter in probe.sizes for probe in probes)
        }
        self.rename({letter: letter for letter in self.letters})

    def rename(self, names: Mapping[str, str]) -> None:
        """Call letters by other names; those that are not among `names` no longer count."""
        self.letters = {names[letter]: sizes for letter, sizes in self.letters.items() if letter in names}
        self.formulas = Formulas(self.letters)
        self.known: dict[Shapes, Axes] = {}

    def axes(self, index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        """Of a tensor at `key` in "inputs", "outputs" or "unmade" of the call at `index`."""
        shapes = [tensor.shape]
        for run in self.calls:
            call = run[index]
            other = None if call is None else getattr(call, place).get(key)
            if other is None or len(other.shape) != len(tensor.shape):
                return tensor.shape
            shapes.append(other.shape)
        told = tuple(shapes)
        if told not in self.known:
            self.known[told] = tuple(map(self.axis, zip(*told, strict=True)))
        return self.known[told]

    def axis(self, sizes: tuple[int, ...]) -> str | int:
        found = self.formulas.of(sizes)
        if found is None and self.varying is not None and len(set(sizes)) > 1:
            return self.varying.setdefault(sizes, f"{VARYING}{len(self.varying)}")
        return found or sizes[0]


def with_axes(trace: Trace, axes: Callable[[int, str, str, TensorMeta], Axes]) -> Trace:
    """`trace` with what `axes` says of each tensor, by the index of its call, where in that it stands, and its key."""
    calls: list[Call] = []
    made: dict[tuple[int, Axes], TensorMeta] = {}

    def named(index: int, place: str, tensors: Mapping[str, TensorMeta]) -> dict[str, TensorMeta]:
        found = dict(tensors)
        for key, tensor in tensors.items():
            said = axes(index, place, key, tensor)
            if said != tensor.shape or tensor.axes is not None:
                same = id(tensor), said  # a tensor that many calls take is one object, and stays one
                found[key] = made.get(same) or made.setdefault(
                    same, msgspec.structs.replace(tensor, axes=None if said == tensor.shape else said)
                )
        return found

    for index, call in enumerate(trace.calls):
        parts = {
            place: named(index, place, tensors)
            for place in ("inputs", "outputs", "unmade")
            if (tensors := getattr(call, place))
        }
        calls.append(msgspec.structs.replace(call, **parts) if parts else call)
    return msgspec.structs.replace(trace, calls=tuple(calls))


def is_varying(axis: str | int) -> bool:
    return isinstance(axis, str) and VARYING in axis


def without(trace: Trace, unwanted: Callable[[str | int], bool]) -> Trace:
    """`trace` with plain numbers for the axes that are `unwanted`."""

    def axes(_index: int, _place: str, _key: str, tensor: TensorMeta) -> Axes:
        pairs = zip(tensor.axes or tensor.shape, tensor.shape, strict=True)
        return tuple(size if unwanted(axis) else axis for axis, size in pairs)

    return with_axes(trace, axes)


def filled(trace: Trace, other: Trace) -> Trace:
    """`trace` with what another record of the same calls says of dims that are plain numbers in it."""

    def axes(index: int, place: str, key: str, tensor: TensorMeta) -> Axes:
        there = getattr(other.calls[index], place)[key].axes or tensor.shape
        return tuple(
            its if isinstance(axis, int) else axis for axis, its in zip(tensor.axes or tensor.shape, there, strict=True)
        )

    return with_axes(trace, axes)


def rename_axes(trace: Trace, names: Mapping[str, str]) -> Trace:
    """`trace` with other names for some of its letters."""

    def axes(_index: int, _place: str, _key: str, tensor: TensorMeta) -> Axes:
        return tuple(renamed(axis, names) for axis in tensor.axes or tensor.shape)

    sizes = {names.get(letter, letter): size for letter, size in trace.sizes.items()}
    return with_axes(msgspec.structs.replace(trace, sizes=sizes), axes)


def renamed(axis: str | int, names: Mapping[str, str]) -> str | int:
    return axis if isinstance(axis, int) else NAME.sub(lambda found: names.get(found[0], found[0]), axis)
