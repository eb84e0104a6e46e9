"""Say of the tensors of a trace what they are: their roles from the data flow, their axes from runs at other sizes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import torch
from torch import nn

from ..errors import InputError
from ..letters import is_unknown, sizes_in
from ..passes.axes import filled, name_axes, unseen, without
from ..passes.bonds import bonds_of
from ..passes.counts import uncounted
from ..passes.declared import as_declared
from ..passes.depth import layers_of
from ..passes.doubts import axes_of, decided, goes_by_values, is_formula, may_be_chance, used, without_shares
from ..passes.hooked import moves_dims
from ..passes.meeting import meetings
from ..passes.roles import name_roles, with_unmade
from ..passes.widths import name_widths
from ..passes.widths.sized import Written
from ..passes.widths.unseen import name_unseen
from ..schema import Trace
from .annotations import Returned, returned
from .before import Before
from .choices import Sizes
from .copied import copied, hooks_on, is_large, lines_of, weightless
from .given import CannotProbe, Given, Held, given
from .hints import contradicted, kept, unnamed
from .onward import as_far_as, mending, onward
from .probe import Probes, Recording, Source, probe
from .rebuild import letters_of, rebuilt
from .recorder import said
from .undisturbed import undisturbed
from .weightless import Weightless, building, mode_of, within

__all__ = ["Naming", "Sourcing", "declared"]

NOT_AGAIN = "hooks are not run again, for what else they may do"

Sourcing = Callable[[Given], Source | None]
"""A way to come by a model again; None if there is none for it."""


class Naming:
    """What it takes to name the tensors of one forward; made before the forward runs.

    record    gives the trace of another forward, recorded in the same way
    sizes     of letters, as the user says
    sources   ways to come by the model again, besides its configuration
    written   the names that the user has for dims of what the model is given
    option    how the user says sizes of letters: "axes=" or "--axes "
    """

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        record: Recording,
        sizes: Mapping[str, int],
        sources: Sequence[Sourcing] = (),
        written: Written | None = None,
        option: str = "axes=",
    ) -> None:
        self.model = model
        self.before: Before | None = None
        self.given: Given | None = None
        self.reason = ""
        self.hooks = hooks_on(model)
        try:
            self.before = Before(model)
            self.given = given(model.forward, args, kwargs)
        except CannotProbe as error:
            self.reason = str(error)
        except Exception as error:  # `forward` may be a property
            self.reason = said(error)
        self.record = record
        self.sizes = sizes
        self.sources = sources
        self.written = written or {}
        self.option = option

    def name(self, trace: Trace) -> Trace:
        """`trace`, which has roles, with axes; whatever fails, it is a trace still, and says so."""
        try:
            return self.named(trace)
        except Exception as error:
            return msgspec.structs.replace(trace, notes=(*trace.notes, f"axes are not named: {said(error)}"))

    def named(self, trace: Trace) -> Trace:
        if not trace.calls:
            return trace
        longer = self.longer(trace) if trace.error is not None else None
        if longer is not None:
            return as_far_as(trace, longer)
        with undisturbed():
            probes = self.probes(trace)
        return self.named_by(probes, trace)

    def longer(self, failed: Trace) -> Trace | None:
        """The forward that `failed` as it goes on if what failed is mended, with axes; None if it does not."""
        if self.given is None or self.hooks:
            return None
        mended = copy.copy(self)
        mended.record = mending(self.record)
        mended.given = msgspec.structs.replace(self.given, written={})  # what stands for a result is not checked
        with undisturbed():
            found = onward(failed, self.copied(self.given), mended.record)
            if found is None:
                return None
            found = name_roles(found)
            probes = mended.probes(found)
            probes = probes if probes.runs else self.probes(failed)
        return self.named_by(probes, found)

    def named_by(self, probes: Probes, trace: Trace) -> Trace:
        plain = msgspec.structs.replace(trace, sizes=dict(probes.sizes))
        told, runs = self.told(plain, probes)
        shared = without_shares(told) if "C" in probes.sizes and "H" not in probes.sizes else None
        told = name_unseen(told if shared is None else shared[1], unseen(plain, runs))
        seen = msgspec.structs.replace(told, sizes={**trace.sizes, **used(told)})
        held: list[Held | Returned] = []
        if self.given is not None:
            held = [*self.given.held, *returned(told, self.given.written)]
        written = {**self.written, **{one.name: one.axes for one in held if any(one.axes)}}
        named = name_widths(seen, self.sizes, written)
        named = named if shared is None else filled(named, shared[0])
        named = decided(named, probes.sizes if probes.runs else None)
        names, rest = {name for axes in written.values() for name in axes}, without_letter(probes.sizes, told, named)
        said = tuple(
            unnamed(named, probes, rest, self.sizes, names, lambda sizes: name_axes(plain, runs, sizes), self.option)
        )
        said = said or tuple(kept(named, lambda sizes: name_widths(seen, sizes, written), self.sizes, self.option))
        notes = *trace.notes, *said, *contradicted(named, held, self.sizes)
        named = msgspec.structs.replace(named, notes=notes)
        return as_declared(named, written) if written else named

    def told(self, plain: Trace, probes: Probes) -> tuple[Trace, tuple[Trace, ...]]:
        """What the runs tell, and these: more of them where two may tell it by chance."""
        named = name_axes(plain, probes.runs, self.sizes, varying=True)
        is_chance = any(map(goes_by_values, plain.calls))
        if not is_chance and not any(map(may_be_chance, axes_of(named))):
            return named, probes.runs
        runs = (*probes.runs, *(more := probes.more(2 if is_chance else 1)))
        named = name_axes(plain, runs, self.sizes, varying=True) if more else without(named, is_formula)
        return uncounted(named) if is_chance else named, runs

    def probes(self, trace: Trace) -> Probes:
        """Of the first source that gives runs at other sizes."""
        if self.given is None:
            return Probes({}, reason=self.reason)
        if is_shared():
            return Probes({}, reason="the model runs in several processes, which would have to run again together")
        if self.hooks and moves_dims(trace.calls, lines_of(self.hooks)):
            return Probes({}, reason=f"hooks on the model change what it computes, and {NOT_AGAIN}")
        meeting = meetings(trace)
        bonds = bonds_of(trace, {name for name, _ in self.model.named_parameters(remove_duplicate=False)})
        unmade = any(call.unmade for call in trace.calls)
        again: Recording = (lambda *forward: with_unmade(self.record(*forward))) if unmade else self.record
        layers = layers_of(trace)
        depths = [None] if layers is None else [(trace, layers), None]
        reasons: list[str] = []
        for make in (*self.sources, self.configured_lightly, self.configured, self.copied):
            source = make(self.given)
            if source is None:
                continue
            for shallow in depths if "L" in source.letters else [None]:
                failed = trace if trace.error else None
                probes = probe(source, again, meeting=meeting, bonds=bonds, failed=failed, shallow=shallow)
                if probes.runs:
                    return probes
                reasons += [probes.reason] if probes.reason else []
        if not reasons:
            return Probes({}, reason="nothing that the model was given has a size that could be another")
        if self.hooks:
            return Probes({}, reason=f"without the hooks on it the model does not run, and {NOT_AGAIN} ({reasons[-1]})")
        return Probes({}, reason=f"the model does not run at other sizes ({reasons[-1]})")

    def configured(self, given: Given) -> Source | None:
        """From the configuration that the model carries."""
        around = within(self.model)
        return self.built(given, lambda: around, lambda: copied(self.model, self.before), around)

    def configured_lightly(self, given: Given) -> Source | None:
        """So, but weightless: to draw the weights of a large one takes longer than to run it."""
        if not self.is_heavy():
            return None
        mode = Weightless()
        return self.built(given, lambda: building(mode), lambda: weightless(self.model, mode, self.before), mode)

    def built(
        self,
        given: Given,
        builds: Callable[[], AbstractContextManager[object]],
        copy: Callable[[], nn.Module],
        runs: AbstractContextManager[object],
    ) -> Source | None:
        letters = letters_of(self.model)
        if not letters:
            return None
        if "C" in letters:
            letters.setdefault("F", 4 * letters["C"])  # where it is left open; no dim has it if it is not so

        def build(new: Sizes) -> tuple[nn.Module, Given]:
            with builds():
                return rebuilt(self.model, letters, new) if new else copy(), given

        return Source(given, letters, build, within=runs)

    def copied(self, given: Given) -> Source:
        """As it is, in a copy: its own axes stay as they are."""
        if not self.is_heavy():
            return Source(given, {}, lambda _: (copied(self.model, self.before), given), within=within(self.model))
        mode = Weightless()
        return Source(given, {}, lambda _: (weightless(self.model, mode, self.before), given), within=mode)

    def is_heavy(self) -> bool:
        return mode_of(self.model) is None and is_large(self.model)


def declared(axes: bool | str | None) -> dict[str, int]:
    """The sizes of letters that a user gives. `InputError` if it cannot be read."""
    if axes is not None and not isinstance(axes, bool | str):
        raise InputError(f"axes is True, False, or letters and their sizes as 'B=2 T=4', not {axes!r:.60}")
    return sizes_in(axes) if isinstance(axes, str) else {}


def without_letter(changed: Mapping[str, int], told: Trace, named: Trace) -> list[int]:
    """The sizes of those axes of the input that were changed and have no letter in `named`: neither since runs `told`
    what they are, nor for what the model does with them."""
    found = [size for letter, size in told.sizes.items() if letter not in changed]
    found += [named.sizes[letter] for letter in "TS" if letter in named.sizes and named.sizes[letter] not in found]
    rest = [size for letter, size in changed.items() if is_unknown(letter)]
    return list((Counter(rest) - Counter(found)).elements())


def is_shared() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
