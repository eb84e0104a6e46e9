"""The values of two runs, brought together: those of the first are kept until the second has its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from ..capture.heard import heard
from ..diff import pairs
from ..diff.divergence import Apart, Divergence, Strange, ValuesDiff
from ..errors import ShapetraceError
from ..records import Record, records_and_writes
from ..schema import Trace
from .effects import without_effect
from .elements import apart, are_masks, arranged, comparable, hidden, likest, repeated, rounding, tolerance, turned
from .order import Pair, in_order, named, once
from .relations import relation

__all__ = ["Runs"]

Key = tuple[int, bool, str]


class Runs:
    """Holds what two traced models make, for `keep` and then `compare` to run them once more.

    `outcomes` says of each pair how it came out: for the same how much of it is rounding, see `rounding`; None if it
    cannot be compared.
    """

    def __init__(self, before: Trace, after: Trace, rtol: float | None, atol: float | None) -> None:
        self.before, self.after = before, after
        self.rtol, self.atol = rtol, atol
        self.ours, self.theirs = results(before), results(after)
        self.strange = [Strange(), Strange()]
        self.kept: dict[int, Tensor] = {}
        self.outcomes: dict[Pair, float | Divergence | None] = {}
        left, right = numbered(self.ours), numbered(self.theirs)
        self.all = [(place(left, one), place(right, other), one, other) for one, other in pairs(before, after)]
        self.all += self.whole()
        self.pairs = [(a, b) for a, b, *_ in self.all if a is not None and b is not None]
        self.awaited = Counter(a for a, _ in self.pairs)
        if not self.pairs:
            raise ShapetraceError(f"no tensor of {before.target} corresponds to one of {after.target}")

    def whole(self) -> list[tuple[int | None, int | None, Record | None, Record | None]]:
        """What the models return, if it is one tensor each, of one shape: it corresponds, whatever steps made it."""
        given = returned(self.ours), returned(self.theirs)
        if not len(given[0]) == len(given[1]) == 1 or given[0][0].tensor.shape != given[1][0].tensor.shape:
            return []
        a, b = place(numbered(self.ours), given[0][0]), place(numbered(self.theirs), given[1][0])
        self.all = [pair for pair in self.all if pair[:2] not in ((a, None), (None, b))]
        is_known = any(pair[:2] == (a, b) for pair in self.all)
        return [] if is_known else [(a, b, given[0][0], given[1][0])]

    def keep(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The first run: a copy of each tensor that has a counterpart, for what follows may write to it."""
        count = 0

        def hear(tensor: Tensor) -> None:
            nonlocal count
            self.look(0, self.ours, count, tensor)
            if count in self.awaited:
                self.kept[count] = tensor.detach().clone()
            count += 1

        heard(model, args, kwargs, hear, materialise=True)
        refuse_other(self.before, len(self.ours), count)

    def compare(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The second run: each tensor against its counterparts, of which then nothing is kept."""
        back: dict[int, list[int]] = {}
        for a, b in self.pairs:
            back.setdefault(b, []).append(a)
        count = 0

        def hear(tensor: Tensor) -> None:
            nonlocal count
            self.look(1, self.theirs, count, tensor)
            for a in back.get(count, ()):
                self.outcomes[a, count] = self.outcome(a, count, self.kept[a], tensor.detach())
                self.awaited[a] -= 1
                if not self.awaited[a]:
                    del self.kept[a]
            count += 1

        heard(model, args, kwargs, hear, materialise=True)
        refuse_other(self.after, len(self.theirs), count)

    def look(self, side: int, known: list[Record], number: int, tensor: Tensor) -> None:
        """Note where NaN and inf are first."""
        seen = self.strange[side]
        if number >= len(known) or not tensor.is_floating_point() or tensor.layout != torch.strided or tensor.is_meta:
            return
        if seen.nan is None and bool(tensor.isnan().any()):
            seen = msgspec.structs.replace(seen, nan=known[number])
        if seen.inf is None and bool(tensor.isinf().any()):
            seen = msgspec.structs.replace(seen, inf=known[number])
        self.strange[side] = seen

    def outcome(self, a: int, b: int, before: Tensor, after: Tensor) -> float | Divergence | None:
        one, other = self.ours[a], self.theirs[b]
        if not comparable(before, after):
            return None
        before, there = repeated(before, after), repeated(after, before)
        after = arranged(there, before, one.axes, other.axes)
        if before.shape != after.shape:
            way = likest(after, before)
            if way is None:
                return Divergence(one, other, None) if must_agree(one, other) else None
            after = way
        found = self.apart(one, other, before, after)
        if found is not None:
            ways = turned(there, before, one.axes, other.axes)
            after = next((way for way in ways if self.apart(one, other, before, way) is None), after)
            found = self.apart(one, other, before, after)
        if found is None:
            return rounding(before, after)
        related = relation(before, after, found.tolerance, hides(one, other, before, after))
        return Divergence(one, other, msgspec.structs.replace(found, relation=related))

    def apart(self, one: Record, other: Record, before: Tensor, after: Tensor) -> Apart | None:
        left, right = hides(one, other, before, after)
        alike = None if left is None or right is None else left & right.to(left.device)
        return apart(before, after, tolerance(before, after, self.rtol, self.atol), alike)

    def found(self) -> ValuesDiff:
        """What came of it, once both have run."""
        if all(out is None for out in self.outcomes.values()):
            count = len(self.outcomes)
            raise ShapetraceError(
                f"{self.before.target} and {self.after.target}: of {count} tensors that correspond none has values "
                "that can be compared: they are weightless, or of other shapes"
            )
        same = {a: out for (a, _), out in sorted(self.outcomes.items()) if isinstance(out, float)}
        vain = without_effect(self.before, self.ours, same)
        apart_ = {pair: out for pair, out in self.outcomes.items() if isinstance(out, Divergence)}
        diverging = once({pair: out for pair, out in apart_.items() if pair[0] not in vain})
        within = once({pair: out for pair, out in apart_.items() if pair[0] in vain})
        order = in_order(diverging)
        lone, is_compared = self.returned()
        return ValuesDiff(
            msgspec.structs.replace(self.before, calls=()),
            msgspec.structs.replace(self.after, calls=()),
            "",
            "",
            tuple(named([diverging[pair] for pair in order])),
            tuple(within.values()),
            len(same),
            sum(out is None for out in self.outcomes.values()),
            tuple(self.alone(order[0])) if order else (),
            (self.strange[0], self.strange[1]),
            lone,
            is_compared,
        )

    def returned(self) -> tuple[tuple[tuple[Record, ...], tuple[Record, ...]], bool]:
        """What the models return of which no value was compared, or that only one of them returns; and whether any was.

        A tensor may have been compared where it was made. Keys tell what only one returns if the models share some.
        """
        compared = [pair for pair, out in self.outcomes.items() if out is not None]
        given = returned(self.ours), returned(self.theirs)
        lone: list[tuple[Record, ...]] = []
        for side, known in enumerate((self.ours, self.theirs)):
            values = {known[pair[side]].tensor.number for pair in compared}
            others = {record.key for record in given[1 - side]}
            is_alike = not others or not others.isdisjoint(record.key for record in given[side])
            lone.append(
                tuple(
                    record
                    for record in given[side]
                    if record.tensor.number not in values or (is_alike and record.key not in others)
                )
            )
        is_compared = all(len(one) < len(whole) for one, whole in zip(lone, given, strict=True) if whole)
        return (lone[0], lone[1]), is_compared

    def alone(self, first: Pair) -> Iterator[tuple[Record | None, Record | None]]:
        """What has no counterpart: of what the first that diverges is made of, or just before it."""
        at = next(number for number, pair in enumerate(self.all) if pair[:2] == first)
        start = at
        while start and (self.all[start - 1][0] is None or self.all[start - 1][1] is None):
            start -= 1
        _, _, before, after = self.all[at]
        given = [{t.number for t in each.call.inputs.values()} - {None} if each else set() for each in (before, after)]
        for place, (a, b, one, other) in enumerate(self.all[:at]):
            alone = one if b is None else other
            if (a is None) == (b is None) or alone is None:
                continue
            if place >= start or alone.tensor.number in given[a is None]:
                yield one, other


def hides(one: Record, other: Record, before: Tensor, after: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Where a key is hidden, on either side, by whatever number; None of what cannot hide one."""
    is_mask = are_masks(before, after)
    if not is_mask and "scores" not in (one.role, other.role):
        return None, None
    return hidden(before, is_mask=is_mask), hidden(after, is_mask=is_mask)


def results(trace: Trace) -> list[Record]:
    """What calls gave or changed, in the order in which they ended."""
    return [record for record in records_and_writes(trace) if not record.is_input and record.materialised]


def returned(results: list[Record]) -> list[Record]:
    """Those that the model itself returns."""
    return [record for record in results if record.call.kind == "module" and record.call.path == ""]


def must_agree(one: Record, other: Record) -> bool:
    """Whether two tensors cannot be of different shapes: a step may be taken in another way, and what has no more in
    common than its place may be something else, but what a module gives under one name, or in one role, may not."""
    is_known = one.name == other.name or (one.role is not None and one.role == other.role)
    return one.call.kind == other.call.kind == "module" and is_known


def numbered(found: list[Record]) -> dict[Key, int]:
    return {key_of(record): number for number, record in enumerate(found)}


def place(numbers: dict[Key, int], record: Record | None) -> int | None:
    if record is None or record.is_input or not record.materialised:
        return None
    return numbers.get(key_of(record))


def key_of(record: Record) -> Key:
    return id(record.call), record.is_changed, record.key


def refuse_other(trace: Trace, expected: int, count: int) -> None:
    if count != expected:
        raise ShapetraceError(
            f"{trace.target} gave {expected} tensors in one run and {count} in the next: it must run the same way twice"
        )
