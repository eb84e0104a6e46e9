"""Layers that do the same are probed once: a model of 126 of them is run again with two.

Its first layers, so many that each kind is among them, are run at other sizes; the others do then what that layer does
that has their form, call by call, at the same sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from ..schema import Call, Trace
from .nesting import ends, within

__all__ = ["Layers", "layers_of", "stretched"]

FEWEST = 2
"""Layers that are always run: what is done between two of them is to be seen."""


class Layers(msgspec.Struct, frozen=True):
    """The numbered modules of a trace of which there are as many as the model has layers.

    count   how many there are
    first   how many of them must run, so that each kind is among them
    like    dotted name of what holds them -> for each the number of the first that has its form
    """

    count: int
    first: int
    like: dict[str, tuple[int, ...]]


class Span(msgspec.Struct, frozen=True):
    """Where the calls of a layer are: from `start` to `stop`."""

    number: int
    start: int
    stop: int


def layers_of(trace: Trace) -> Layers | None:
    """None if nothing is to be saved, or if the layers run in another order than their own."""
    count = trace.sizes.get("L", 0)
    stacks = {holder: spans for holder, spans in stacks_of(trace.calls).items() if len(spans) == count}
    like = {holder: tuple(alike(trace.calls, spans)) for holder, spans in stacks.items()}
    first = max((max(numbers) + 1 for numbers in like.values()), default=count)
    first = max(first, FEWEST)
    return Layers(count, first, like) if 2 * first <= count else None


def stacks_of(calls: Sequence[Call]) -> dict[str, list[Span]]:
    """The outermost numbered modules, by what holds them; those alone that run once each, from 0 on."""
    stops = ends(calls)
    found: dict[str, list[Span]] = {}
    index = 0
    while index < len(calls):
        holder, _, number = calls[index].path.rpartition(".")
        if calls[index].kind != "module" or not number.isdecimal():
            index += 1
            continue
        found.setdefault(holder, []).append(Span(int(number), index, stops[index]))
        index = stops[index]
    return {holder: spans for holder, spans in found.items() if [s.number for s in spans] == list(range(len(spans)))}


def alike(calls: Sequence[Call], spans: Sequence[Span]) -> Iterator[int]:
    """For each layer the number of the first that has its form."""
    known: dict[object, int] = {}
    for span in spans:
        inside = calls[span.start : span.stop]
        yield known.setdefault(tuple(map(partial(form, inside[0].path), inside)), span.number)


def form(path: str, call: Call) -> object:
    shapes = [(key, tensor.shape) for tensors in (call.inputs, call.outputs) for key, tensor in tensors.items()]
    return call.kind, within(path, call.path), call.name, call.depth, tuple(shapes)


def stretched(probe: Trace, trace: Trace, layers: Layers) -> Trace | None:
    """`probe`, which has the first layers alone, with as many of them as `trace` has; None if it does not fit that."""
    calls = list(probe.calls)
    stacks = stacks_of(calls)
    if any(len(stacks.get(holder, ())) not in (layers.first, layers.count) for holder in layers.like):
        return None
    short = [holder for holder in layers.like if len(stacks[holder]) == layers.first]
    for holder in sorted(short, key=lambda holder: -stacks[holder][0].start):  # the last first: places stay
        numbers, spans = layers.like[holder], stacks[holder]
        between = calls[spans[0].stop : spans[1].start]
        more: list[Call] = []
        for number in range(layers.first, layers.count):
            span = spans[numbers[number]]
            more += between
            more += moved(calls[span.start : span.stop], f"{holder}.{span.number}", f"{holder}.{number}")
        calls[spans[-1].stop : spans[-1].stop] = more
    fits = len(calls) == len(trace.calls)
    return msgspec.structs.replace(probe, calls=tuple(calls)) if fits else None


def moved(calls: Sequence[Call], old: str, new: str) -> Iterator[Call]:
    for call in calls:
        yield msgspec.structs.replace(call, path=new + call.path[len(old) :])
