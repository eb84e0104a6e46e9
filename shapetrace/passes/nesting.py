"""Which calls ran inside of which, by index, without recursion: a file may nest them as deep as it likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..schema import Call, TensorMeta, part

__all__ = ["RETURN", "ends", "forward_of", "given_to", "returned_by", "siblings", "walk", "within"]


def ends(calls: Sequence[Call]) -> list[int]:
    """For each call the index after the last one that ran inside of it."""
    found = [len(calls)] * len(calls)
    for index, entering in walk(calls):
        if not entering:
            inside = index + 1
            while inside < len(calls) and calls[inside].depth > calls[index].depth:
                inside = found[inside]
            found[index] = inside
    return found


def forward_of(calls: Sequence[Call]) -> int | None:
    """The index of the call of the model itself; other calls may come before it, as what its input is made with."""
    return next((index for index, call in enumerate(calls) if call.kind == "module" and not call.path), None)


def given_to(calls: Sequence[Call]) -> dict[str, TensorMeta]:
    """What the model is given, by the names of its arguments."""
    index = forward_of(calls)
    return {} if index is None else calls[index].inputs


def returned_by(calls: Sequence[Call]) -> dict[str, TensorMeta]:
    """What the model returns: "return", or "return[0]", "return.logits" and so on."""
    index = forward_of(calls)
    outputs = {} if index is None else calls[index].outputs
    return {part(RETURN, key): tensor for key, tensor in outputs.items()}


RETURN = "return"
"""No argument has this name."""


def siblings(ends: Sequence[int], start: int, stop: int) -> Iterator[int]:
    """The calls from `start` to `stop`, without what ran inside of them."""
    while start < stop:
        yield start
        start = ends[start]


def walk(calls: Sequence[Call]) -> Iterator[tuple[int, bool]]:
    """(index, True) where each call begins and (index, False) where it ends, in the order in which it happened."""
    running: list[int] = []
    for index, call in enumerate(calls):
        while running and calls[running[-1]].depth >= call.depth:
            yield running.pop(), False
        yield index, True
        running.append(index)
    while running:
        yield running.pop(), False


def within(path: str, name: str) -> str:
    """A dotted name as seen from inside the module at `path`, which is itself ""."""
    if name == path:
        return ""
    return name.removeprefix(f"{path}.") if path else name
