"""Which lines of a diff are shown: the changes, with some around them, below the modules that they are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..diff import Line

__all__ = ["Shown", "visible"]


class Shown(msgspec.Struct, frozen=True):
    """A line that is shown; without one, so many that are not.

    held   of a module that is not opened how many tensors are in it
    """

    line: Line | None
    depth: int
    held: int = 0


def visible(lines: Sequence[Line], context: int | None) -> Iterator[Shown]:
    """All lines for None; else those of changes with some around them, below the modules that they are in."""
    tree = Tree(lines)
    wanted = set(range(len(lines))) if context is None else tree.around(context)
    if tree.has_root and lines[0].change is None:
        wanted.discard(0)
    closed, gap = -1, -1
    for index, each in enumerate(lines):
        depth = max(each.depth - tree.has_root, 0)
        if index < closed or (index == 0 and tree.has_root and index not in wanted):
            continue
        if index not in wanted:
            closed = tree.stops[index]
            gap = depth if gap < 0 else gap
            continue
        if gap >= 0:
            yield Shown(None, gap)
            gap = -1
        is_closed = context is not None and each.is_scope and not tree.has_change[index]
        closed = tree.stops[index] if is_closed else closed
        yield Shown(each, depth, tree.held[index] if is_closed else 0)
    if gap >= 0 and wanted:
        yield Shown(None, gap)


class Tree:
    """Which lines are inside of which.

    stops       of each the next that is not inside of it
    held        how many lines are inside that are no modules
    has_change  whether something inside has changed
    has_root    whether all is inside of the first
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.stops = [len(lines)] * len(lines)
        self.held, self.has_change = [0] * len(lines), [False] * len(lines)
        self.groups: dict[int, list[int]] = {}
        around: list[int] = []
        for index, each in enumerate(lines):
            while around and lines[around[-1]].depth >= each.depth:
                self.stops[around.pop()] = index
            self.groups.setdefault(around[-1] if around else -1, []).append(index)
            for module in around:
                self.held[module] += not each.is_scope
                self.has_change[module] |= each.change is not None
            around.append(index)
        self.has_root = bool(lines) and lines[0].is_scope and self.stops[0] == len(lines)

    def around(self, context: int) -> set[int]:
        """The changes, what stands beside them, and the modules that they are in."""
        found: set[int] = set()
        for group in self.groups.values():
            for place, index in enumerate(group):
                if self.lines[index].change is not None:
                    found.update(group[max(0, place - context) : place + context + 1])
                elif self.has_change[index]:
                    found.add(index)
        return found
