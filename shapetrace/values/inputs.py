"""The inputs of the first model, as the second takes them."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import InputError
from .uses import Use

__all__ = ["Inputs", "fitted", "named", "refilled"]

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Inputs(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def fitted(before: nn.Module, after: nn.Module, given: Inputs) -> Inputs:
    """What goes by position stays there; so does a name that the second model has not, if its place is free.

    `InputError` if it is not, or if a mask would go where none is meant.
    """
    ours, theirs = positions(before), positions(after)
    takes = inspect.signature(after.forward).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values())
    kwargs: dict[str, Any] = {name: value for name, value in given.kwargs.items() if name in takes}
    for name, value in given.kwargs.items():
        if name in takes:
            continue
        at = ours.index(name) if name in ours else len(theirs)
        if len(given.args) <= at < len(theirs) and theirs[at] not in kwargs and are_alike(name, theirs[at]):
            kwargs[theirs[at]] = value
        elif takes_any:
            kwargs[name] = value
        else:
            raise InputError(
                f"{type(after).__name__} has no input {name!r}, nor one in its place; it takes {', '.join(takes)}"
            )
    return Inputs(given.args, kwargs)


def named(model: nn.Module, inputs: Inputs) -> dict[str, Any]:
    """Those that have a name, by it."""
    return {**dict(zip(positions(model), inputs.args, strict=False)), **inputs.kwargs}


def refilled(
    before: nn.Module,
    after: nn.Module,
    given: Inputs,
    own: Inputs,
    uses: tuple[Mapping[str, Use], Mapping[str, Use]] = ({}, {}),
) -> tuple[Inputs, str]:
    """The second model's own inputs, each replaced by that of the first that is the same; and what was replaced, and
    what was not, in words.

    The same is what has the same name, or else what both models use alike, whose names end alike, or what is the next
    of its form of as many. Integers, floats and booleans, masks and others, are never the same.
    """
    ours, theirs = named(before, given), named(after, own)
    found = Pairs(ours, theirs, uses).found()
    names = positions(after)

    def value_of(name: str, value: Any) -> Any:
        return as_kept(ours[found[name]], value) if name in found else value

    args = tuple(map(value_of, names, own.args)) + tuple(own.args[len(names) :])
    kwargs = {name: value_of(name, value) for name, value in own.kwargs.items()}
    return Inputs(args, kwargs), said(found, ours, theirs)


class Pairs:
    """Finds which input of the first model is which of the second.

    `uses` are of both sides, by name: what is not in them is known by its name and form alone.
    """

    def __init__(
        self, ours: Mapping[str, Any], theirs: Mapping[str, Any], uses: tuple[Mapping[str, Use], Mapping[str, Use]]
    ) -> None:
        self.ours, self.theirs = ours, theirs
        self.uses = [
            {name: known.get(name, Use()) for name in side} for side, known in zip((ours, theirs), uses, strict=True)
        ]
        self.pairs: dict[str, str] = {}

    def found(self) -> dict[str, str]:
        """Name in the second -> name in the first."""
        self.pair(lambda a, b: a == b)
        self.pair(lambda a, b: self.roles(a, b)[0] and self.uses[0][a] == self.uses[1][b])
        self.pair(lambda a, b: self.roles(a, b)[0] & self.roles(a, b)[1])
        self.pair(lambda a, b: self.may_be(a, b) and (a.endswith(b) or b.endswith(a)))
        for kind, names in self.kinds(0).items():
            others = self.kinds(1).get(kind, [])
            if len(names) == len(others):
                self.pairs.update(zip(others, names, strict=True))
        return self.pairs

    def pair(self, alike: Callable[[str, str], object]) -> None:
        """Those that are alike, of one kind of numbers, and like no other; one tensor may be given under two names."""
        free, others = self.free()
        fit = [(a, b) for a in free for b in others if alike(a, b) and numbers(self.ours[a]) == numbers(self.theirs[b])]
        left = Counter(a for a, _ in fit)
        values = {b: {id(self.ours[a]) for a, other in fit if other == b} for _, b in fit}
        for a, b in fit:
            same = [name for name in free if self.ours[name] is self.ours[a] and name not in self.pairs.values()]
            if b not in self.pairs and len(values[b]) == 1 and left[a] <= max(1, self.count(a)) and same:
                self.pairs[b] = a if a in same else same[0]

    def count(self, name: str) -> int:
        """Under how many names the first model is given what it has under this one."""
        return sum(value is self.ours[name] for value in self.ours.values())

    def free(self) -> tuple[list[str], list[str]]:
        taken = set(self.pairs.values())
        return [name for name in self.ours if name not in taken], [b for b in self.theirs if b not in self.pairs]

    def roles(self, a: str, b: str) -> tuple[frozenset[str], frozenset[str]]:
        return self.uses[0][a].roles, self.uses[1][b].roles

    def may_be(self, a: str, b: str) -> bool:
        """Whether nothing is known that tells them apart."""
        one, other = self.roles(a, b)
        return are_alike(a, b) and (not one or not other)

    def kinds(self, side: int) -> dict[object, list[str]]:
        """The tensors that are left, by their form and use."""
        values, found = (self.ours, self.theirs)[side], dict[object, list[str]]()
        for name in self.free()[side]:
            value = values[name]
            if isinstance(value, Tensor):
                kind = numbers(value), value.shape, self.uses[side][name].roles, is_mask(name)
                found.setdefault(kind, []).append(name)
        return found


def numbers(value: Any) -> str:
    """The kind of numbers in a tensor, of any width; what else has no kind."""
    if not isinstance(value, Tensor):
        return ""
    is_float = value.is_floating_point() or value.is_complex()
    return "float" if is_float else "bool" if value.dtype == torch.bool else "int"


def are_alike(name: str, other: str) -> bool:
    return is_mask(name) == is_mask(other)


def is_mask(name: str) -> bool:
    return "mask" in name.lower()


def as_kept(value: Any, own: Any) -> Any:
    """A tensor of floats in the dtype, and any tensor on the device, in which the second model takes its own."""
    if not isinstance(value, Tensor) or not isinstance(own, Tensor):
        return value
    are_floats = value.is_floating_point() and own.is_floating_point()
    return value.to(own.device, own.dtype) if are_floats else value.to(own.device)


def said(found: Mapping[str, str], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """ "input_ids as ids; after's own targets; before's attention_mask left out"."""
    same = ", ".join(name if name == other else f"{other} as {name}" for name, other in found.items())
    kept = ", ".join(name for name in theirs if name not in found)
    taken = [ours[name] for name in found.values()]
    left = ", ".join(
        name
        for name, value in ours.items()
        if isinstance(value, Tensor) and name not in found.values() and not any(value is other for other in taken)
    )
    parts = same, kept and f"after's own {kept}", left and f"before's {left} left out"
    return "; ".join(filter(None, parts)) or "none"


def positions(model: nn.Module) -> list[str]:
    """The names of what the forward of a model can be given by position."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in BY_POSITION]
