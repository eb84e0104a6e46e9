"""Which call of one run is which of another, that has more of some."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.passes.align import LONGEST, align
from shapetrace.schema import Call


def calls(text: str) -> list[Call]:
    """A call for each letter: a capital is a module, any other a function."""
    return [Call("module" if letter.isupper() else "function", letter, letter, 0) for letter in text]


def aligned(one: str, other: str) -> str:
    """For each call of `one` its place in `other`; - if it has none."""
    theirs = calls(other)
    places = {id(call): str(place) for place, call in enumerate(theirs)}
    return "".join("-" if call is None else places[id(call)] for call in align(calls(one), theirs))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("abc", "abc", "012"),
        ("", "", ""),
        ("abc", "", "---"),
        ("", "abc", ""),
        ("abc", "axc", "0-2"),
        ("abc", "abxc", "013"),
        ("abxc", "abc", "01-2"),
        ("aAbAbz", "aAbAbAbz", "012347"),  # a loop that runs three times
        ("aAbAbAbz", "aAbAbz", "01234--5"),
        ("abc", "xyz", "---"),
    ],
)
def test_calls_that_do_the_same_at_the_same_place_are_the_same(one: str, other: str, expected: str) -> None:
    assert aligned(one, other) == expected


def test_a_module_is_known_by_its_path_and_a_function_by_its_name_too() -> None:
    lazy, linear = Call("module", "head", "LazyLinear", 1), Call("module", "head", "Linear", 1)
    assert align([lazy], [linear]) == [linear]
    assert align([Call("function", "head", "add", 1)], [Call("function", "head", "mul", 1)]) == [None]
    assert align([lazy], [Call("module", "head", "Linear", 2)]) == [None]


def test_what_differs_over_thousands_of_calls_is_not_compared_one_with_another() -> None:
    many = "a" + "bc" * LONGEST + "z"
    found = align(calls(many), calls("a" + "cb" * LONGEST + "z"))
    assert found[0] is not None
    assert found[-1] is not None
    assert found[1:-1] == [None] * (2 * LONGEST)


@given(st.text("abcAB", max_size=30), st.text("abcAB", max_size=30))
def test_each_call_is_found_once_at_most_in_order_and_is_alike(one: str, other: str) -> None:
    ours, theirs = calls(one), calls(other)
    found = align(ours, theirs)
    places = [next(place for place, its in enumerate(theirs) if its is call) for call in found if call is not None]
    assert len(found) == len(ours)
    assert places == sorted(set(places))
    assert all(call is None or call.path == own.path for own, call in zip(ours, found, strict=True))


@given(st.text("abcAB", max_size=30))
def test_a_run_is_aligned_with_itself_call_by_call(text: str) -> None:
    theirs = calls(text)
    assert all(own is call for own, call in zip(theirs, align(calls(text), theirs), strict=True))
