"""The sizes at which a model is run again: whatever is made of them can be told."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.capture.naming import may_be_chance
from shapetrace.capture.settings import are_apart, input_settings, model_settings
from shapetrace.passes.formulas import Formulas, evaluate

LETTERS = "BTSP"

SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(lambda sizes: dict(zip(LETTERS, sizes, strict=False)))


def test_axes_of_the_input_take_primes_then_less_then_multiples() -> None:
    assert [settings[:2] for settings in input_settings({"B": 2, "T": 5})] == [
        ({"B": 3, "T": 7}, {"B": 7, "T": 3}),
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


@given(st.integers(1, 12), st.integers(1, 12))
def test_a_length_is_odd_in_one_run_and_even_in_another(B: int, T: int) -> None:
    runs = next(input_settings({"B": B, "T": T}))
    assert {run["T"] % 2 for run in runs} == {0, 1}


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


ALL = {"C": 64, "H": 4, "G": 2, "D": 16, "F": 88, "V": 101, "E": 8, "K": 2, "J": 40}
ALL |= {"R": 8, "U": 12, "Q": 36, "Z": 28, "N": 10, "A": 6, "M": 20}
ALL |= {"h": 16, "g": 4, "d": 8, "k": 18, "w": 4, "c": 5, "i": 3, "j": 26}


@given(st.permutations(sorted(ALL)).map(lambda letters: letters[:9]), st.data())
def test_no_axis_of_a_model_is_made_of_its_others_at_the_sizes_of_the_runs(
    letters: list[str], data: st.DataObject
) -> None:
    """But for C, which is H·D."""
    sizes = {letter: data.draw(st.integers(2, 512)) for letter in letters if letter not in "HG"}
    sizes |= {letter: ALL[letter] for letter in letters if letter in "HG"}
    runs = next(iter(model_settings(sizes)))
    table = {letter: tuple(run[letter] for run in runs) for letter in runs[0]}
    for letter, its in table.items():
        found = Formulas({other: sizes for other, sizes in table.items() if other != letter}).of(its)
        assert found in (None, *(["H·D", "C/H", "C/D"] if {"C", "H", "D"} <= table.keys() else [])), (letter, found)


MADE = "H/G D-R U+R Z+R H·(U+R) H·(U+D) A+2·N D/2 R/2 3·C 2·F 2·J C+2·G·D G·D".split()
MADE += "h·d g·N h·d+2·g·N g·k h·d+2·g·k h/g i·j j-R".split()


@pytest.mark.parametrize("axis", MADE)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([2, 3, 4, 8]), st.data())
def test_what_two_runs_tell_of_the_axes_of_a_model_the_third_confirms(
    axis: str, groups: int, repeats: int, data: st.DataObject
) -> None:
    D = data.draw(st.sampled_from([4, 8, 16, 24, 32, 64, 128]))
    sizes = {letter: data.draw(st.sampled_from([8, 16, 24, 64, 96, 256])) for letter in "FJUQZNAVEdkij"}
    sizes |= {"g": data.draw(st.sampled_from([1, 2, 8])), "w": data.draw(st.integers(2, 7)), "c": 256}
    sizes["h"] = sizes["g"] * data.draw(st.sampled_from([2, 3, 4, 8]))
    sizes |= {"H": groups * repeats, "G": groups, "D": D, "C": groups * repeats * D, "K": 2, "R": D // 2}
    runs = [sizes, *next(iter(model_settings(sizes)))]

    def found(count: int) -> str | None:
        table = {letter: tuple(run[letter] for run in runs[:count]) for letter in runs[1]}
        return Formulas(table).of(tuple(evaluate(axis, run) or 0 for run in runs[:count]))

    two, three = found(3), found(4)
    assert two is None or may_be_chance(two) or evaluate(two, runs[3]) == evaluate(axis, runs[3]), two
    assert three is None or evaluate(three, FRESH) == evaluate(axis, FRESH), three


FRESH = {"H": 22, "G": 11, "D": 52, "C": 22 * 52, "F": 202, "V": 997, "E": 34, "K": 9, "J": 62}
FRESH |= {"R": 28, "U": 46, "Q": 74, "Z": 58, "N": 38, "A": 13, "M": 86}
FRESH |= {"h": 51, "g": 17, "d": 82, "k": 94, "w": 6, "c": 37, "i": 29, "j": 118}


@given(st.integers(1, 512), st.integers(1, 16), st.sampled_from([1, 2, 4, 8]))
def test_experts_are_more_than_a_token_goes_to_and_stay_in_their_groups(experts: int, chosen: int, groups: int) -> None:
    experts *= groups
    for settings in model_settings({"C": 8, "E": experts, "K": chosen}):
        for run in settings:
            now = {"E": experts, "K": chosen} | run
            assert now["E"] % groups == 0
            assert now["K"] < now["E"] or chosen >= experts


@given(st.integers(1, 512), st.integers(1, 512))
def test_the_part_of_a_head_that_is_rotated_is_no_wider_than_the_head(width: int, rotated: int) -> None:
    for run in next(iter(model_settings({"H": 2, "D": width, "R": rotated}))):
        assert run["R"] < run["D"]
        assert run["R"] % 4 == 0


@given(st.integers(1, 8), st.integers(1, 64), st.integers(1, 8), st.integers(1, 8), st.integers(1, 4))
def test_a_state_space_is_a_whole_number_of_times_as_wide_as_the_model_and_not_always_the_same(
    heads: int, width: int, groups: int, repeats: int, times: int
) -> None:
    C = heads * width * repeats
    sizes = {"C": C, "H": heads, "g": groups, "h": groups * heads * repeats, "d": width * times}
    for settings in [next(iter(model_settings(sizes))), list(model_settings({"h": sizes["h"], "d": sizes["d"]}))[1]]:
        now = [sizes | run for run in settings]
        assert not [run for run in now if run["h"] * run["d"] % run["C"] and sizes["h"] * sizes["d"] % C == 0]
        assert not [run for run in now if run["h"] % run["g"] and "g" in settings[0]]
        assert len({run["h"] * run["d"] // run["C"] for run in now[:2]}) == 2


def test_heads_for_keys_are_not_always_the_same_share_of_the_heads() -> None:
    for settings in model_settings({"C": 64, "H": 4, "G": 2, "D": 16, "F": 88}):
        if "H" in settings[0]:
            assert len({run["H"] / run["G"] for run in settings}) > 1
