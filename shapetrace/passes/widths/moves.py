"""Functions that change no element, or each by itself: its dims are where they were, moved, cut or merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .dims import UNSEEN, Dims
from .step import Row, Step


def broadcast(step: Step) -> None:
    """From the right, all that is given with what is made."""
    for made in step.made or [step.dims.of(tensor) for tensor in step.call.inputs.values()][:1]:
        for tensor in step.call.inputs.values():
            step.dims.broadcast(step.dims.of(tensor), made)


def choose(step: Step) -> None:
    """`where` of a condition alone says where it holds, which may be anywhere."""
    if len(step.call.inputs) + len(step.call.literals) > 1:
        broadcast(step)


def repeat(step: Step) -> None:
    """`x.repeat(2, 1)`: from the right, each dim is there some times over."""
    given, made = step.given("0", "input"), step.result
    if given is not None:
        step.dims.broadcast(given, made)
        for one, other in zip(reversed(given), reversed(made), strict=False):
            step.dims.repeat(other, one)


def interleave(step: Step) -> None:
    """`repeat_interleave` with a number: two after each other are one, in the last dim as rotary positions need it.
    With a tensor of numbers it is as long as they say."""
    given, made = step.given("0", "input"), step.result
    count, place = step.numbers("1", "repeats"), step.numbers("dim", "2")
    if given and len(given) == len(made) and step.given("1", "repeats") is not None:
        pairs = list(zip(given, made, strict=True))
        step.dims.joined(pairs[dim] for dim in range(len(pairs)) if place and dim != place[0] % len(pairs))
    elif given and len(given) == len(made):
        step.dims.broadcast(given, made)
        if count and place and place[0] in (-1, len(given) - 1):
            pieces = step.dims.new(count[0])
            step.dims.counted.add(pieces)
            step.dims.products.append((made[-1], (given[-1], pieces)))


def first(step: Step) -> None:
    """The first that is given, if what is made has its shape."""
    given = step.given("0", "input")
    for made in step.made:
        if given is not None and len(given) == len(made):
            step.dims.broadcast(given, made)


def reshape(step: Step) -> None:
    """The same elements in another shape."""
    given, made = step.given("0", "input"), step.result
    if given is None:
        return
    if [*map(step.dims.size, given)] == [*map(step.dims.size, made)]:
        step.dims.joined((given[place], made[place]) for place in alone(step.dims, given))
    else:
        step.dims.reshape(given, made)


def alone(dims: Dims, row: Row) -> Iterator[int]:
    """Places of the dims that have no number for a neighbour. What has its shape already and is laid out anew may at
    other sizes be cut elsewhere in a row of them: groups of heads are heads where each group has one."""
    is_number = [dims.axes[dim] == UNSEEN or isinstance(dims.axes[dim], int) for dim in row]
    for place in range(len(row)):
        if not any(is_number[max(place - 1, 0) : place] + is_number[place + 1 : place + 2]):
            yield place


def squeeze(step: Step) -> None:
    """Dims of size 1 come or go."""
    rows = [row for row in (step.given("0", "input"), step.result) if row is not None]
    wide = [[dim for dim in row if step.dims.sizes[dim] != 1] for row in rows]
    if len(wide) == 2 and len(wide[0]) == len(wide[1]):
        step.dims.broadcast(*wide)


def permute(step: Step) -> None:
    given, made = step.given("0", "input"), step.result
    order = step.numbers("1", "dims") if "2" not in step.call.literals else None
    if order is None:
        order = [step.number(str(place + 1), default=0) for place in range(len(made))]
    moved(step, given, order)


def moved(step: Step, given: Row | None, order: Sequence[int]) -> None:
    """Dim `order[i]` of what is given is dim i of what is made."""
    made = step.result
    if given is not None and len(given) == len(made) == len(order):
        step.dims.joined((given[place], dim) for place, dim in zip(order, made, strict=True) if abs(place) <= len(made))


def transpose(step: Step) -> None:
    given = step.given("0", "input")
    one, other = (step.numbers(*keys) for keys in (("1", "dim0", "axis0"), ("2", "dim1", "axis1")))
    if given is not None and one and other:
        order = list(range(len(given)))
        order[one[0]], order[other[0]] = order[other[0]], order[one[0]]
        moved(step, given, order)


def turned(step: Step) -> None:
    """The last two dims are exchanged."""
    given = step.given("0")
    if given is not None and len(given) > 1:
        order = list(range(len(given)))
        moved(step, given, [*order[:-2], order[-1], order[-2]])


def reverse(step: Step) -> None:
    given = step.given("0", "input")
    if given is not None:
        moved(step, given, list(range(len(given)))[::-1])


def movedim(step: Step) -> None:
    given = step.given("0", "input")
    source, target = step.numbers("1", "source"), step.numbers("2", "destination")
    if given is None or not source or not target or len(source) != len(target):
        return
    rank = len(given)
    places = {there % rank: here % rank for here, there in zip(source, target, strict=True)}
    rest = iter([dim for dim in range(rank) if dim not in places.values()])
    moved(step, given, [places[dim] if dim in places else next(rest) for dim in range(rank)])


def complex_of(step: Step) -> None:
    """view_as_complex and view_as_real: a last dim of two is there in the one, and not in the other."""
    given, made = step.given("0", "input"), step.result
    if given and made:
        longer = max(given, made, key=len)
        step.dims.counted.add(longer[-1])
        step.dims.joined(zip(given, made, strict=False))


def alike(step: Step) -> None:
    """The first two that are given are of one shape."""
    one, other = step.given("0", "input", "x1"), step.given("1", "target", "x2")
    if one is not None and other is not None:
        step.dims.broadcast(one, other)


def recurrent(step: Step) -> None:
    """A sequence goes in and comes out, its batch and its length where they were; states are [L, B, C]."""
    given, made = step.given("0"), step.made
    if given is None or len(given) != 3 or not made or len(made[0]) != 3:
        return
    step.dims.joined(zip(given[:2], made[0][:2], strict=True))
    batch = given[0] if step.literal("8") is True else given[1]
    states = [step.given("1"), step.given("1[0]"), step.given("1[1]"), *made[1:]]
    step.dims.joined((state[1], batch) for state in states if state is not None and len(state) == 3)
