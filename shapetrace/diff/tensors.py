"""The tensors of two calls that correspond, in pairs."""

from __future__ import annotations

from collections.abc import Iterator

from .items import Item, Side
from .keys import keyed
from .matching import Match
from .pairing import inner

__all__ = ["arguments", "both", "is_first", "others", "results"]

Keys = list[tuple[str | None, str | None]]


def both(match: Match) -> tuple[Item, Item]:
    assert match.before is not None
    assert match.after is not None
    return match.before, match.after


def is_first(item: Item) -> bool:
    """Whether it is the first that its call gives."""
    _, part, key = item.place
    return part == "call" or (part == "outputs" and key == next(iter(item.call.outputs), ""))


def arguments(one: Item, other: Item) -> Keys:
    """The keys of what two modules are given; a function is not said to be given anything."""
    ours, theirs = (item.call.inputs if item.call.kind == "module" else {} for item in (one, other))
    return keyed(ours, theirs)


def results(one: Item, other: Item, before: Side, after: Side) -> Keys:
    """The keys of what two calls give; those of tensors in other roles do not go together."""
    sides = (before, one.place.at), (after, other.place.at)
    if one.call.outputs.keys() == other.call.outputs.keys():
        keys = list(one.call.outputs)
        apart = {key for key in keys if are_apart(*(side.made_role(at, key) for side, at in sides))}
        return [(key, None if key in apart else key) for key in keys] + [(None, key) for key in keys if key in apart]
    return keyed(one.call.outputs, other.call.outputs, lambda at, key: sides[at][0].result_role(sides[at][1], key))


def are_apart(role: str, other: str) -> bool:
    return role != other and role != "" != other


def others(match: Match, before: Side, after: Side) -> Iterator[Match]:
    """All that a step has besides its tensor: what it is given, what is inside of it, its parameters, other results."""
    one, other = both(match)
    (a, what, _), (b, that, _) = one.place, other.place
    if what == that == "call" and one.call.kind == other.call.kind == "module":
        for key, there in arguments(one, other):
            yield Match(
                None if key is None else before.given(a, key, inner(one)),
                None if there is None else after.given(b, there, inner(other)),
            )
        todo = list(reversed(match.inside))
        while todo:
            child = todo.pop()
            yield child
            if child.before is not None and child.after is not None:
                yield from parameters(child.before, child.after, before, after)
                todo += reversed(child.inside)
        for key, there in results(one, other, before, after)[1:]:
            yield Match(
                None if key is None else before.given_out(a, key, inner(one)),
                None if there is None else after.given_out(b, there, inner(other)),
            )
        return
    if what == "call" and one.call.outputs:
        mine = (place for place in before.places(one) if place != before.main(one))
        yield from (Match(before.at(place, one.path), None) for place in mine)
    if that == "call" and other.call.outputs:
        mine = (place for place in after.places(other) if place != after.main(other))
        yield from (Match(None, after.at(place, other.path)) for place in mine)
    yield from parameters(one, other, before, after)


def parameters(one: Item, other: Item, before: Side, after: Side) -> Iterator[Match]:
    """The parameters and buffers that two functions take, told with the first of their results."""
    if "module" in (one.call.kind, other.call.kind) or not (is_first(one) and is_first(other)):
        return
    ours = {key: tensor for key, tensor in one.call.inputs.items() if tensor.name is not None}
    theirs = {key: tensor for key, tensor in other.call.inputs.items() if tensor.name is not None}
    for a, b in keyed(ours, theirs):
        yield Match(
            None if a is None else before.given(one.place.at, a, one.path),
            None if b is None else after.given(other.place.at, b, other.path),
        )
