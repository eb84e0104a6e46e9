"""Blocks that are the same, or changed in the same way, are told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ..passes.nesting import within
from ..schema import Call, TensorMeta
from .changes import Kind
from .fields import Comparer, Fields
from .items import INDEX, Item, Part, Place, Side
from .matching import Match

__all__ = ["Draft", "folded"]


class Draft(msgspec.Struct):
    """A line that may still come to speak for more; see `Line` and `Change`.

    heads         of the first line of a block the other blocks that have the same lines
    is_quiet      whether it is told together with others beside it
    is_plumbing   whether it is of masks and positions
    """

    kind: Kind | None
    depth: int
    before: Item | None
    after: Item | None
    is_scope: bool = False
    fields: Fields = {}
    covers: list[tuple[Place | None, Place | None]] = []
    blocks: list[tuple[str, str]] = []
    heads: list[tuple[str, str]] = []
    steps: int = 1
    is_quiet: bool = False
    is_plumbing: bool = False

    @property
    def is_step(self) -> bool:
        item = self.before or self.after
        return item is not None and item.place.part != "call"


Parts = Sequence[tuple[Match | None, list[Draft]]]
"""What is in a module, each with the lines that tell it."""


def folded(parts: Parts, before: Side, after: Side, comparer: Comparer) -> list[Draft]:
    """The lines of all parts; of blocks with equal lines those of the first, which then speak for the others."""
    first: dict[object, list[Draft]] = {}
    drafts: list[Draft] = []
    for match, lines in layered(parts, Runs(parts, before, after, comparer)):
        one, other = (match.before, match.after) if match is not None else (None, None)
        if one is None or other is None or not (one.is_block and other.is_block):
            drafts += lines
            continue
        key = (pattern(one), pattern(other), tuple(signature(line, one, other) for line in lines))
        if key not in first:
            first[key] = lines
            drafts += lines
            continue
        first[key][0].heads.append((one.call.path, other.call.path))
        for kept, line in zip(first[key], lines, strict=True):
            kept.blocks.append((one.call.path, other.call.path))
            kept.covers.extend(line.covers)
    return drafts


def layered(parts: Parts, runs: Runs) -> Iterator[tuple[Match | None, list[Draft]]]:
    """The parts; the blocks by which a run of identical ones is longer on one side are one change of their number."""
    told: dict[Run, Draft] = {}
    for match, lines in parts:
        run = None if match is None else runs.of(match)
        if run is None:
            yield match, lines
            continue
        if run not in told:
            block = runs.firsts[run]
            layers: Fields = {"layers": runs.numbers(run)}
            told[run] = Draft("changed", lines[0].depth, block.before, block.after, fields=layers)
            yield None, [told[run]]
        told[run].covers.extend(lines[0].covers)


Run = tuple[int | None, int | None]
"""Keys of blocks that correspond, before and after; those of one side with equal keys are identical in all that is
compared. None for what is no block of a list."""


class Runs:
    """The blocks of a module that are identical on their side, and correspond to ones that are identical on the other.

    firsts   of each run the first blocks that correspond
    alone    of each key how many blocks have no counterpart
    """

    def __init__(self, parts: Parts, before: Side, after: Side, comparer: Comparer) -> None:
        self.sides, self.comparer = (before, after), comparer
        self.known: dict[object, int] = {}
        self.firsts: dict[Run, Match] = {}
        self.alone: Counter[int | None] = Counter()
        self.counts: Counter[int | None] = Counter()
        matches = [match for match, _ in parts if match is not None]
        if not any(map(is_block_alone, matches)):
            return
        for match in matches:
            run = self.key(match.before, 0), self.key(match.after, 1)
            self.counts.update(run)
            if match.before is None or match.after is None:
                self.alone.update(run)
            else:
                self.firsts.setdefault(run, match)
        self.partners = Counter(key for run in self.firsts for key in run)

    def of(self, match: Match) -> Run | None:
        """The run that a block without a counterpart makes longer; none if others of it correspond to other blocks."""
        if not is_block_alone(match):
            return None
        key = self.key(match.before, 0) if match.after is None else self.key(match.after, 1)
        run = next((run for run in self.firsts if key in run), None)
        if run is None or None in run or any(self.partners[each] > 1 for each in run):
            return None
        return None if all(self.alone[each] for each in run) else run

    def numbers(self, run: Run) -> tuple[int, int]:
        """How many blocks there are, before and after."""
        return self.counts[run[0]], self.counts[run[1]]

    def key(self, item: Item | None, at: int) -> int | None:
        if item is None or not item.is_block:
            return None
        side, start = self.sides[at], item.place.at
        tensors = tuple(
            self.comparer.seen(at, Place(index, part, key), tensor)
            for index in range(start, side.stops[start])
            for part, key, tensor in tensors_of(side.calls[index])
        )
        return self.known.setdefault((at, pattern(item), side.forms[start], tensors), len(self.known))


def is_block_alone(match: Match) -> bool:
    item = match.before if match.after is None else match.after if match.before is None else None
    return item is not None and item.is_block


def tensors_of(call: Call) -> Iterator[tuple[Part, str, TensorMeta]]:
    yield from (("inputs", key, tensor) for key, tensor in call.inputs.items())
    yield from (("unmade", key, tensor) for key, tensor in call.unmade.items())
    yield from (("outputs", key, tensor) for key, tensor in call.outputs.items())


def pattern(item: Item) -> str:
    return INDEX.sub("*", item.name)


def signature(draft: Draft, before: Item, after: Item) -> object:
    """What is equal of lines that say the same of two blocks."""
    fields = tuple(sorted(draft.fields.items(), key=lambda field: field[0]))
    sides = face(draft.before, before), face(draft.after, after)
    return draft.kind, draft.is_scope, draft.steps, len(draft.blocks), len(draft.covers), fields, sides


def face(item: Item | None, block: Item) -> object:
    if item is None:
        return None
    tensor = item.tensor
    form = None if tensor is None else (tensor.shape, tensor.axes, tensor.dtype)
    own = "" if item.place == block.place else item.name
    return within(block.call.path, item.path) if own else "", own, item.call.name, item.place[1:], item.role, form
