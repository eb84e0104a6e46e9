"""Two lists side by side."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from shapetrace.diff import alignment
from shapetrace.diff.alignment import align, longest_rising
from shapetrace.diff.matching import settled

KEYS = st.lists(st.integers(0, 4), max_size=9)


def equal(one: int, other: int) -> int:
    return int(one == other)


def longest_common(ours: list[int], theirs: list[int]) -> int:
    """By trying all."""
    kept = {tuple(theirs[place] for place in some) for n in range(len(theirs) + 1) for some in places(theirs, n)}
    return max(n for n in range(len(ours) + 1) if any(tuple(ours[p] for p in some) in kept for some in places(ours, n)))


def places(keys: list[int], count: int) -> list[tuple[int, ...]]:
    return list(combinations(range(len(keys)), count))


@given(KEYS, KEYS)
def test_as_many_as_can_be_are_paired_in_the_order_of_both(ours: list[int], theirs: list[int]) -> None:
    pairs = align(ours, theirs, equal)
    assert all(ours[a] == theirs[b] for a, b in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
    assert len(pairs) == longest_common(ours, theirs)


def test_equal_lists_are_paired_one_by_one() -> None:
    assert align([1, 1, 2], [1, 1, 2], equal) == [(0, 0), (1, 1), (2, 2)]


def test_what_scores_more_is_preferred() -> None:
    assert align([1], [2, 3], lambda one, other: other) == [(0, 1)]


@given(st.lists(st.integers(0, 3), min_size=800, max_size=900), st.data())
def test_long_lists_that_lost_some_are_paired_but_for_these(keys: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(keys) - 1), max_size=5))
    less = [key for place, key in enumerate(keys) if place not in gone]
    pairs = align(keys, less, equal)
    assert all(keys[a] == less[b] for a, b in pairs)
    assert len(pairs) >= len(less) - 2 * len(gone)
    assert len(keys) * len(less) > alignment.LARGEST


@given(st.lists(st.integers(0, 9), max_size=9))
def test_a_longest_rising_subsequence_is_found(numbers: list[int]) -> None:
    found = [numbers[place] for place in longest_rising(numbers)]
    assert all(one < other for one, other in pairwise(found))
    most = max(
        n
        for n in range(len(numbers) + 1)
        if any(all(numbers[a] < numbers[b] for a, b in pairwise(s)) for s in places(numbers, n))
    )
    assert len(found) == most


def test_what_stands_after_the_same_pair_on_both_sides_did_not_move() -> None:
    pairs, moved = settled([(0, 0), (3, 4)], [(1, 2), (2, 1), (5, 3)])
    assert pairs == [(0, 0), (1, 2), (3, 4)]
    assert moved == [(2, 1), (5, 3)]
