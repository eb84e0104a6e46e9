"""Which parameters of two models do the same: those that calls take which correspond, and else those from which tensors
come which correspond, whole or in parts, as q, k and v that one model projects at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from ..diff import pairs
from ..passes.nesting import ends
from ..passes.roles.functions import LINEARS, PRODUCTS, SUMS, short_name
from ..records import Record
from ..schema import Call, TensorMeta, Trace

__all__ = ["Part", "Rows", "counterparts", "turned"]

Rows = tuple[int, ...]

MOST = 256
"""So many steps are followed from a parameter to what comes of it."""


class Part(NamedTuple):
    """A parameter of before and one of after.

    rows     of either, None for all of them
    called   the variables that hold what is made with these rows; "" for all of them
    use      the call of before that takes it; None if that is not known
    """

    before: str
    after: str
    rows: tuple[Rows | None, Rows | None] = (None, None)
    called: tuple[str, str] = ("", "")
    use: int | None = None


def counterparts(before: Trace, after: Trace) -> Iterator[Part]:
    """The surest first. One parameter may be in several: the shapes tell which can be."""
    sides = Uses(before), Uses(after)
    both = [(one, other) for one, other in pairs(before, after) if one is not None and other is not None]
    yield from taken(sides, both)
    yield from reached(sides, both)


def turned(trace: Trace) -> frozenset[str]:
    """The names of parameters kept as (inputs, outputs): what a product takes as they are, as its last factor."""
    found: set[str] = set()
    for call in trace.calls:
        factor = list(call.inputs.values())[-1:] if short_name(call) in TURNED else ()
        found.update(tensor.name for tensor in factor if tensor.name is not None and len(tensor.shape) == 2)
    return frozenset(found)


TURNED = (PRODUCTS | {"addmm"}) - {"einsum"}


class End(NamedTuple):
    """What comes of a parameter, or of some rows of it: see `kinds`."""

    kind: str
    name: str
    rows: Rows | None
    comes: frozenset[int]
    called: str = ""


NOTHING: frozenset[int] = frozenset()


class Uses:
    """What the calls of a trace do with parameters.

    takers   number of a tensor -> the functions that take it
    first    of each parameter the first function that takes it
    """

    def __init__(self, trace: Trace) -> None:
        self.calls, self.stops = trace.calls, ends(trace.calls)
        self.index = {id(call): at for at, call in enumerate(trace.calls)}
        self.takers: dict[int, list[int]] = {}
        self.first: dict[str, int] = {}
        for at, call in enumerate(self.calls):
            if not self.is_step(at):
                continue
            for tensor in call.inputs.values():
                if tensor.number is not None:
                    self.takers.setdefault(tensor.number, []).append(at)
                if tensor.name is not None:
                    self.first.setdefault(tensor.name, at)

    def is_step(self, at: int) -> bool:
        """Whether it is a function in which no other is seen."""
        is_leaf = self.stops[at] == at + 1 or self.calls[at + 1].kind == "op"
        return self.calls[at].kind == "function" and is_leaf

    def under(self, at: int) -> dict[str, tuple[str, int]]:
        """What a call does with parameters, with what runs inside of it -> the parameter with which it does that, and
        the function that takes it."""
        steps = filter(self.is_step, range(at, self.stops[at]))
        done = [(*each, step) for step in steps for each in dict.fromkeys(kinds(self.calls[step]))]
        count = Counter(kind for kind, *_ in done)
        return {kind: (name, step) for kind, name, step in done if count[kind] == 1}

    def ends(self, name: str, known: Collection[int]) -> Iterator[tuple[Rows | None, int, str]]:
        """What a parameter makes and, if it is a product, the views of that up to what is known: the number of each,
        the rows of the parameter from which it is, None for all, and what those are called."""
        call = self.calls[self.first[name]]
        base = next(iter(call.outputs.values()), None)
        if base is None or base.number is None:
            return
        yield None, base.number, ""
        if short_name(call) not in LINEARS | PRODUCTS:
            return
        todo, seen = [base], {base.number}
        for tensor in todo:
            for view, called in self.made(tensor.number or 0) if tensor.number not in known else ():
                if view.storage != base.storage or view.number is None or view.number in seen:
                    continue
                whose = rows(view, base)
                if whose is not None and len(whose) < base.shape[-1]:
                    yield whose, view.number, called
                seen.add(view.number)
                todo += [view] if len(seen) < MOST else []

    def made(self, number: int) -> Iterator[tuple[TensorMeta, str]]:
        """Each tensor that a function makes of one, and the variable that holds it."""
        for at in self.takers.get(number, ()):
            call = self.calls[at]
            yield from ((tensor, call.variable(key) or "") for key, tensor in call.outputs.items())

    def coming(self, known: dict[int, int]) -> list[End]:
        """Of each parameter, or part of one, what first comes of it that is known."""
        found: dict[tuple[str, str, Rows | None], frozenset[int]] = {}
        names: dict[tuple[str, str, Rows | None], str] = {}
        for name, at in self.first.items():
            kind = next(kind for kind, each in kinds(self.calls[at]) if each == name)
            for whose, number, called in self.ends(name, known):
                key = kind, name, whose
                found[key] = found.get(key, NOTHING) | self.nearest(number, known)
                names[key] = names.get(key) or called
        return [End(*key, comes, names[key]) for key, comes in found.items() if comes]

    def nearest(self, number: int, known: dict[int, int]) -> frozenset[int]:
        """The first tensors made of one that are known, each as what it is known as."""
        found: set[int] = set()
        todo, seen = [number], {number}
        for each in todo:
            if each in known:
                found.add(known[each])
                continue
            for made, _ in self.made(each):
                if made.number is not None and made.number not in seen and len(seen) < MOST:
                    seen.add(made.number)
                    todo.append(made.number)
        return frozenset(found)


def kinds(call: Call) -> Iterator[tuple[str, str]]:
    """What a function does with each parameter that it takes: it weighs something, or is added to it."""
    named = [(key, tensor) for key, tensor in call.inputs.items() if tensor.name is not None]
    thin = [key for key, tensor in named if len(tensor.shape) < 2]
    for key, tensor in named:
        is_added = short_name(call) in SUMS or (key in thin and (len(thin) < len(named) or key in thin[1:]))
        kind = "bias" if is_added else "weight"
        yield kind if len(thin) < 3 else f"{kind} {key}", tensor.name or ""


def taken(sides: tuple[Uses, Uses], both: Sequence[tuple[Record, Record]]) -> Iterator[Part]:
    """Of calls that correspond, the smallest first: what is done alike, or the only parameter of both."""
    spans: dict[tuple[int, int], int] = {}
    for one, other in both:
        a, b = sides[0].index[id(one.call)], sides[1].index[id(other.call)]
        spans[a, b] = sides[0].stops[a] - a + sides[1].stops[b] - b
    for a, b in sorted(spans, key=lambda pair: spans[pair]):
        ours, theirs = sides[0].under(a), sides[1].under(b)
        both_of = [(ours[kind], theirs[kind]) for kind in ours if kind in theirs]
        if len(ours) == len(theirs) == 1:
            both_of.insert(0, (next(iter(ours.values())), next(iter(theirs.values()))))
        yield from (Part(name, its, use=use) for (name, use), (its, _) in both_of)


def reached(sides: tuple[Uses, Uses], both: Sequence[tuple[Record, Record]]) -> Iterator[Part]:
    """Of which as much comes that corresponds, and is of as many elements, as of no other. A part of one is the whole
    of the other: where both are in parts, as for rotations, an order of them may be what is wrong."""
    known: tuple[dict[int, int], dict[int, int]] = {}, {}
    for pair, (one, other) in enumerate(both):
        if one.is_input or prod(one.shape) != prod(other.shape):
            continue
        if one.tensor.number is not None and other.tensor.number is not None:
            known[0].setdefault(one.tensor.number, pair)
            known[1].setdefault(other.tensor.number, known[0][one.tensor.number])
    theirs: dict[int, list[End]] = {}
    for end in sides[1].coming(known[1]):
        for pair in end.comes:
            theirs.setdefault(pair, []).append(end)
    for end in sides[0].coming(known[0]):
        alike = {
            other
            for pair in end.comes
            for other in theirs.get(pair, ())
            if other.kind == end.kind and (end.rows is None or other.rows is None)
        }
        fit = {other: len(end.comes & other.comes) / len(end.comes | other.comes) for other in alike}
        best = [other for other, worth in fit.items() if worth == max(fit.values())]
        if len(best) == 1:
            its = best[0]
            called = (end.called if end.rows else "", its.called if its.rows else "")
            yield Part(end.name, its.name, (end.rows, its.rows), called, sides[0].first[end.name])


def rows(view: TensorMeta, base: TensorMeta) -> Rows | None:
    """Which of the last dim of a tensor are in a view of it, in their order there; None if it is not known."""
    width, whole = base.shape[-1], base.stride
    if whole is None or view.stride is None or view.dtype != base.dtype or whole[-1] != 1 or width == 0:
        return None
    dims = [(step, size) for step, size in zip(view.stride, view.shape, strict=True) if size > 1 and step % width]
    dims.sort(reverse=True)
    first = (view.offset - base.offset) % width
    found = tuple(first + sum(places) for places in product(*(range(0, step * size, step) for step, size in dims)))
    return found if found and max(found) < width else None
