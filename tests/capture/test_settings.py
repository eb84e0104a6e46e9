"""The sizes at which a model is run again: whatever is made of them can be told."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.capture.settings import are_apart, input_settings, model_settings
from shapetrace.passes.formulas import Formulas, evaluate

LETTERS = "BTSP"

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(lambda sizes: dict(zip(LETTERS, sizes, strict=False)))


def test_axes_of_the_input_take_primes_then_less_then_multiples() -> None:
    assert [settings[:2] for settings in input_settings({"B": 2, "T": 5})] == [
        ({"B": 3, "T": 7}, {"B": 7, "T": 11}),
        ({"B": 3, "T": 2}, {"B": 5, "T": 3}),
        ({"B": 4, "T": 15}, {"B": 6, "T": 10}),
    ]
    assert list(input_settings({})) == [({}, {}, {})]


@given(SIZES)
def test_no_letter_has_its_own_size_again_or_that_of_another(sizes: dict[str, int]) -> None:
    for settings in input_settings(sizes):
        for run in settings[:2]:
            assert len(set(run.values())) == len(sizes)
            assert not [letter for letter in sizes if run[letter] == sizes[letter]]
            assert min(run.values()) >= 1


@given(SIZES, st.integers(1, 4), st.lists(st.sampled_from(LETTERS), min_size=1, max_size=2), st.integers(-3, 3))
def test_what_is_made_of_letters_is_told_at_these_sizes_or_not_at_all(
    sizes: dict[str, int], factor: int, names: list[str], offset: int
) -> None:
    if not set(names) <= sizes.keys() or (offset and (len(names) > 1 or factor > 2)):
        return

    def size(letters: dict[str, int]) -> int:
        return factor * prod(letters[name] for name in names) + offset

    fresh = {letter: 101 + 2 * place for place, letter in enumerate(sizes)}
    for settings in input_settings(sizes):
        runs = [sizes, *settings]
        found = Formulas({letter: tuple(run[letter] for run in runs) for letter in sizes}).of(tuple(map(size, runs)))
        assert found is None or min(map(size, runs)) < 1 or evaluate(found, fresh) == size(fresh)


@pytest.mark.parametrize(
    ("sizes", "first", "second"),
    [
        ({"B": 4, "T": 5}, {"B": 3, "T": 4}, {"B": 2, "T": 3}),  # T-1 would be B
        ({"B": 2, "T": 4}, {"B": 3, "T": 6}, {"B": 5, "T": 10}),  # 2·B would be T
        ({"B": 2, "T": 4}, {"B": 7, "T": 7}, {"B": 5, "T": 11}),
    ],
)
def test_sizes_at_which_one_letter_looks_like_another_are_not_taken(
    sizes: dict[str, int], first: dict[str, int], second: dict[str, int]
) -> None:
    assert not are_apart(sizes, (first, second, first))


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 64), st.integers(1, 99), st.integers(1, 999), st.booleans())
def test_the_axes_of_a_model_keep_to_the_laws_that_they_kept(
    heads: int, repeats: int, width: int, hidden: int, vocabulary: int, grouped: bool
) -> None:
    H = heads * repeats
    sizes = {"C": H * width, "H": H, "D": width, "F": hidden, "V": vocabulary, **({"G": heads} if grouped else {})}
    for settings in model_settings(sizes):
        for run in settings:
            now = {**sizes, **run}
            assert now["C"] == now["H"] * now["D"]
            assert now["H"] % now.get("G", 1) == 0
            assert now["V"] >= vocabulary
