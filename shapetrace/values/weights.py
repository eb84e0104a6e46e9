"""The weights of one model put into another: by name, by what is made with them, then by the order of equal shapes."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import dropwhile
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..schema import Trace
from .parameters import Part, counterparts, turned

__all__ = ["copy_weights"]


class Weight(NamedTuple):
    """A parameter or buffer. `is_turned` says that it is kept as (inputs, outputs), unlike that of a Linear."""

    name: str
    tensor: Tensor
    is_turned: bool

    @property
    def upright(self) -> Tensor:
        return self.tensor.T if self.is_turned else self.tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.upright.shape)


def copy_weights(before: nn.Module, after: nn.Module, first: Trace, second: Trace) -> str:
    """Puts the weights of `before` into `after`; what was done, in words. `first` and `second` are their traces."""
    copies = Copies(weights_of(before, turned(first)), weights_of(after, turned(second)))
    with torch.no_grad():
        for name in copies.theirs:
            copies.copy(Part(name, name))
        named = len(copies.done())
        if named < len(copies.theirs):
            for part in counterparts(first, second):
                copies.copy(part)
        used = len(copies.done())
        copies.in_order()
    return copies.said(named, used)


class Copies:
    """Weights of before on their way into those of after.

    given, filled   of the weights of either side the rows that are copied
    """

    def __init__(self, ours: dict[str, Weight], theirs: dict[str, Weight]) -> None:
        self.ours, self.theirs = ours, theirs
        self.given: dict[str, set[int]] = {name: set() for name in ours}
        self.filled: dict[str, set[int]] = {name: set() for name in theirs}

    def copy(self, part: Part) -> None:
        """If the shapes allow it and nothing of both was copied before."""
        one, other = self.ours.get(part.before), self.theirs.get(part.after)
        if one is None or other is None:
            return
        left, right = (rows or range(size(each)) for rows, each in zip(part.rows, (one, other), strict=True))
        if len(left) != len(right) or stripped(one.shape)[1:] != stripped(other.shape)[1:]:
            return
        if self.given[one.name].isdisjoint(left) and self.filled[other.name].isdisjoint(right):
            self.given[one.name].update(left)
            self.filled[other.name].update(right)
            whole = other.upright.view(stripped(other.shape))
            whole[list(right)] = one.upright.reshape(stripped(one.shape))[list(left)].to(whole)

    def in_order(self) -> None:
        """What is left by the order of equal shapes: if there are as many of one on both sides, or joined or cut."""
        free = [weight for name, weight in self.ours.items() if not self.given[name]]
        left = [weight for name, weight in self.theirs.items() if not self.filled[name]]
        for shape in dict.fromkeys(weight.shape for weight in left):
            both = [[weight for weight in side if weight.shape == shape] for side in (free, left)]
            if len(both[0]) == len(both[1]):
                for one, other in zip(*both, strict=True):
                    self.copy(Part(one.name, other.name))
        free = [weight for weight in free if not self.given[weight.name]]
        for few, many in joined(free, [weight for weight in left if not self.filled[weight.name]]):
            together = torch.cat([weight.upright for weight in few])
            sizes = [len(weight.upright) for weight in many]
            for weight, piece in zip(many, torch.split(together, sizes), strict=True):
                weight.upright.copy_(piece)
                self.filled[weight.name].update(range(size(weight)))

    def done(self) -> list[str]:
        """The weights of after of which all is copied."""
        return [name for name, weight in self.theirs.items() if len(self.filled[name]) == size(weight)]

    def said(self, named: int, used: int) -> str:
        count = len(self.done())
        ways = (used - named, "by what is made with them"), (count - used, "by the order of equal shapes")
        parts = [f"{'all' if number == count else number} {how}" for number, how in ways if number]
        left = [name for name, weight in self.theirs.items() if len(self.filled[name]) < size(weight)]
        if left:
            names = ", ".join(left[:3]) + (", …" if len(left) > 3 else "")
            parts.append(f"{len(left)} of after have no like: {names}")
        return ", ".join((f"{count} copied", *parts))


def size(weight: Weight) -> int:
    """How many rows it has."""
    return stripped(weight.shape)[0]


def stripped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the dims of size 1 that it begins with."""
    return tuple(dropwhile(lambda size: size == 1, shape)) or (1,)


def joined(ours: list[Weight], theirs: list[Weight]) -> Iterator[tuple[list[Weight], list[Weight]]]:
    """Where one side has in one weight what the other has in several, as q, k and v: these in their order, of all that
    are alike but for the first size."""
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
    """Each parameter once, and the buffers that a checkpoint has, in the order of the modules."""
    saved = model.state_dict(keep_vars=True)
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in saved}
    found = {**dict(model.named_parameters()), **buffers}
    return {name: Weight(name, tensor, name in turned) for name, tensor in found.items()}
