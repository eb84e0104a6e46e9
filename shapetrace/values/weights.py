"""The weights of one model put into another: by name, by what is made with them, then by the order of equal shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from itertools import dropwhile
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..diff.divergence import Copied
from ..schema import Trace
from .names import Order, Step, by_name, owner
from .parameters import Part, counterparts, turned

__all__ = ["Copying", "copy_weights"]


class Weight(NamedTuple):
    """A parameter or buffer, by its first name. `is_turned` says that it is kept as (inputs, outputs), unlike that of a
    Linear."""

    name: str
    tensor: Tensor
    is_turned: bool
    is_parameter: bool

    @property
    def upright(self) -> Tensor:
        return self.tensor.T if self.is_turned else self.tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.upright.shape)


class Copying(NamedTuple):
    """What was done, in words and weight by weight."""

    said: str
    copied: tuple[Copied, ...]


def copy_weights(before: nn.Module, after: nn.Module, first: Trace, second: Trace) -> Copying:
    """Puts the weights of `before` into `after`. `first` and `second` are their traces."""
    ours, theirs = weights_of(before, turned(first)), weights_of(after, turned(second))
    theirs = as_named(ours, theirs)
    orders = order(ours, first), order(theirs, second)
    plan = Plan(ours, theirs)
    for name in plan.theirs:
        plan.add(Part(name, name), "name")
    if plan.left():
        for part in counterparts(first, second):
            plan.add(part, "use")
    for part in in_order(plan.given_nothing(), plan.left()):
        plan.add(part, "order")
    plan.steps = by_name(plan.steps, orders)
    plan.run()
    return Copying(plan.said(), tuple(Copied(*step[:3], step.by, step.against) for step in plan.steps))


def as_named(ours: dict[str, Weight], theirs: dict[str, Weight]) -> dict[str, Weight]:
    """`theirs`, where what has one name and one shape on both sides is kept in the same way, whoever uses it otherwise.

    Unless others of one name are turned against each other: a port that keeps all otherwise has square ones, too.
    """
    both = [(theirs[name], one) for name, one in ours.items() if name in theirs]
    unlike = [(other, one) for other, one in both if other.is_turned != one.is_turned]
    if any(other.tensor.shape != one.tensor.shape for other, one in unlike):
        return theirs
    turn = {other.name: one.is_turned for other, one in unlike}
    return {name: each._replace(is_turned=turn.get(each.name, each.is_turned)) for name, each in theirs.items()}


class Plan:
    """Which weight of before goes to which of after.

    given    of each weight of before the rows that go somewhere, and the calls for whose sake
    filled   of each weight of after the rows that something goes to
    """

    def __init__(self, ours: dict[str, Weight], theirs: dict[str, Weight]) -> None:
        self.ours = ours
        self.theirs = {name: weight for name, weight in theirs.items() if name == weight.name}
        self.given: dict[str, dict[int | None, set[int]]] = {name: {} for name in ours}
        self.filled: dict[str, set[int]] = {name: set() for name in theirs}
        self.steps: list[Step] = []

    def add(self, part: Part, by: str) -> None:
        """If the shapes allow it, and nothing went there before. A weight goes to several if they have one name each,
        or if it is used in several calls: one that is tied on this side only."""
        one, other = self.ours.get(part.before), self.theirs.get(part.after)
        if one is None or other is None:
            return
        left, right = (set(rows or range(size(each))) for rows, each in zip(part.rows, (one, other), strict=True))
        form = stripped(one.shape)[1:]
        if (
            len(left) != len(right)
            or form != stripped(other.shape)[1:]
            or not self.filled[other.name].isdisjoint(right)
        ):
            return
        given = self.given[one.name]
        uses = (part.use,) if by == "use" and part.use is not None else tuple(given)
        if by != "name" and not all(left.isdisjoint(given.get(use, ())) for use in uses):
            return
        given.setdefault(part.use, set()).update(left)
        self.filled[other.name].update(right)
        self.steps.append(Step(part.before, part.after, part.rows, (len(left), *form), part.called, by))

    def run(self) -> None:
        with torch.no_grad():
            for step in self.steps:
                one, other = self.ours[step.before], self.theirs[step.after]
                left, right = (
                    list(rows or range(size(each))) for rows, each in zip(step.rows, (one, other), strict=True)
                )
                whole = other.upright.view(stripped(other.shape))
                whole[right] = one.upright.reshape(stripped(one.shape))[left].to(whole)

    def left(self) -> list[Weight]:
        """The weights of after to some of which nothing goes."""
        return [weight for name, weight in self.theirs.items() if len(self.filled[name]) < size(weight)]

    def given_nothing(self) -> list[Weight]:
        """The weights of before that go nowhere."""
        return [weight for name, weight in self.ours.items() if name == weight.name and not self.given[name]]

    def said(self) -> str:
        left = [weight.name for weight in self.left()]
        last = {step.after: step for step in self.steps if step.after not in left}
        ways = [(how, [step for step in last.values() if is_so(step)]) for how, is_so in WAYS]
        parts = [f"{'all' if len(done) == len(last) else len(done)} {how}" for how, done in ways if done]
        free = [weight.name for weight in self.given_nothing() if weight.is_parameter]
        parts += [
            f"{len(names)} of {word}: {few(names)}" for word, names in ((NO_LIKE, left), (NOWHERE, free)) if names
        ]
        return ", ".join((f"{len(last)} copied", *parts))


WAYS: tuple[tuple[str, Callable[[Step], bool]], ...] = (
    ("by what they are called", lambda step: step.by == "name" and step.against != ""),
    ("by what is made with them", lambda step: step.by == "use"),
    ("by the order of equal shapes", lambda step: step.by == "order"),
)

NO_LIKE, NOWHERE = "after have no like", "before went nowhere"


def few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def order(weights: dict[str, Weight], trace: Trace) -> Order:
    used: dict[str, int] = {}
    for at, call in enumerate(trace.calls):
        for tensor in call.inputs.values():
            used.setdefault(owner(tensor.name or ""), at)
    names = list(dict.fromkeys(owner(name) for name in weights))
    return Order({name: at for at, name in enumerate(names)}, {name: used.get(name, NEVER) for name in names})


NEVER = 1 << 62


def in_order(free: list[Weight], left: list[Weight]) -> Iterator[Part]:
    """What is left by the order of equal shapes: if there are as many of one on both sides, or joined or cut."""
    for shape in dict.fromkeys(weight.shape for weight in left):
        both = [[weight for weight in side if weight.shape == shape] for side in (free, left)]
        if len(both[0]) == len(both[1]):
            yield from (Part(one.name, other.name) for one, other in zip(*both, strict=True))
            free, left = ([weight for weight in side if weight.shape != shape] for side in (free, left))
    for few, many in joined(free, left):
        yield from cut(few, many)


def cut(ours: list[Weight], theirs: list[Weight]) -> Iterator[Part]:
    """Both put together the same: which rows of one are which of another."""
    start = 0
    for one in ours:
        other_start = 0
        for other in theirs:
            first, last = max(start, other_start), min(start + size(one), other_start + size(other))
            if first < last:
                rows = tuple(range(first - start, last - start)), tuple(range(first - other_start, last - other_start))
                yield Part(one.name, other.name, rows)
            other_start += size(other)
        start += size(one)


def size(weight: Weight) -> int:
    """How many rows it has."""
    return stripped(weight.shape)[0]


def stripped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the dims of size 1 that it begins with."""
    return tuple(dropwhile(lambda size: size == 1, shape)) or (1,)


def joined(ours: list[Weight], theirs: list[Weight]) -> Iterator[tuple[list[Weight], list[Weight]]]:
    """Where one side has in one weight what the other has in several, as q, k and v: these in their order, of all that
    are alike but for the first size."""
    ours, theirs = ([each for each in side if stripped(each.shape) == each.shape] for side in (ours, theirs))
    for tail in dict.fromkeys(other.shape[1:] for other in theirs):
        few, many = ([each for each in side if each.shape[1:] == tail] for side in (ours, theirs))
        found = list(runs(few, many))
        if found and sum(map(len, (run for _, run in found))) == len(many):
            yield from found


def runs(ours: list[Weight], theirs: list[Weight]) -> Iterator[tuple[list[Weight], list[Weight]]]:
    """Both lists cut, from the front, where they have come equally far; nothing once one side cannot be joined."""
    first: list[Weight] = []
    other: list[Weight] = []
    ours, theirs = ours[:], theirs[:]
    while (ours or first) and (theirs or other):
        size, its = (sum(each.shape[0] for each in run if each.shape) for run in (first, other))
        if size == its and first and other:
            yield first, other
            first, other = [], []
        elif size <= its and ours:
            first.append(ours.pop(0))
        elif theirs:
            other.append(theirs.pop(0))
        else:
            return
    if first and other and sum(each.shape[0] for each in first) == sum(each.shape[0] for each in other):
        yield first, other


def weights_of(model: nn.Module, turned: Set[str]) -> dict[str, Weight]:
    """Each parameter, and the buffers that a checkpoint has, in the order of the modules; what is tied by each of its
    names."""
    saved = model.state_dict(keep_vars=True)
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in saved}
    parameters = dict(model.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    found: dict[str, Weight] = {}
    for name, tensor in {**parameters, **buffers}.items():
        own = first.setdefault(id(tensor), name)
        found[name] = Weight(own, tensor, own in turned, name in parameters)
    return found
