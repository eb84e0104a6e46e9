"""Run a model again at other sizes, so that the axes of its tensors can be told.

It is a copy that runs, or one built anew: no buffer, cache, hook or random number of the model itself is another
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import msgspec
from torch import nn

from ..letters import is_of_input, is_unknown
from ..passes.align import place
from ..passes.bonds import UNBOUND, Bonds
from ..passes.depth import Layers, stretched
from ..passes.meeting import Meeting
from ..schema import Trace
from .choices import Choice, Sizes, all_sizes, merged, settings, sizes_of, table_of, with_head
from .drawn import FewDrawn
from .given import Given
from .groups import Groups, divided, guesses, has_cache, next_letter, splits, ties
from .kept import left
from .misfits import NoMisfits
from .recorder import said
from .settings import NOTHING, Settings, Table, are_apart, input_settings
from .undisturbed import undisturbed

__all__ = ["Probes", "Source", "probe"]

Recording = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Trace]

FAILURES = (Exception, SystemExit)
"""What a model may raise at other sizes; a script that ends when it is not content, too."""


class Source(msgspec.Struct, frozen=True):
    """How to come by the model again.

    given     what the model was given
    letters   that it can be built with at other sizes: its own axes, and those of its input if that is made with it
    build     gives it, and what it is to be given, with some of these letters at another size
    within    what it is to be run in
    """

    given: Given
    letters: Sizes
    build: Callable[[Sizes], tuple[nn.Module, Given]]
    within: AbstractContextManager[object] = nullcontext()


class Probes(msgspec.Struct, frozen=True):
    """The model at other sizes.

    sizes     of the letters in the plain run, and of axes of the input that have none yet
    runs      each a trace with sizes of its own; none if the model does not run at any others
    more      gives more runs, with other values, that confirm what the others tell: one at other sizes, or
              so many, some of them at sizes that there were; none if the model does not run there
    reason    what the model raised there; empty if there was nothing to try
    """

    sizes: Sizes
    runs: tuple[Trace, ...] = ()
    more: Callable[[int], tuple[Trace, ...]] = lambda _: ()
    reason: str = ""


def probe(
    source: Source,
    record: Recording,
    *,
    meeting: Set[Meeting] = frozenset(),
    bonds: Bonds = UNBOUND,
    failed: Trace | None = None,
    shallow: tuple[Trace, Layers] | None = None,
) -> Probes:
    """Runs of the model of `source` with as many axes as it lets change at other sizes.

    record       gives the trace of a forward
    meeting      arguments that meet: it is tried if lengths of theirs that are equal are so by chance
    bonds        what the plain run says of the dims of these arguments: none of them is cut
    failed       the plain run, if its forward raised: a run that raises, too, will do if it made all these calls
    shallow      the plain trace and its layers, of which only the first are to run
    """
    return Prober(source, record, meeting, bonds, failed, shallow).probes()


class Prober:
    def __init__(
        self,
        source: Source,
        record: Recording,
        meeting: Set[Meeting],
        bonds: Bonds,
        failed: Trace | None,
        shallow: tuple[Trace, Layers] | None,
    ) -> None:
        self.source = source
        self.record = record
        self.meeting = meeting
        self.failed = failed
        self.shallow = shallow if "L" in source.letters else None
        self.held = source.given.held
        self.ties = ties(self.held, bonds)
        self.made: dict[str, Trace] = {}
        self.reason = ""

    def probes(self) -> Probes:
        with undisturbed():
            for choice in self.choices():
                runs = self.runs(choice, 0, 1)
                if runs:
                    return Probes(self.sizes(choice), runs, partial(self.more, choice))
        return Probes({}, reason=self.reason)

    def more(self, choice: Choice, count: int) -> tuple[Trace, ...]:
        """With the values that were given, if only sizes are to be confirmed and the model does not run with others:
        some ids stand for the pieces of an image, and there are as many as it has."""
        with undisturbed():
            found = self.runs(choice, *range(2, 2 + count))
            return found if found or count > 1 else self.runs(choice, 2, redrawn=False)

    def choices(self) -> Iterator[Choice]:
        """All at once, as will do for most; else what can be changed is found piece by piece."""
        is_open = not any(
            map(is_of_input, self.source.letters)
        )  # else the source makes the input, and has letters for it
        likely = list(guesses(self.held, self.ties)) if is_open else []
        if not is_open or not self.is_doubtful(likely):
            groups = divided(self.held, likely[0], self.ties) if likely else {}
            every = list(settings(self.source.letters))
            yield from self.first_apart(groups, input_settings(self.input_sizes(groups), self.table(every[0])), every)
        groups, inputs = self.apart(*self.found_groups(likely))
        own = self.found_letters()
        yield from self.first_apart(groups, [inputs], [own])
        yield from self.first_apart(groups, [inputs], [NOTHING])
        yield from self.first_apart({}, [NOTHING], [own])

    def first_apart(self, groups: Groups, inputs: Iterable[Settings], own: Sequence[Settings]) -> Iterator[Choice]:
        """The first choice that changes something, and in which no letter is confused with another."""
        for choice in (Choice(groups, one, other) for one in inputs for other in own):
            if (choice.inputs[0] or choice.own[0]) and are_apart(self.sizes(choice), all_sizes(choice)):
                yield choice
                return

    def is_doubtful(self, likely: list[Groups]) -> bool:
        """Whether lengths in the first guess may be equal by chance, and nothing says if they are."""
        first = divided(self.held, likely[0], self.ties) if likely else {}
        return any(True for letter in first for _ in splits(self.held, first, letter, self.meeting, self.ties))

    def found_groups(self, likely: list[Groups]) -> tuple[Groups, Settings]:
        """Of the groups that can be changed all at once the first; beside a cache, also what can be changed as well.

        Of its tensors those dims can be that are no width.
        """
        every = (groups for each in likely for groups in self.with_divided(each))
        found = next(((groups, inputs) for groups in every if (inputs := self.working(groups))), ({}, NOTHING))
        if not has_cache(self.held) or found[0] in likely[:1]:
            return found
        for letter, dims in (each for groups in likely[:MOST_IN_PARTS] for each in groups.items()):
            groups = found[0]
            if not any(dim in its for its in groups.values() for dim in dims):
                more = {**groups, next_letter(groups) if is_unknown(letter) else letter: dims}
                found = (more, inputs) if (inputs := self.working(more)) else found
        return found

    def with_divided(self, groups: Groups) -> Iterator[Groups]:
        fine = divided(self.held, groups, self.ties)
        yield fine
        if fine != groups:
            yield groups

    def apart(self, groups: Groups, inputs: Settings) -> tuple[Groups, Settings]:
        """The groups, each taken apart as far as the model runs so: equal lengths may be equal by chance."""
        letters = list(groups)
        for letter in letters:
            for finer in splits(self.held, groups, letter, self.meeting, self.ties):
                if more := self.working(finer):
                    letters += [letter, next_letter(groups)]
                    groups, inputs = finer, more
                    break
        return groups, inputs

    def working(self, groups: Groups) -> Settings | None:
        """Sizes for the groups that the model runs with."""
        own = next(settings(self.source.letters))
        every = input_settings(self.input_sizes(groups), self.table(own)) if groups else ()
        return next((inputs for inputs in every if self.works(Choice(groups, inputs, NOTHING))), None)

    def found_letters(self) -> Settings:
        """The letters that can be changed: those of one kind together, or else in smaller parts. Those of the input
        come last, and are told apart from the others."""
        found = NOTHING
        for kind in KINDS:
            found = self.found_of(kind, found)
        inputs = "".join(filter(is_of_input, self.source.letters))
        return self.found_of(inputs, found, inputs if len(inputs) > 1 else "")

    def found_of(self, kind: str, found: Settings, parts: Sequence[str] = (), failed: str = "") -> Settings:
        """What was found, and the letters of a kind; `failed` are those that cannot be changed together."""
        there = "".join(letter for letter in self.source.letters if letter in kind)
        if there != failed and (whole := self.working_letters(kind, found)) is not None:
            return merged(found, whole)
        for part in PARTS.get(kind, parts):
            found = self.found_of(part, found, failed=there)
        return found

    def working_letters(self, kind: str, found: Settings) -> Settings | None:
        part = {letter: size for letter, size in self.source.letters.items() if letter in kind}
        every = settings(part, self.table(found)) if part else ()
        return next((own for own in every if self.works(Choice({}, NOTHING, own))), None)

    def table(self, own: Settings) -> Table:
        return table_of(self.source.letters, own)

    def input_sizes(self, groups: Groups) -> dict[str, int]:
        return {letter: self.held[number].shape[dim] for letter, ((number, dim), *_) in groups.items()}

    def sizes(self, choice: Choice) -> dict[str, int]:
        own = {letter: self.source.letters[letter] for letter in choice.own[0]}
        return with_head({**self.input_sizes(choice.groups), **own})

    def works(self, choice: Choice) -> bool:
        """At the sizes of both runs: at those of one, lengths that do not belong together may go together by chance."""
        if self.failed is not None:
            return bool(self.runs(choice, 0, 1))
        try:
            for run in (0, 1):
                model, args, kwargs = self.built(choice, run, redrawn=False)
                with self.source.within, NoMisfits():
                    model(*args, **kwargs)
        except FAILURES as error:
            self.fails(error)
            return False
        return True

    def runs(self, choice: Choice, *numbers: int, redrawn: bool = True) -> tuple[Trace, ...]:
        """All of these runs, or none."""
        try:
            return tuple([self.run(choice, number, redrawn and number > 1) for number in numbers])
        except FAILURES as error:
            self.fails(error)
            return ()

    def run(self, choice: Choice, number: int, redrawn: bool) -> Trace:
        forward = self.built(choice, number, redrawn)
        with self.source.within:
            trace = self.recorded(*forward)
        if self.shallow is not None:
            whole = stretched(trace, *self.shallow)
            if whole is None:
                raise RuntimeError("its first layers do not do what all of them do")
            trace = whole
        inputs, own = sizes_of(choice, number)
        return msgspec.structs.replace(trace, sizes=with_head({**inputs, **own}))

    def recorded(self, *forward: Any) -> Trace:
        """The trace of a forward; where the plain one failed, also of one that came as far by the same calls."""
        try:
            return self.record(*forward)
        except FAILURES as error:
            kept = left(error)
            if self.failed is None or kept is None or not reaches(kept.plain(), self.failed):
                raise
            return kept.plain()

    def fails(self, error: BaseException) -> None:
        self.reason = said(error).partition("\n")[0]

    def built(self, choice: Choice, run: int, redrawn: bool) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
        inputs, own = sizes_of(choice, run)
        depth = {"L": self.shallow[1].first} if self.shallow is not None else {}
        with FewDrawn():
            model, given = self.source.build({**own, **depth})
        shapes = self.widened(given, own.get("C"))
        now = self.input_sizes(choice.groups)
        for letter, dims in choice.groups.items():
            for number, dim in dims:
                times = self.held[number].shape[dim] // max(now[letter], 1)
                shapes.setdefault(number, list(given.held[number].shape))[dim] = times * inputs[letter]
        args, kwargs = given.at({number: tuple(shape) for number, shape in shapes.items()}, seed=run, redrawn=redrawn)
        return model, args, kwargs

    def widened(self, given: Given, width: int | None) -> dict[int, list[int]]:
        """The shapes of floats that were given with the width of the model last, with its new width. Not of images."""
        shapes = {
            n: list(tensor.shape) for n, tensor in enumerate(given.held) if tensor.is_float and len(tensor.shape) < 4
        }
        old = self.source.letters.get("C")
        wide = {number: shape for number, shape in shapes.items() if shape and shape[-1] == old and width is not None}
        return {number: [*shape[:-1], cast(int, width)] for number, shape in wide.items()}


def reaches(trace: Trace, failed: Trace) -> bool:
    """Whether a run made the calls of one that failed, that which failed among them, before it failed itself."""
    made = list(map(place, trace.calls[: len(failed.calls)]))
    return made == list(map(place, failed.calls))


KINDS = ("CHDGhgdk", "F", "V", "EK", "ij", *"JRUQZNAMnewc")
"""Letters of a model that are tried together, where not all of them can be changed."""

PARTS = {"CHDGhgdk": ("CHDG", "hgdk"), "CHDG": ("C", "HG", "D"), "hgdk": ("hg", "d", "k")}
"""In which parts letters of one kind are tried that cannot be changed together."""

MOST_IN_PARTS = 2
"""Of how many guesses each group is tried by itself."""
