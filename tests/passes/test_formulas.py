"""What sizes are made of: the formula found is right at other sizes, too, and where two would do there is none."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.passes.formulas import Formulas, evaluate

RUNS = {"B": (2, 3, 5, 7), "T": (4, 7, 11, 5), "C": (8, 190, 78, 238), "H": (2, 5, 3, 7), "D": (4, 38, 26, 34)}


@pytest.mark.parametrize(
    ("sizes", "formula"),
    [
        ((2, 3, 5, 7), "B"),
        ((8, 21, 55, 35), "B·T"),
        ((24, 570, 234, 714), "3·C"),
        ((2, 19, 13, 17), "D/2"),
        ((6, 57, 39, 51), "3·D/2"),
        ((3, 6, 10, 4), "T-1"),
        ((6, 10, 16, 12), "B+T"),
        ((36, 39, 43, 37), "T+32"),
        ((580, 583, 587, 581), "T+576"),
        ((5004, 5007, 5011, 5005), None),
        ((7, 13, 21, 9), "2·T-1"),
        ((6, 18, 50, 28), "B·(T-1)"),
        ((16, 266, 286, 170), "T·D"),
        ((4, 4, 4, 4), None),
        ((0, 3, 5, 7), None),
        ((17, 2, 90, 3), None),
    ],
)
def test_a_size_is_named_by_what_it_is_made_of(sizes: tuple[int, ...], formula: str | None) -> None:
    assert Formulas(RUNS).of(sizes) == formula


def test_what_is_rotated_of_a_part_of_a_head_may_be_an_eighth_of_it() -> None:
    assert Formulas(RUNS | {"D": (256, 24, 16, 8)}).of((32, 3, 2, 1)) == "D/8"
    assert Formulas(RUNS | {"D": (16, 24, 16, 8)}).of((2, 3, 2, 1)) is None  # that may be anything


PARTS = {"H": (4, 5, 3, 7), "G": (2, 5, 1, 7), "D": (16, 40, 56, 24), "R": (8, 16, 24, 8), "U": (12, 72, 32, 56)}
PARTS |= {"Z": (28, 96, 40, 104), "N": (10, 16, 40, 24), "A": (6, 9, 14, 22), "B": (2, 3, 5, 7), "K": (2, 3, 4, 5)}


@pytest.mark.parametrize(
    ("formula", "sizes"),
    [
        ("U+R", (20, 88, 56, 64)),
        ("H·(U+R)", (80, 440, 168, 448)),
        ("H·(U+D)", (112, 560, 264, 560)),
        ("Z+R", (36, 112, 64, 112)),
        ("D-R", (8, 24, 32, 16)),
        ("R/2", (4, 8, 12, 4)),
        ("A+2·N", (26, 41, 94, 70)),
        ("B·K", (4, 9, 20, 35)),
        ("H/G", (2, 1, 3, 1)),
    ],
)
def test_parts_of_heads_ranks_and_states_are_told(formula: str, sizes: tuple[int, ...]) -> None:
    assert Formulas(PARTS).of(sizes) == formula


STATES = {"B": (3, 5, 7), "T": (7, 5, 11), "C": (64, 240, 144), "H": (4, 10, 9), "G": (2, 5, 3), "N": (10, 16, 40)}
STATES |= {"h": (16, 20, 36), "g": (4, 5, 4), "d": (8, 72, 16), "k": (18, 40, 24), "w": (4, 3, 2), "c": (5, 2, 16)}


@pytest.mark.parametrize(
    ("formula", "sizes"),
    [
        ("h·d", (128, 1440, 576)),
        ("g·k", (72, 200, 96)),
        ("g·N", (40, 80, 160)),
        ("h·d+2·g·N", (208, 1600, 896)),
        ("h·d+2·g·k", (272, 1840, 768)),
        ("h/g", (4, 4, 9)),
        ("B·T·h·d", (2688, 36000, 44352)),
        ("T+w-1", (10, 7, 12)),
        ("⌈T/c⌉", (2, 3, 1)),
        ("⌈T/c⌉+1", (3, 4, 2)),
        ("c·⌈T/c⌉", (10, 6, 16)),
        ("B·⌈T/c⌉", (6, 15, 7)),
        (None, (8, 10, 18)),  # h/2
        (None, (8, 6, 4)),  # 2·w
        (None, (24, 92, 52)),  # h+d
        (None, (14, 21, 44)),  # g+N
        (None, (60, 237, 142)),  # C-w
        ("h·N", (160, 320, 1440)),
    ],
)
def test_what_a_state_space_is_made_of_is_told(formula: str | None, sizes: tuple[int, ...]) -> None:
    assert Formulas(STATES).of(sizes) == formula


def test_two_letters_of_the_same_sizes_name_nothing() -> None:
    formulas = Formulas({"B": (2, 3, 5), "N": (2, 3, 5), "T": (4, 7, 11)})
    assert [formulas.of(sizes) for sizes in ((2, 3, 5), (8, 21, 55), (4, 7, 11))] == [None, None, "T"]


def test_a_letter_that_did_not_change_tells_nothing() -> None:
    assert Formulas({"B": (2, 2, 2), "T": (4, 7, 11)}).of((8, 14, 22)) == "2·T"


def test_heads_come_before_their_width_and_the_batch_before_all() -> None:
    runs = {"D": (4, 38, 26), "T": (4, 7, 11), "H": (2, 5, 3), "B": (2, 3, 5)}
    assert Formulas(runs).of((16, 105, 165)) == "B·T·H"
    assert Formulas(runs).of((8, 190, 78)) == "H·D"


PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53]

EXPRESSIONS = st.one_of(
    st.tuples(st.integers(1, 5), st.lists(st.sampled_from("BTSP"), min_size=1, max_size=3), st.just(0)),
    st.tuples(st.integers(1, 2), st.lists(st.sampled_from("BTSP"), min_size=1, max_size=1), st.integers(-4, 4)),
)
"""A factor, letters that are multiplied, and an offset: of each there is a formula."""

TABLES = st.permutations(PRIMES).map(lambda primes: {name: tuple(primes[at::4]) for at, name in enumerate("BTSP")})
"""Letters with sizes in four runs, all of them different."""


@given(TABLES, EXPRESSIONS, st.lists(st.integers(5, 99), min_size=4, max_size=4))
def test_a_formula_that_four_runs_agree_on_is_right_at_any_other_sizes(
    letters: dict[str, tuple[int, ...]], expression: tuple[int, list[str], int], others: list[int]
) -> None:
    def size(letters: dict[str, int]) -> int:
        factor, names, offset = expression
        return factor * prod(letters[name] for name in names) + offset

    sizes = tuple(size({name: its[run] for name, its in letters.items()}) for run in range(4))
    found = Formulas(letters).of(sizes)
    if min(sizes) > 0:
        assert found is not None
        fresh = dict(zip("BTSP", others, strict=True))
        assert evaluate(found, fresh) == size(fresh)


@given(TABLES, st.lists(st.integers(1, 200), min_size=4, max_size=4))
def test_a_formula_that_is_found_gives_the_sizes_that_it_was_found_from(
    letters: dict[str, tuple[int, ...]], sizes: list[int]
) -> None:
    found = Formulas(letters).of(tuple(sizes))
    if found is not None:
        assert [evaluate(found, {name: its[run] for name, its in letters.items()}) for run in range(4)] == sizes


@pytest.mark.parametrize(
    ("axis", "size"),
    [
        (7, 7),
        ("B", 2),
        ("3·C", 24),
        ("D/2", 2),
        ("3·D/2", 6),
        ("T-1", 3),
        ("P+T", 9),
        ("P+T-2", 7),
        ("2·T-1", 7),
        ("B·(T-1)", 6),
        ("B·(P+T)·C", 144),
        ("⌈P/T⌉", 2),
        ("T·⌈P/T⌉", 8),
        ("⌈T/B⌉+1", 3),
        ("⌈P/T", None),
        ("⌈P/T)", None),
        ("(P/T⌉", None),
        ("P/2", None),  # no whole number
        ("X", None),
        ("B·X", None),
        ("", None),
        ("B B", None),
        ("B*T", None),
        ("B·", None),
        ("·B", None),
        ("B+", None),
        ("(B", None),
        ("B)", None),
        ("()", None),
        ("B/0", None),
        ("2B", None),
        ("B/(T-4)", None),
    ],
)
def test_an_axis_has_a_size_where_its_letters_have(axis: str | int, size: int | None) -> None:
    assert evaluate(axis, {"B": 2, "T": 4, "C": 8, "D": 4, "P": 5}) == size


@given(st.text(alphabet="BT23·/+-()⌈⌉? ", max_size=12))
def test_whatever_a_file_says_an_axis_is_raises_nothing(text: str) -> None:
    assert isinstance(evaluate(text, {"B": 2, "T": 4}), int | None)


@pytest.mark.parametrize("text", ["(" * 5000, "9" * 5000, "-".join("B" * 5000)])
def test_nor_does_a_formula_without_end(text: str) -> None:
    assert evaluate(text, {"B": 2}) is None
