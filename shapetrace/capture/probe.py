"""Run a model again at other sizes, so that the axes of its tensors can be told.

It is a copy that runs, or one built anew: no buffer, cache, hook or random number of the model itself is another
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec
from torch import nn

from ..schema import Trace
from .given import Given
from .groups import Groups, guesses, splits
from .settings import MODEL_AXES, input_settings, model_settings
from .undisturbed import undisturbed

__all__ = ["Probes", "Source", "probe"]

Sizes = Mapping[str, int]
Pair = tuple[Sizes, Sizes]
"""Of the two runs."""

NOTHING: Pair = ({}, {})

Recording = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Trace]


class Source(msgspec.Struct, frozen=True):
    """How to come by the model again.

    given     what the model was given
    letters   that it can be built with at other sizes: its own axes, and those of its input if that is made with it
    build     gives it, and what it is to be given, with some of these letters at another size
    """

    given: Given
    letters: Sizes
    build: Callable[[Sizes], tuple[nn.Module, Given]]


class Probes(msgspec.Struct, frozen=True):
    """The model at other sizes.

    sizes    of the letters in the plain run; a small letter is an axis of the input of which more is not known yet
    runs     each a trace with sizes of its own; none if the model does not run at any others
    reason   why it does not
    """

    sizes: Sizes
    runs: tuple[Trace, ...] = ()
    reason: str = ""


def probe(
    source: Source,
    record: Recording,
    *,
    declared: Groups | None = None,
    told_apart: bool = False,
) -> Probes:
    """Runs of the model of `source` with as many axes as it lets change at other sizes.

    record       gives the trace of a forward
    declared     the groups of input dims, where they are known
    told_apart   whether to try if lengths that are equal are so by chance
    """
    return Prober(source, record, told_apart).probes(declared)


class Choice(msgspec.Struct, frozen=True):
    """What to change: groups of input dims, and letters of the source, each with its sizes in the two runs."""

    groups: Groups
    inputs: Pair
    own: Pair


class Prober:
    def __init__(self, source: Source, record: Recording, told_apart: bool) -> None:
        self.source = source
        self.record = record
        self.told_apart = told_apart
        self.held = source.given.held
        self.reason = ""

    def probes(self, declared: Groups | None) -> Probes:
        with undisturbed():
            for choice in self.choices(declared):
                runs = self.runs(choice)
                if runs:
                    return Probes(self.sizes(choice), runs)
        return Probes({}, reason=self.reason)

    def choices(self, declared: Groups | None) -> Iterator[Choice]:
        """All at once, as will do for most; else what can be changed is found piece by piece."""
        likely = [declared] if declared is not None else list(self.guesses())
        if not self.told_apart:
            first = next(iter(likely), {})
            yield Choice(
                first, next(input_settings(self.input_sizes(first))), next(settings(self.source.letters), NOTHING)
            )
        groups, inputs = self.found_groups(likely)
        own = self.found_letters()
        for choice in (Choice(groups, inputs, own), Choice(groups, inputs, NOTHING), Choice({}, NOTHING, own)):
            if choice.inputs[0] or choice.own[0]:
                yield choice

    def guesses(self) -> Iterator[Groups]:
        for groups in guesses(self.held):
            if self.told_apart:
                yield from splits(self.held, groups)
            yield groups

    def found_groups(self, likely: list[Groups]) -> tuple[Groups, Pair]:
        for groups in likely:
            for inputs in input_settings(self.input_sizes(groups)):
                if len(set(inputs[0].values())) < len(groups):  # two groups of one size might as well be one
                    continue
                if groups and self.works(Choice(groups, inputs, NOTHING)):
                    return groups, inputs
        return {}, NOTHING

    def found_letters(self) -> Pair:
        """The letters that can be changed one kind at a time."""
        found: tuple[dict[str, int], dict[str, int]] = ({}, {})
        letters = self.source.letters
        for kind in KINDS:
            part = {letter: size for letter, size in letters.items() if kind(letter)}
            for own in settings(part) if part else ():
                if self.works(Choice({}, NOTHING, own)):
                    found = {**found[0], **own[0]}, {**found[1], **own[1]}
                    break
        return found

    def input_sizes(self, groups: Groups) -> dict[str, int]:
        return {letter: self.held[number].shape[dim] for letter, ((number, dim), *_) in groups.items()}

    def sizes(self, choice: Choice) -> dict[str, int]:
        own = {letter: self.source.letters[letter] for letter in choice.own[0]}
        return with_head({**self.input_sizes(choice.groups), **own})

    def works(self, choice: Choice) -> bool:
        try:
            model, args, kwargs = self.built(choice, 0)
            model(*args, **kwargs)
        except Exception as error:
            self.fails(error)
            return False
        return True

    def runs(self, choice: Choice) -> tuple[Trace, ...]:
        try:
            return tuple(
                msgspec.structs.replace(
                    self.record(*self.built(choice, run)), sizes=with_head({**choice.inputs[run], **choice.own[run]})
                )
                for run in (0, 1)
            )
        except Exception as error:
            self.fails(error)
            return ()

    def fails(self, error: Exception) -> None:
        self.reason = f"{type(error).__name__}: {error}".partition("\n")[0]

    def built(self, choice: Choice, run: int) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
        model, given = self.source.build(choice.own[run])
        shapes = self.widened(given, choice.own[run].get("C"))
        for letter, dims in choice.groups.items():
            for number, dim in dims:
                shapes.setdefault(number, list(given.held[number].shape))[dim] = choice.inputs[run][letter]
        args, kwargs = given.at({number: tuple(shape) for number, shape in shapes.items()}, seed=run)
        return model, args, kwargs

    def widened(self, given: Given, width: int | None) -> dict[int, list[int]]:
        """The shapes of floats that were given with the width of the model last, with its new width."""
        shapes = {number: list(tensor.shape) for number, tensor in enumerate(given.held) if tensor.is_float}
        old = self.source.letters.get("C")
        wide = {number: shape for number, shape in shapes.items() if shape and shape[-1] == old and width is not None}
        return {number: [*shape[:-1], cast(int, width)] for number, shape in wide.items()}


def with_head(sizes: dict[str, int]) -> dict[str, int]:
    """D is C / H where nothing else is said."""
    if "D" not in sizes and {"C", "H"} <= sizes.keys() and sizes["C"] % sizes["H"] == 0:
        return {**sizes, "D": sizes["C"] // sizes["H"]}
    return sizes


def settings(letters: Sizes) -> Iterator[Pair]:
    """Other sizes for letters of both kinds, the input's and the model's own. Layers stay: their number is no axis."""
    outer = {letter: size for letter, size in letters.items() if is_outer(letter)}
    inner = {letter: size for letter, size in letters.items() if letter in MODEL_AXES}
    for own in model_settings(inner):
        for inputs in input_settings(outer):
            yield {**inputs[0], **own[0]}, {**inputs[1], **own[1]}


def is_outer(letter: str) -> bool:
    return letter not in MODEL_AXES and letter != "L"


KINDS: tuple[Callable[[str], bool], ...] = (is_outer, "CHDG".__contains__, "F".__contains__, "V".__contains__)
