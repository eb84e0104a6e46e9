"""Blocks that are the same, or changed in the same way, are told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ..passes.nesting import within
from .changes import Kind
from .fields import Fields
from .items import INDEX, Item, Place, Side
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


def folded(parts: Parts, before: Side, after: Side) -> list[Draft]:
    """The lines of all parts; of blocks with equal lines those of the first, which then speak for the others."""
    first: dict[object, list[Draft]] = {}
    drafts: list[Draft] = []
    for match, lines in layered(parts, before, after):
        one, other = (match.before, match.after) if match is not None else (None, None)
        if one is None or other is None or not (is_block(one) and is_block(other)):
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


def layered(parts: Parts, before: Side, after: Side) -> Iterator[tuple[Match | None, list[Draft]]]:
    """The parts; blocks of which there are more on one side, and that are like one beside them, are one change."""
    sides = before, after
    like: dict[object, Match] = {}
    counts: Counter[object] = Counter()
    for match, _ in parts:
        keys = [] if match is None else block_keys(match, sides)
        counts.update(keys)
        if match is not None and len(keys) == 2:
            like.update((key, match) for key in keys if key not in like)
    told: dict[object, Draft] = {}
    for match, lines in parts:
        keys = [] if match is None else block_keys(match, sides)
        if match is None or len(keys) != 1 or keys[0] not in like or None not in (match.before, match.after):
            yield match, lines
            continue
        block = like[keys[0]]
        if keys[0] not in told:
            number, more = (counts[key] for key in block_keys(block, sides))
            layers: Fields = {"layers": (number, more)}
            told[keys[0]] = Draft("changed", lines[0].depth, block.before, block.after, fields=layers)
            yield None, [told[keys[0]]]
        told[keys[0]].covers.extend(lines[0].covers)


def block_keys(match: Match, sides: tuple[Side, Side]) -> list[object]:
    """Of a block, on each side where it is, what it has in common with others that are like it."""
    items = enumerate((match.before, match.after))
    return [(at, pattern(item), sides[at].forms[item.place.at]) for at, item in items if item and is_block(item)]


def is_block(item: Item) -> bool:
    """Whether it is one of several modules of a list."""
    return item.place.part == "call" and item.call.kind == "module" and INDEX.search(item.name) is not None


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
