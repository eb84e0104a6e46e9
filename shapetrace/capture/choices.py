"""What is changed for the runs of a model at other sizes, and the sizes that each run has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ..letters import is_of_input
from .groups import Groups
from .settings import Settings, Table, input_settings, model_settings

__all__ = ["Choice", "Sizes", "all_sizes", "merged", "settings", "sizes_of", "table_of", "with_head"]

Sizes = Mapping[str, int]


class Choice(msgspec.Struct, frozen=True):
    """What to change: groups of input dims, and letters of the source, each with its sizes in the runs."""

    groups: Groups
    inputs: Settings
    own: Settings


def with_head(sizes: dict[str, int]) -> dict[str, int]:
    """D is C / H where nothing else is said."""
    if "D" not in sizes and {"C", "H"} <= sizes.keys() and sizes["C"] % sizes["H"] == 0:
        return {**sizes, "D": sizes["C"] // sizes["H"]}
    return sizes


def settings(letters: Sizes, others: Table | None = None) -> Iterator[Settings]:
    """Other sizes for letters of both kinds, the input's and the model's own. Layers stay: their number is no axis."""
    outer = {letter: size for letter, size in letters.items() if is_of_input(letter)}
    inner = {letter: size for letter, size in letters.items() if letter != "L" and letter not in outer}
    for own in model_settings(inner):
        table = {**(others or {}), **table_of(inner, own)}
        for inputs in input_settings(outer, table):
            yield merged(inputs, own)


def table_of(sizes: Sizes, own: Settings) -> Table:
    """What each letter of these settings is now, and what it is in the runs."""
    now = with_head({letter: sizes[letter] for letter in own[0]})
    return {letter: (size, *(with_head(run)[letter] for run in own)) for letter, size in now.items()}


def merged(one: Settings, other: Settings) -> Settings:
    return {**one[0], **other[0]}, {**one[1], **other[1]}, {**one[2], **other[2]}


def all_sizes(choice: Choice) -> Settings:
    both = merged(choice.inputs, choice.own)
    return with_head(both[0]), with_head(both[1]), with_head(both[2])


def sizes_of(choice: Choice, run: int) -> tuple[dict[str, int], dict[str, int]]:
    """Of the input and of the model itself; after the third run it begins again."""
    return choice.inputs[run % 3], choice.own[run % 3]
