"""What holds of every comparison, whatever the two traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.diff import Diff, Place, compare, pairs
from shapetrace.records import records, records_and_writes
from shapetrace.schema import Trace
from tests.diff.nodes import Node, trace_of

SHAPES = st.sampled_from([(2, 8), (2, 16), (3, 8), (), (0,), (2, 0, 8)])
ROLES = st.sampled_from([None, None, "q", "scores", "residual"])


def functions(names: str) -> st.SearchStrategy[Node]:
    return st.builds(
        Node, st.sampled_from(names.split()), SHAPES, st.sampled_from(["", "", "x", "y"]), st.none(), role=ROLES
    )


def modules(inside: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    names = st.sampled_from("norm attention blocks.0 blocks.1 blocks.2 head".split())
    children = st.lists(inside, max_size=4).map(tuple)
    return st.builds(Node, names, SHAPES, st.sampled_from(["", "x"]), children, st.sampled_from(["Linear", "Block"]))


BLOCKS = [
    Node("", inside=(Node("linear", (2, width)), Node("linear"), *more), cls=cls)
    for width in (12, 16)
    for more in ((), (Node("add", role="residual"),))
    for cls in ("Block", "Layer")
]


def listed(blocks: list[Node]) -> Trace:
    return trace_of(*(msgspec.structs.replace(block, name=f"blocks.{place}") for place, block in enumerate(blocks)))


LISTS_OF_BLOCKS = st.lists(st.sampled_from(BLOCKS), max_size=7)

NODES = st.recursive(functions("add view matmul softmax"), modules, max_leaves=12)
TRACES = st.lists(NODES, max_size=6).map(lambda nodes: trace_of(*nodes))


def places(trace: Trace) -> list[Place]:
    """Where the records of a trace stand, in their order."""
    index = {id(call): number for number, call in enumerate(trace.calls)}
    return [
        Place(
            index[id(each.call)], "inputs" if each.is_input else "outputs" if each.materialised else "unmade", each.key
        )
        for each in records(trace)
    ]


def spoken_for(diff: Diff, side: int) -> set[Place | None]:
    """The places that a change, or a letter of another size, speaks for."""
    covers = [pair for change in diff.changes for pair in change.covers]
    return {pair[side] for pair in (*covers, *diff.explained)}


def applied(diff: Diff, before: Trace, after: Trace) -> list[tuple[int, ...]]:
    """The shapes of `before` with the changes made in them: only where a change says so is `after` looked at."""
    gone, new = spoken_for(diff, 0), spoken_for(diff, 1)
    kept = iter([each.shape for place, each in zip(places(before), records(before), strict=True) if place not in gone])
    there = zip(places(after), records(after), strict=True)
    made = [each.shape if place in new else next(kept) for place, each in there]
    assert list(kept) == []
    return made


@given(TRACES)
def test_a_trace_does_not_differ_from_itself(trace: Trace) -> None:
    diff = compare(trace, trace)
    assert not diff
    assert (diff.changes, diff.explained) == ((), ())


@given(TRACES, TRACES)
def test_swapped_sides_swap_what_was_added_and_what_was_removed(before: Trace, after: Trace) -> None:
    def alone(diff: Diff, kind: str, side: int) -> set[Place | None]:
        return {pair[side] for change in diff.changes if change.kind == kind for pair in change.covers}

    there, back = compare(before, after), compare(after, before)
    assert alone(there, "added", 1) == alone(back, "removed", 0)
    assert alone(there, "removed", 0) == alone(back, "added", 1)
    assert bool(there) == bool(back)


@given(TRACES, TRACES)
def test_swapped_sides_swap_how_many_changes_tell_it(before: Trace, after: Trace) -> None:
    """Steps that are told in one line are so whichever side comes first, whatever moved between them."""
    assert counted(compare(before, after)) == counted(compare(after, before), added="removed", removed="added")


def counted(diff: Diff, **other: str) -> Counter[tuple[str, int]]:
    """Of each kind of changes, by its name or an `other` one, how many tell so many steps."""
    return Counter((other.get(change.kind, change.kind), change.steps) for change in diff.changes)


@given(TRACES, TRACES)
def test_the_changes_applied_to_the_shapes_of_one_side_give_those_of_the_other(before: Trace, after: Trace) -> None:
    assert applied(compare(before, after), before, after) == [each.shape for each in records(after)]


@given(LISTS_OF_BLOCKS, LISTS_OF_BLOCKS)
def test_so_they_do_for_blocks_of_several_kinds(one: list[Node], other: list[Node]) -> None:
    before, after = listed(one), listed(other)
    assert applied(compare(before, after), before, after) == [each.shape for each in records(after)]


@given(LISTS_OF_BLOCKS, LISTS_OF_BLOCKS)
def test_blocks_that_are_counted_are_identical_and_as_many_as_is_said(one: list[Node], other: list[Node]) -> None:
    nodes, traces = (one, other), (listed(one), listed(other))
    for change in compare(*traces).changes:
        if "layers" not in change.fields or change.before is None or change.after is None:
            continue
        spoken_of = [nodes[side][block_at(item.call.path)] for side, item in enumerate((change.before, change.after))]
        numbers = tuple(nodes[side].count(spoken_of[side]) for side in (0, 1))
        assert change.fields["layers"] == numbers
        side = int(numbers[1] > numbers[0])
        there = [place[side] for place in change.covers]
        more = {block_at(traces[side].calls[place.at].path) for place in there if place is not None}
        assert len(more) == numbers[side] - numbers[1 - side] > 0
        assert {nodes[side][place] for place in more} == {spoken_of[side]}


def block_at(path: str) -> int:
    return int(path.split(".")[1])


@given(TRACES, TRACES)
def test_each_record_of_either_side_is_in_one_pair(before: Trace, after: Trace) -> None:
    found = list(pairs(before, after))
    for side, trace in enumerate((before, after)):
        there = [pair[side] for pair in found if pair[side] is not None]
        told = list(records_and_writes(trace))
        assert sorted(map(id, (each.call for each in there))) == sorted(id(each.call) for each in told)
        assert len(there) == len(told)


# --- one edit ---------------------------------------------------------------------------------------------------------


@st.composite
def numbered(draw: st.DrawFn, depth: int = 0) -> Node:
    """A function or a module that goes by a name of its own."""
    name = f"n{draw(st.integers(0, 10**9))}"
    if depth == 2 or draw(st.booleans()):
        return Node(draw(st.sampled_from(["add", "view"])), (2, 8), name)
    inside = draw(st.lists(numbered(depth + 1), min_size=1, max_size=4, unique_by=called))
    return Node(name, (2, 8), inside=tuple(inside))


def called(node: Node) -> str:
    return node.variable or node.name


LISTS = st.lists(numbered(), min_size=2, max_size=7, unique_by=called)


def steps(nodes: list[Node]) -> Iterator[int]:
    return (place for place, node in enumerate(nodes) if node.inside is None)


@given(LISTS, st.data())
def test_what_is_taken_out_is_one_change(nodes: list[Node], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(nodes) - 1))
    less = nodes[:place] + nodes[place + 1 :]
    assert [change.kind for change in compare(trace_of(*nodes), trace_of(*less)).changes] == ["removed"]
    assert [change.kind for change in compare(trace_of(*less), trace_of(*nodes)).changes] == ["added"]


@given(LISTS, st.data())
def test_a_neighbour_that_goes_to_the_other_side_has_moved(nodes: list[Node], data: st.DataObject) -> None:
    place = data.draw(st.integers(1, len(nodes) - 1))
    turned = [*nodes[: place - 1], nodes[place], nodes[place - 1], *nodes[place + 1 :]]
    assert [change.kind for change in compare(trace_of(*nodes), trace_of(*turned)).changes] == ["moved"]


@given(st.permutations("abcde"), st.permutations("abcde"))
def test_whatever_the_order_modules_are_known_by_their_names(before: list[str], after: list[str]) -> None:
    """They have moved, whatever they are assigned to, and are of other classes each."""

    def net(names: list[str]) -> Trace:
        return trace_of(*(Node(name, (2, 8), "x", (), cls=f"Layer{name}") for name in names))

    found = compare(net(before), net(after)).changes
    assert {change.kind for change in found} <= {"moved"}
    assert [(each.before.name, each.after.name) for each in found if each.before and each.after] == [
        (each.before.name, each.before.name) for each in found if each.before
    ]


@given(LISTS, st.data())
def test_another_shape_is_one_change_and_nothing_else(nodes: list[Node], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(nodes) - 1))
    node = nodes[place]
    other = Node(node.name, (2, 9), node.variable, node.inside)
    changed = [*nodes[:place], other, *nodes[place + 1 :]]
    found = compare(trace_of(*nodes), trace_of(*changed)).changes
    assert [(change.kind, change.fields) for change in found] == [("changed", {"shape": ((2, 8), (2, 9))})]


@pytest.mark.parametrize("name", ["gpt", "llama", "transformer", "encoder"])
@pytest.mark.parametrize("other", ["gpt", "gqa", "postln", "rope", "nn.Transformer", "nn.MultiheadAttention"])
def test_the_laws_hold_for_models(name: str, other: str, golden) -> None:
    before, after = golden(name), golden(other)
    assert bool(compare(before, after)) is (name != other)
    assert len([one for one, _ in pairs(before, after) if one is not None]) == len(list(records(before)))
    if not other.startswith("nn."):
        assert applied(compare(before, after), before, after) == [each.shape for each in records(after)]
