"""What corresponds and what differs, told as a reader would: once, and where it begins.

What follows from a change that is told already is not told again: the argument of a module that was changed before, the
result of a module that is the tensor of its last step, what is inside of a `Linear` that became a `Conv1D`. The change
that is told speaks for it (`Change.covers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import msgspec

from ..passes.plumbing import plumbing
from ..schema import TensorMeta, Trace
from .changes import Change, Kind, Line
from .fields import Comparer, Fields
from .folding import Draft, folded
from .items import Item, Place
from .matching import Match
from .pairing import Pairing, inner
from .parameters import Parameters, told
from .stages import PASSING
from .tensors import arguments, both, is_first, others, results

__all__ = ["Outline"]

Covered = tuple[Place | None, Place | None]


class Frame(msgspec.Struct):
    """A module whose inside is being told.

    alone   of what stands on one side only, since what last corresponds in the order of both: the lines of the last
    """

    match: Match | None
    todo: Iterator[Match]
    depth: int
    heading: Draft
    passed: int = 0
    parts: list[tuple[Match | None, list[Draft]]] = []
    alone: list[Draft] = []

    def append(self, match: Match, drafts: list[Draft]) -> None:
        self.parts.append((match, drafts))
        if match.before is None or match.after is None:
            self.alone = drafts
        elif match.order is None:
            self.alone = []


class Outline:
    """
    letters     letter -> how many shapes differ by its size alone
    explained   the places of these
    unnamed     tensors of which one side names an axis that is a number of its size on the other
    """

    def __init__(self, before: Trace, after: Trace, pairing: Pairing, comparer: Comparer) -> None:
        self.pairing = pairing
        self.before, self.after = pairing.before, pairing.after
        self.comparer = comparer
        self.has_structure = "structure" in comparer.fields
        self.plumbing = plumbing(before), plumbing(after)
        self.parameters = Parameters(self.before), Parameters(self.after)
        self.told: dict[object, Draft] = {}
        self.passing: list[object] = []
        self.letters: dict[str, int] = {}
        self.explained: list[tuple[Place, Place]] = []
        self.unnamed: list[tuple[Item, Item]] = []

    def lines(self) -> tuple[Line, ...]:
        stack = [Frame(None, iter(self.pairing.matches()), 0, Draft(None, 0, None, None))]
        while True:
            frame = stack[-1]
            match = next(frame.todo, None)
            if match is None:
                drafts = folded(frame.parts, self.before, self.after, self.comparer)
                if frame.match is not None:
                    drafts += self.given_out(frame, frame.match)
                stack.pop()
                for key in self.passing[frame.passed :]:
                    self.told.pop(key, None)  # another block is given the same, and is told in the same way
                del self.passing[frame.passed :]
                if not stack:
                    return tuple(self.line(draft) for draft in drafts if self.is_wanted(draft))
                stack[-1].parts[-1][1].extend(drafts)
            elif is_pair_of_scopes(match):
                passed = len(self.passing)
                drafts = self.heading(match, frame.depth)
                frame.append(match, drafts)
                stack.append(Frame(match, iter(match.inside), frame.depth + 1, drafts[0], passed))
            else:
                self.add(frame, match, self.step(match, frame.depth))

    def line(self, draft: Draft) -> Line:
        change = None
        if draft.kind is not None:
            covers, tensors = tuple(draft.covers), self.tensors(draft)
            blocks = tuple(draft.blocks)
            change = Change(draft.kind, draft.before, draft.after, draft.fields, blocks, draft.steps, covers, tensors)
        return Line(draft.depth, draft.before, draft.after, draft.is_scope, change, tuple(draft.heads))

    def tensors(self, draft: Draft) -> tuple[TensorMeta, ...]:
        """All that was added or removed."""
        if draft.kind not in ("added", "removed"):
            return ()
        side, at = (self.after, 1) if draft.kind == "added" else (self.before, 0)
        return tuple(side.tensor(place) for pair in draft.covers if (place := pair[at]) is not None)

    def is_wanted(self, draft: Draft) -> bool:
        if draft.kind in ("added", "removed"):
            return self.has_structure
        return "layers" not in draft.fields or "layers" in self.comparer.fields

    # Modules

    def heading(self, match: Match, depth: int) -> list[Draft]:
        one, other = both(match)
        fields = self.moved(match, self.comparer.calls(one.call, other.call))
        drafts = [self.draft(match, depth, fields, is_scope=True)]
        for a, b in arguments(one, other):
            ours = None if a is None else self.before.given(one.place.at, a, inner(one))
            theirs = None if b is None else self.after.given(other.place.at, b, inner(other))
            is_root = one.call.path == "" == other.call.path
            drafts += self.passed(ours, theirs, depth + 1, drafts[0], is_root=is_root)
        return drafts

    def given_out(self, frame: Frame, match: Match) -> list[Draft]:
        (one, other), depth = both(match), frame.depth
        drafts: list[Draft] = []
        for a, b in results(one, other, self.before, self.after):
            ours = None if a is None else self.before.given_out(one.place.at, a, inner(one))
            theirs = None if b is None else self.after.given_out(other.place.at, b, inner(other))
            drafts += self.passed(ours, theirs, depth, frame.heading)
        return drafts

    def passed(
        self, ours: Item | None, theirs: Item | None, depth: int, heading: Draft, *, is_root: bool = False
    ) -> list[Draft]:
        """A tensor that a module is given or gives, which some step made: a change of it may be told there."""
        match = Match(ours, theirs)
        if ours is None or theirs is None:
            if heading.before and heading.after and heading.before.call.name != heading.after.call.name and not is_root:
                self.cover(heading, ours, theirs)
                return []
            return [self.alone(match, depth, is_quiet=True)] if self.has_structure else []
        fields = self.compared(ours, theirs, is_counted=is_root)
        if not fields:
            return [self.draft(match, depth, fields)] if is_root else []
        if (draft := self.told.get(key_of(fields))) is not None:
            draft.covers.append((ours.place, theirs.place))
            return []
        draft = self.draft(match, depth, fields, [(ours.place, theirs.place)])
        self.passing.append(key_of(fields))
        return [draft]

    # Steps

    def step(self, match: Match, depth: int) -> list[Draft]:
        """What is told of a step, or of a module that has no counterpart."""
        if match.before is None or match.after is None:
            return [self.alone(match, depth)]
        one, other = both(match)
        fields: Fields = {}
        covers: list[Covered] = []
        if one.tensor is not None and other.tensor is not None:
            fields = self.compared(one, other)
            covers = [(self.before.main(one), self.after.main(other))] if fields else []
        fields = self.moved(match, self.made(one, other) | fields)
        draft = self.draft(match, depth, fields, covers)
        more = self.rest(match, draft, depth + 1)
        return [draft, *more]

    def made(self, one: Item, other: Item) -> Fields:
        """What made two tensors, if it differs, told on the first of several that it made."""
        parts = one.place.part, other.place.part
        if (parts[0] == "unmade") != (parts[1] == "unmade"):
            return {}
        if parts[0] != "call" and parts[1] != "call" and not (is_first(one) and is_first(other)):
            return {}
        fields = self.comparer.calls(one.call, other.call)
        if one.tensor is not None or other.tensor is not None:
            fields.pop("role", None)
        return fields | self.comparer.differ(told(self.parameters, one, other))

    def rest(self, match: Match, draft: Draft, depth: int) -> list[Draft]:
        """What else there is to tell of a step: of its other tensors, of what is inside of it, of its parameters."""
        one, other = both(match)
        found: list[Draft] = []
        is_other = one.call.name != other.call.name
        said = {name: value for name, value in draft.fields.items() if name not in ("class", "order", "role")}
        for each in others(match, self.before, self.after):
            ours, theirs = each.before, each.after
            if ours is None or theirs is None:
                if self.has_structure and (is_other or one.place.part != other.place.part):
                    self.cover(draft, ours, theirs)
                elif self.has_structure:
                    found.append(self.alone(each, depth))
                continue
            fields = self.compared(ours, theirs, is_counted=False) if ours.tensor and theirs.tensor else {}
            if ours.place.part == "outputs" and is_first(ours) and is_first(theirs) and ours.call.kind != "module":
                fields |= self.made(ours, theirs)
            fields = self.moved(each, fields)
            if not fields:
                continue
            is_parameter = ours.place.part == "inputs" and ours.call.kind != "module"
            told = self.told.get(key_of(fields)) if ours.place.part == "inputs" and not is_parameter else None
            if {**fields, **said} == said or is_other or (is_parameter and "shape" in said):
                told = draft
            if told is not None:
                told.covers.append((ours.place, theirs.place))
            else:
                found.append(self.draft(each, depth, fields, [(ours.place, theirs.place)]))
        return found

    # Drafts

    def compared(self, one: Item, other: Item, *, is_counted: bool = True) -> Fields:
        """What differs between two tensors. Shapes that the sizes of letters explain are counted instead, and so are
        axes that have a name on one side only."""
        assert one.tensor is not None
        assert other.tensor is not None
        place, there = self.before.main(one), self.after.main(other)
        fields, letters = self.comparer.tensors((place, one.tensor), (there, other.tensor))
        fields = {name: value for name, value in fields.items() if name != "role"}
        fields |= self.comparer.differ({"role": (one.role or None, other.role or None)})
        if self.comparer.lacks_names(one.tensor, other.tensor):
            self.unnamed.append((one, other))
        if letters:
            self.explained.append((place, there))
            for letter in letters:
                self.letters[letter] = self.letters.get(letter, 0) + is_counted
        return fields

    def moved(self, match: Match, fields: Fields) -> Fields:
        return fields if match.order is None else fields | self.comparer.differ({"order": match.order})

    def draft(
        self, match: Match, depth: int, fields: Fields, covers: list[Covered] | None = None, *, is_scope: bool = False
    ) -> Draft:
        kind: Kind | None = "moved" if "order" in fields else "changed" if fields else None
        draft = Draft(kind, depth, match.before, match.after, is_scope, fields, covers or [])
        if "order" in fields and match.before is not None and match.after is not None:
            draft.covers = list(zip_longest(self.before.places(match.before), self.after.places(match.after)))
        if kind is not None:
            self.told.setdefault(key_of(fields), draft)
        return draft

    def alone(self, match: Match, depth: int, *, is_quiet: bool = False) -> Draft:
        """What has no counterpart, with all that is in it."""
        draft = Draft("removed" if match.after is None else "added", depth, match.before, match.after)
        self.cover(draft, match.before, match.after)
        item = match.before or match.after
        side = self.plumbing[match.before is None]
        draft.is_plumbing = item is not None and item.tensor is not None and item.tensor in side
        draft.is_quiet = is_quiet or draft.is_plumbing or (item is not None and is_in_passing(item))
        draft.is_quiet &= item is None or not item.is_block
        return draft

    def cover(self, draft: Draft, ours: Item | None, theirs: Item | None) -> None:
        if ours is not None:
            draft.covers += [(place, None) for place in self.before.places(ours)]
        if theirs is not None:
            draft.covers += [(None, place) for place in self.after.places(theirs)]

    def add(self, frame: Frame, match: Match, drafts: list[Draft]) -> None:
        """Steps in a row that are not there on the other side are one change, if they have no names or are masks.

        What moved does not part them, for it stands among those of one side only.
        """
        is_alone = match.before is None or match.after is None
        last, new = frame.alone[-1] if is_alone and frame.alone else None, drafts[0]
        if last is not None and last.kind == new.kind and last.is_quiet:
            if new.is_quiet:
                last.steps += new.steps
                last.covers += new.covers
                return
            if not last.is_plumbing and new.is_step:
                new.steps += last.steps
                new.covers = last.covers + new.covers
                frame.alone.pop()
        frame.append(match, drafts)


def is_pair_of_scopes(match: Match) -> bool:
    one, other = match.before, match.after
    if one is None or other is None or one.place.part != "call" or other.place.part != "call":
        return False
    return one.is_scope or other.is_scope


def is_in_passing(item: Item) -> bool:
    """A step without a name, or one that mostly gives what it was given."""
    return not item.role and not item.is_scope and (item.call.name in PASSING or not item.name)


def key_of(fields: Fields) -> object:
    return tuple(sorted(fields.items(), key=lambda field: field[0]))
