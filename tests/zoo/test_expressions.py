import pytest

from tests.zoo.expressions import predict

SIZES = {"B": 2, "T": 7, "P": 5, "C": 8, "H": 4}


@pytest.mark.parametrize(
    ("axis", "size"),
    [
        (3, 3),
        ("B", 2),
        ("3·C", 24),
        ("B·H", 8),
        ("T-1", 6),
        ("P+T", 12),
        ("C/2", 4),
        ("C/H", 2),
        ("2·T-1", 13),
        ("P + T - 1", 11),
        ("3·C/2", 12),
        ("B·(P+T)", 24),
        ("2·C/H·B", 8),
        ("⌈T/H⌉", 2),
        ("H·⌈T/H⌉", 8),
        ("B·(⌈T/H⌉+1)", 6),
    ],
)
def test_an_axis_predicts_a_size(axis: str | int, size: int) -> None:
    assert predict(axis, SIZES) == size


@pytest.mark.parametrize(
    "axis", ["", "C/3", "B·", "·B", "(B", "B)", "B T", "T--1", "C//2", "4 ·", "B·%", "⌈T/H", "⌈T⌉", "⌈T/H)"]
)
def test_what_is_no_axis_or_not_whole_is_refused(axis: str) -> None:
    with pytest.raises(ValueError):
        predict(axis, SIZES)


def test_a_letter_without_a_size_is_refused() -> None:
    with pytest.raises(KeyError, match="'V'"):
        predict("B·V", SIZES)
