"""Two lists side by side, as like as possible: which of the one stands for which of the other, in the order of both."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

__all__ = ["align", "longest_rising"]

Score = Callable[[int, int], int]
"""How well two keys go together; 0 if they do not."""

LARGEST = 200_000
"""Cells of a table that is filled to find the best of all ways: some tenths of a second."""

WINDOW = 64
RUN = 6
"""Beyond that, so many items in a row that are there once on either side are taken for the same; what is between them,
if it is still too long, is aligned in windows."""


def align(ours: Sequence[int], theirs: Sequence[int], score: Score) -> list[tuple[int, int]]:
    """The pairs of positions, rising on both sides, whose scores add up to the most. Equal keys always may be paired.

    Items are given as keys; the first of several ways that are equally good is taken.
    """
    start, limit = 0, min(len(ours), len(theirs))
    while start < limit and ours[start] == theirs[start]:
        start += 1
    end = 0
    while end < limit - start and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    found = [(place, place) for place in range(start)]
    stop, other = len(ours) - end, len(theirs) - end
    a = b = start
    for x, y in [*apart(ours, theirs, (start, start), (stop, other)), (stop, other)]:
        found += best(ours, theirs, range(a, x), range(b, y), score)
        if x < stop:
            found.append((x, y))
        a, b = x + 1, y + 1
    return [*found, *((stop + place, other + place) for place in range(end))]


def apart(
    ours: Sequence[int], theirs: Sequence[int], start: tuple[int, int], stop: tuple[int, int]
) -> list[tuple[int, int]]:
    """Pairs that are sure, between which the rest can be aligned; none where that is little."""
    if (stop[0] - start[0]) * (stop[1] - start[1]) <= LARGEST:
        return []
    for run in (RUN, 1):
        left, right = once(ours, start[0], stop[0], run), once(theirs, start[1], stop[1], run)
        both = sorted((left[key], right[key]) for key in left if key in right)
        if both:
            return [both[place] for place in longest_rising([b for _, b in both])]
    return []


def once(keys: Sequence[int], start: int, stop: int, run: int) -> dict[tuple[int, ...], int]:
    """The runs of keys that are there once -> where each begins."""
    runs = {place: tuple(keys[place : place + run]) for place in range(start, stop - run + 1)}
    count = Counter(runs.values())
    return {key: place for place, key in runs.items() if count[key] == 1}


def best(ours: Sequence[int], theirs: Sequence[int], left: range, right: range, score: Score) -> list[tuple[int, int]]:
    if not left or not right:
        return []
    if len(left) * len(right) > LARGEST:
        return sliding(ours, theirs, left, right, score)
    keys, others = [ours[a] for a in left], [theirs[b] for b in right]
    fits: dict[int, list[int]] = {}
    for key in set(keys):
        scores = {other: score(key, other) for other in set(others)}
        fits[key] = [scores[other] for other in others]
    table = [[0] * (len(right) + 1)]
    for key in reversed(keys):
        below, row, most, fit = table[-1], [0] * (len(right) + 1), 0, fits[key]
        for at in range(len(right) - 1, -1, -1):
            both = below[at + 1] + fit[at] if fit[at] else 0
            if below[at] > most:
                most = below[at]
            if both > most:
                most = both
            row[at] = most
        table.append(row)
    table.reverse()
    found: list[tuple[int, int]] = []
    a = b = 0
    while a < len(left) and b < len(right):
        worth = fits[keys[a]][b]
        if worth and table[a][b] == table[a + 1][b + 1] + worth:
            found.append((left[a], right[b]))
            a, b = a + 1, b + 1
        elif table[a][b] == table[a + 1][b]:
            a += 1
        else:
            b += 1
    return found


def sliding(
    ours: Sequence[int], theirs: Sequence[int], left: range, right: range, score: Score
) -> list[tuple[int, int]]:
    """The same for long lists that are much alike: the best way in a window, of which the first half is kept."""
    found: list[tuple[int, int]] = []
    a, b = left.start, right.start
    while a < left.stop and b < right.stop:
        if ours[a] == theirs[b]:
            found.append((a, b))
            a, b = a + 1, b + 1
            continue
        ends = min(a + WINDOW, left.stop), min(b + WINDOW, right.stop)
        pairs = best(ours, theirs, range(a, ends[0]), range(b, ends[1]), score)
        is_last = ends == (left.stop, right.stop)
        kept = [pair for pair in pairs if is_last or (pair[0] < a + WINDOW // 2 and pair[1] < b + WINDOW // 2)]
        found += kept
        if is_last:
            break
        a, b = (kept[-1][0] + 1, kept[-1][1] + 1) if kept else (a + WINDOW // 2, b + WINDOW // 2)
    return found


def longest_rising(numbers: Sequence[int]) -> list[int]:
    """The places of a longest subsequence that rises."""
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        at = bisect_left(ends, number)
        before.append(places[at - 1] if at else -1)
        ends[at : at + 1] = [number]
        places[at : at + 1] = [place]
    found: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]
