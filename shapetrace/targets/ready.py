"""A model that is ready to run: built from where a target is, with the options and inputs that were given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import BoundArguments, Signature
from typing import Any

import msgspec
import torch
from torch import nn

from ..capture.copied import weightless
from ..capture.weightless import Weightless, building, mode_of
from ..errors import TargetError
from .blame import blame
from .devices import moved
from .inputs import Size, Spec, declare, letters_of
from .options import argument, bind, options, parameters, signature_of, sized, sizes
from .place import AS_IT_IS, Place, Way
from .tensors import as_spec, example, first_line, inputs, replaced

__all__ = ["Ready", "load", "make"]

FORMS = "a model, (model, args) or (model, args, kwargs), where args is a tuple and kwargs a dict"

REFUSALS = (ValueError, OverflowError, MemoryError, RuntimeError)
"""What a registered builder raises for sizes that do not go together, and torch for sizes that are too large."""


class Ready(msgspec.Struct, frozen=True):
    """A model and what to call it with.

    letters   the axes that the options, their defaults and the specs size
    takes     the letters that its builder and the specs have; None for one that the builder left open
    written   name of an input -> the letters of its dims, as its spec has them
    again     makes another, with some of the letters in `takes` at another size
    """

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    letters: dict[str, int]
    takes: dict[str, int | None]
    written: dict[str, tuple[str | None, ...]]
    again: Callable[[Mapping[str, int]], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]

    @property
    def is_weightless(self) -> bool:
        return mode_of(self.model) is not None

    @property
    def advice(self) -> str:
        """What to do if its forward raises."""
        takes, _ = parameters(signature_of(self.model.forward))
        if self.args or self.kwargs or not takes:
            return ""
        return f"; it was given no input, {example(next(iter(takes.values())))} gives it one"

    @property
    def guessed(self) -> str:
        """The same, where its inputs were made for it: they are at fault, rather than the model."""
        given = [as_spec(name, value) for name, value in self.kwargs.items() if isinstance(value, torch.Tensor)]
        return "\n".join(
            [
                ", and it may be the inputs' fault, which were made for it:",
                *(f"  --input '{text}'" for text in given),
                "one that is given so is in the place of what is made",
            ]
        )


def load(place: Place, seed: int) -> tuple[Callable[..., Any], Signature]:
    """What is at a place, a builder, a class or a model, and what options it takes."""
    torch.manual_seed(seed)
    loaded = place.load()
    if not callable(loaded):
        raise TargetError(f"{place.target} is of type {described(loaded)}; it must be a model or return one")
    return loaded, taken(loaded)


def make(
    place: Place,
    loaded: Callable[..., Any],
    tokens: Sequence[str],
    specs: Sequence[Spec],
    *,
    seed: int,
    others: Collection[str],
    given: Collection[str] = (),
    way: Way = AS_IT_IS,
) -> Ready:
    """Build the model of what was loaded, with the options in `tokens`, and make the inputs that `specs` describe.

    `others` and `given` are names of options elsewhere: see `bind`.
    """
    specs = [lettered(spec, loaded, place) for spec in specs]
    spare = {size.letter for spec in specs for size in spec.sizes if size.letter is not None}
    bound, named = bind(place.target, taken(loaded), tokens, spare=spare, others=others, given=given)
    letters = {**sizes(bound), **named}
    if place.guesses:  # what an input says of a letter is stronger than what its builder has by itself
        own = declare(specs, named)
        bound.arguments |= {letter: size for letter, size in own.items() if letter in bound.signature.parameters}
        letters |= own
    letters |= declare(specs, letters)

    mode = Weightless() if way.weightless and not place.weightless else None

    def made(arguments: BoundArguments, letters: Mapping[str, int]) -> tuple[nn.Module, Any, Any]:
        torch.manual_seed(seed)
        with building(mode):
            whole = loaded if isinstance(loaded, nn.Module) else build(place, loaded, arguments)
        model, args, kwargs = parts(place.target, whole)
        if mode is not None and mode_of(model) is None:  # it was made before, or keeps to itself how
            model = weightless(model, mode)
        if not args and not kwargs:
            args, kwargs = inputs(model, specs, letters)
        elif specs and place.guesses:
            args, kwargs = replaced(model, args, kwargs, specs, letters)
        elif specs:
            raise TargetError(f"{place.target} makes its own inputs; --input is for what gives a model alone")
        return moved(model, tuple(args), dict(kwargs), way.device)

    names = sized(bound)
    takes = {letter: argument(bound, name) for name, letter in names.items()}

    def again(new: Mapping[str, int]) -> tuple[nn.Module, Any, Any]:
        own = {name: letter for name, letter in names.items() if argument(bound, name) in (None, takes.get(letter))}
        changed = {name: new[letter] for name, letter in own.items() if letter in new}
        return made(BoundArguments(bound.signature, {**bound.arguments, **changed}), {**letters, **new})

    model, args, kwargs = made(bound, letters)
    if PAPERS in names and PAPERS not in spare and "L" not in names.values() and has_stack(model, letters.get(PAPERS)):
        names[PAPERS] = "L"
        letters["L"] = takes["L"] = letters.pop(PAPERS)
        takes.pop(PAPERS)
    written = letters_of(specs, list(parameters(signature_of(model.forward))[0]))
    return Ready(model, args, kwargs, letters, {**takes, **letters}, written, again)


PAPERS = "N"
"""What the paper calls the number of layers."""


def has_stack(model: nn.Module, count: int | None) -> bool:
    """Whether so many modules of one kind are numbered side by side."""
    stacks = (list(each) for each in model.modules() if isinstance(each, nn.ModuleList | nn.Sequential))
    return any(len(stack) == count and len(set(map(type, stack))) == 1 for stack in stacks)


def lettered(spec: Spec, loaded: object, place: Place) -> Spec:
    """A spec of an input that a builder would make itself, whose sizes are then the letters that it has there."""
    known = getattr(loaded, "letters", None)
    if not place.guesses or known is None or spec.name is None:
        return spec
    letters = known(spec.name)
    if len(letters) != len(spec.sizes):
        return spec
    sizes = [
        size if size.letter is not None or letter is None or not size.number else Size(size.at, letter, size.number)
        for size, letter in zip(spec.sizes, letters, strict=True)
    ]
    return msgspec.structs.replace(spec, sizes=tuple(sizes))


def taken(loaded: Callable[..., object]) -> Signature:
    """What a target takes as options: a model nothing, and neither does a class that leaves `__init__` to nn.Module."""
    if isinstance(loaded, nn.Module) or inspect.getattr_static(loaded, "__init__", None) is nn.Module.__init__:
        return Signature()
    return signature_of(loaded)


def build(place: Place, builder: Callable[..., object], bound: BoundArguments) -> object:
    arguments = ", ".join(f"{key}={value!r}" for key, value in bound.arguments.items())
    call = f"{getattr(builder, '__name__', 'it')}({arguments})"
    takes, _ = parameters(bound.signature)
    with blame(f"{place.target}: {call} raised this and gave no model; it takes {options(takes)}"):
        try:
            return builder(*bound.args, **bound.kwargs)
        except REFUSALS as error:
            if not place.registered:
                raise
            raise TargetError(f"{place.target}: {first_line(error)}") from None


def parts(target: str, result: object) -> tuple[nn.Module, Sequence[Any], dict[str, Any]]:
    """What a builder returned as model, args and kwargs. `TargetError`, saying what it is, if it is something else."""
    match result:
        case nn.Module():
            return result, (), {}
        case (nn.Module() as model, tuple() | list() as args):
            return model, args, {}
        case (nn.Module() as model, tuple() | list() as args, dict() as kwargs) if all(
            type(key) is str for key in kwargs
        ):
            return model, args, kwargs
    raise TargetError(f"{target} returned {described(result)}; it must return {FORMS}")


def described(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(described, value))}{',' if len(value) == 1 else ''})"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__.removesuffix("Type")
