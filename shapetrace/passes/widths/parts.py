"""Functions that take tensors apart, put them together, or make less of them."""

from __future__ import annotations

from ..roles.functions import short_name
from .indices import Indexed, indexed
from .moves import broadcast
from .step import Step


def join(step: Step) -> None:
    """cat: one dim is the sum of the same dim of each."""
    rows, made = step.many(), step.result
    place = step.number("1", "dim", "axis", default=0)
    rows = [row for row in rows if len(row) == len(made)]
    if not rows or not -len(made) <= place < len(made):
        return
    place %= len(made)
    for row in rows:
        step.dims.joined(pair for other, pair in enumerate(zip(row, made, strict=True)) if other != place)
    step.dims.parts(made[place], [row[place] for row in rows], equal=False)


def stack(step: Step) -> None:
    rows, made = step.many(), step.result
    if made:
        place = step.number("1", "dim", default=0) % len(made)
        step.dims.counted.add(made[place])
        for row in rows:
            step.dims.broadcast(row, [*made[:place], *made[place + 1 :]])


def split(step: Step) -> None:
    given = step.given("0", "input")
    place = step.number("dim", "2", default=0)
    if not given or not -len(given) <= place < len(given):
        return
    place %= len(given)
    parts = [made for made in step.made if len(made) == len(given)]
    for made in parts:
        step.dims.joined(pair for other, pair in enumerate(zip(given, made, strict=True)) if other != place)
    equal = type(step.literal("1", "split_size_or_sections", "split_size", "chunks", "sections")) is int
    if parts:
        step.dims.parts(given[place], [made[place] for made in parts], equal=equal)


def unbind(step: Step) -> None:
    given = step.given("0", "input")
    if given:
        place = step.number("dim", "1", default=0) % len(given)
        step.dims.counted.add(given[place])
        for made in step.made:
            step.dims.broadcast([*given[:place], *given[place + 1 :]], made)


def select(step: Step) -> None:
    given, made = step.given("0", "input"), step.result
    if given:
        place = step.number("1", "dim", default=0) % len(given)
        step.dims.counted.add(given[place])
        step.dims.broadcast([*given[:place], *given[place + 1 :]], made)


def all_but_one(step: Step) -> None:
    """The dim at "1" is another afterwards."""
    given = step.given("0", "input")
    place = step.numbers("1", "dim")
    for made in step.made:
        if given and place and len(made) == len(given):
            gone = place[0] % len(given)
            step.dims.joined(pair for other, pair in enumerate(zip(given, made, strict=True)) if other != gone)


def index_select(step: Step) -> None:
    """The dim at "1" is as long as the index afterwards."""
    all_but_one(step)
    place, index, made = step.numbers("1", "dim"), step.given("2", "index"), step.result
    if place and index and place[0] < len(made):
        step.dims.join(index[0], made[place[0]])


def gather(step: Step) -> None:
    index = step.given("2", "index", "1", "indices")
    if index is not None and len(index) == len(step.result):
        step.dims.broadcast(index, step.result)


def getitem(step: Step) -> None:
    found = indexed_by(step)
    if found is not None:
        step.dims.counted.update(found.picked)
        pairs = zip(found.left, step.result, strict=False)
        step.dims.joined((dim, made) for dim, made in pairs if dim is not None)
        for place, (whole, border, is_end) in found.sliced.items():
            if place < len(step.result):
                step.dims.slices.setdefault((whole, border), []).append((step.result[place], is_end))


def setitem(step: Step) -> None:
    found, value = indexed_by(step), step.given("2")
    if found is not None and value is not None:
        pairs = zip(reversed(found.left), reversed(value), strict=False)
        step.dims.joined((dim, other) for dim, other in pairs if dim is not None)


def indexed_by(step: Step) -> Indexed | None:
    given = step.given("0")
    index = {
        tensor.number: step.dims.of(tensor)
        for key, tensor in step.call.inputs.items()
        if key.startswith("1") and tensor.number is not None
    }
    found = None if given is None else indexed(step.call, given, index)
    step.dims.joined(found.equal if found is not None else ())
    return found


def reduce(step: Step) -> None:
    """Some dims go, or become 1."""
    given = step.given("0", "input")
    gone = step.numbers("dim", "axis", "2" if short_name(step.call) in LATE else "1")
    if not given or gone is None:
        return
    places = {place % len(given) for place in gone}
    left = [dim for place, dim in enumerate(given) if place not in places]
    for made in step.made:
        whole = len(made) == len(given)
        kept = [dim for place, dim in enumerate(made) if place not in places] if whole else made
        if len(kept) == len(left):
            step.dims.broadcast(left, kept)


LATE = frozenset({"norm"})
"""Functions that are given something else before the dim."""


def reduce_or_broadcast(step: Step) -> None:
    """max and min: of one tensor, or of two."""
    if "1" in step.call.inputs or "other" in step.call.inputs:
        broadcast(step)
    else:
        reduce(step)


def of_classes(step: Step) -> None:
    """A loss of scores [N, classes, …] by labels [N, …]."""
    scores, labels = step.given("0", "input"), step.given("1", "target")
    if scores is not None and labels is not None and len(scores) == len(labels) + 1 > 1:
        step.dims.joined(zip([scores[0], *scores[2:]], labels, strict=True))
