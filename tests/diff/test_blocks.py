"""What a comparison says of the blocks of a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.diff import compare
from shapetrace.schema import Trace
from tests.diff.nodes import Node, linear, module, told, trace_of


def blocks(count: int, *, odd: int | None = None) -> Trace:
    def block(index: int) -> Node:
        more = [linear("gate")] if index == odd else []
        return module(f"blocks.{index}", linear("w_up"), *more, linear("w_down"), cls="Block")

    return trace_of(linear("embedding"), *map(block, range(count)), linear("head"))


def test_a_block_that_is_inserted_in_the_middle_of_twelve_is_one_insertion() -> None:
    def shifted(index: int) -> Node:
        cls = "Odd" if index == 6 else "Block"
        return module(f"blocks.{index}", linear("w_up"), linear("w_down"), cls=cls)

    before = trace_of(
        *(module(f"blocks.{index}", linear("w_up"), linear("w_down"), cls="Block") for index in range(12))
    )
    assert told(compare(before, trace_of(*map(shifted, range(13))))) == ["added blocks.6"]


def test_more_blocks_that_are_identical_are_one_change() -> None:
    diff = compare(blocks(12), blocks(24))
    assert told(diff) == ["changed blocks.0 layers 12 → 24"]
    assert told(compare(blocks(24), blocks(12))) == ["changed blocks.0 layers 24 → 12"]
    assert len({after for _, after in diff.changes[0].covers}) == 12 * 8


def test_a_block_in_whose_place_another_module_stands_is_no_layer_less() -> None:
    before = trace_of(linear("blocks.0"), linear("blocks.0"))
    after = trace_of(linear("blocks.0"), module("norm", Node("linear"), Node("add"), cls="Linear"))
    assert told(compare(before, after)) == ["added norm.add"]
    assert told(compare(after, before)) == ["removed norm.add"]


def test_blocks_that_change_in_the_same_way_are_one_change() -> None:
    def net(width: int) -> Trace:
        return trace_of(*(module(f"blocks.{index}", linear("w_up", (2, width))) for index in range(12)))

    (change,) = compare(net(8), net(16)).changes
    assert change.blocks == tuple((f"blocks.{index}", f"blocks.{index}") for index in range(1, 12))


def test_a_block_that_changes_otherwise_is_told_for_itself() -> None:
    assert told(compare(blocks(4), blocks(4, odd=2))) == ["added blocks.2.gate"]


def of_widths(*widths: int) -> Trace:
    def block(index: int, width: int) -> Node:
        return module(f"blocks.{index}", linear("up", (2, width)), linear("down", (2, 8)), cls="Block")

    return trace_of(*(block(index, width) for index, width in enumerate(widths)))


@pytest.mark.parametrize(("widths", "at", "width"), [((16,) * 12, 6, 24), (tuple(range(8, 32, 2)), 5, 40)])
def test_a_block_of_another_width_that_is_inserted_is_one_insertion(
    widths: tuple[int, ...], at: int, width: int
) -> None:
    before, after = of_widths(*widths), of_widths(*widths[:at], width, *widths[at:])
    assert told(compare(before, after)) == [f"added blocks.{at}"]
    assert told(compare(after, before)) == [f"removed blocks.{at}"]


def test_two_blocks_of_other_widths_that_are_exchanged_are_a_move() -> None:
    diff = compare(of_widths(8, 10, 12, 14, 16), of_widths(8, 10, 14, 12, 16))
    assert [change.kind for change in diff.changes] == ["moved"]


def test_a_block_of_another_width_in_the_place_of_one_is_a_change_of_it() -> None:
    diff = compare(of_widths(16, 16, 16, 16), of_widths(16, 16, 24, 16))
    assert {change.kind for change in diff.changes} == {"changed"}


def listed(spec: str) -> Trace:
    """Blocks in a list, each by a letter: "w" is wider than "a", "u" lacks a role, "p" a step, "l" and "n" all."""

    def block(index: int, kind: str) -> Node:
        if kind == "n":
            return module(f"blocks.{index}", Node("layer_norm"), cls="LayerNorm")
        if kind == "l":
            return linear(f"blocks.{index}")
        up = linear("w_up", (2, 24 if kind == "w" else 16))
        more = () if kind == "p" else (Node("add", role=None if kind == "u" else "residual"),)
        return module(f"blocks.{index}", up, linear("w_down"), *more, cls="Block")

    return trace_of(*(block(index, kind) for index, kind in enumerate(spec)))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("aa", "aaw", ["added blocks.2"]),
        ("aa", "aawaa", ["added blocks.2", "changed blocks.0 layers 2 → 4"]),
        ("awaw", "awawaw", ["changed blocks.0 layers 2 → 3", "changed blocks.1 layers 2 → 3"]),
        ("aaaa", "aapaa", ["added blocks.2"]),
        ("aaaa", "aappaa", ["added blocks.2", "added blocks.3"]),
        ("aaaa", "aapuu", ["added blocks.2", "changed blocks.2.add → blocks.3.add role residual → None"]),
        ("aa", "waa", ["added blocks.0"]),
    ],
)
def test_only_a_block_that_is_identical_is_one_more_of_a_run(before: str, after: str, said: list[str]) -> None:
    assert told(compare(listed(before), listed(after))) == said


def test_what_is_identical_goes_by_what_is_compared() -> None:
    assert told(compare(listed("aa"), listed("aaw"), ignore=["shape"])) == ["changed blocks.0 layers 2 → 3"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("nanaa", "anaan", "moved blocks.0 → blocks.4 order before blocks.1 → after blocks.3"),
        ("all", "lla", "moved blocks.0 → blocks.2 order before blocks.1 → after blocks.1"),
        ("anapan", "aapann", "moved blocks.1 → blocks.4 order before blocks.2 → after blocks.3"),
    ],
)
def test_a_block_that_stands_elsewhere_has_moved_however_many_are_identical(before: str, after: str, said: str) -> None:
    assert told(compare(listed(before), listed(after))) == [said]


@given(st.text("aln", min_size=2, max_size=7), st.data())
def test_whichever_stands_elsewhere_nothing_else_has_changed(before: str, data: st.DataObject) -> None:
    places = st.integers(0, len(before) - 1)
    place = data.draw(places)
    rest, there = before[:place] + before[place + 1 :], data.draw(places)
    after = rest[:there] + before[place] + rest[there:]
    changes = compare(listed(before), listed(after)).changes
    assert [change.kind for change in changes] == ["moved"] * (after != before)
