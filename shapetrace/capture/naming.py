"""Say of the tensors of a trace what they are: their roles from the data flow, their axes from runs at other sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import torch
from torch import nn

from ..errors import InputError
from ..letters import is_of_input, is_unknown, names_in, sizes_in
from ..passes.align import flows_alike
from ..passes.axes import filled, is_varying, name_axes, unseen, without
from ..passes.bonds import bonds_of
from ..passes.declared import as_declared
from ..passes.depth import layers_of
from ..passes.meeting import meetings
from ..passes.nesting import forward_of
from ..passes.plumbing import is_float
from ..passes.roles import with_unmade
from ..passes.widths import name_widths
from ..passes.widths.unseen import name_unseen
from ..schema import Call, Trace
from .before import Before
from .choices import Sizes
from .copied import copied, is_hooked, is_large, weightless
from .given import CannotProbe, Given, given
from .hints import contradicted, kept, unnamed
from .probe import Probes, Recording, Source, probe
from .rebuild import letters_of, rebuilt
from .recorder import said
from .undisturbed import undisturbed
from .weightless import Weightless, building, mode_of, within

__all__ = ["Naming", "Sourcing", "declared"]

BY_VALUES = frozenset("nonzero argwhere masked_select unique unique_consecutive bincount repeat_interleave".split())

SHORT = re.compile(r"([2-4]·)?\w(/[24])?|\w/[^\W\d]")
"""A few times a letter, or a share of it; or how often one goes into another."""

NUMBER = re.compile(r"(?<!\w)\d+")
RANK_OF_IMAGES = 4
"""The last dim of floats that are no image is a width."""

FEW = 3
"""What stands so often side by side, as queries, keys and values, is no length."""

NOT_AGAIN = "hooks are not run again, for what else they may do"

Sourcing = Callable[[Given], Source | None]
"""A way to come by a model again; None if there is none for it."""


class Naming:
    """What it takes to name the tensors of one forward; made before the forward runs.

    record    gives the trace of another forward, recorded in the same way
    sizes     of letters, as the user says
    sources   ways to come by the model again, besides its configuration
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
        option: str = "axes=",
    ) -> None:
        self.model = model
        self.before: Before | None = None
        self.given: Given | None = None
        self.reason = ""
        self.is_hooked = is_hooked(model)
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
        with undisturbed():
            probes = self.probes(trace)
        plain = msgspec.structs.replace(trace, sizes=dict(probes.sizes))
        runs = probes.runs
        named = name_axes(plain, runs, self.sizes, varying=True)
        is_chance = any(map(goes_by_values, trace.calls))
        if is_chance or any(map(may_be_chance, axes_of(named))):
            more = probes.more(2 if is_chance else 1)
            runs = (*runs, *more)
            named = name_axes(plain, runs, self.sizes, varying=True) if more else without(named, is_formula)
        widened = None
        if "C" in probes.sizes and "H" not in probes.sizes and (heads := shares(named)):
            widened = without(named, heads.__contains__)
            named = without(named, lambda axis: "C" in names_in(axis))
        named = name_unseen(named, unseen(plain, runs))
        left = [size for letter, size in probes.sizes.items() if is_unknown(letter)]
        found = [size for letter, size in named.sizes.items() if letter not in probes.sizes]
        held = self.given.held if self.given else ()
        written = {one.name: one.axes for one in held if any(one.axes)}
        seen = msgspec.structs.replace(named, sizes={**trace.sizes, **used(named)})
        named = name_widths(seen, self.sizes, written)
        named = filled(named, widened) if widened is not None else named
        named = without(named, is_varying) if any(map(is_varying, axes_of(named))) else named
        undecided = undecided_in(named)
        if probes.runs:  # of 4·B nothing is known at other heads, where these stayed four
            own = {letter: size for letter, size in named.sizes.items() if not is_of_input(letter)}
            undecided |= {size for letter, size in own.items() if letter not in probes.sizes and size > FEW}
        if any(is_made_of(axis, undecided) for axis in axes_of(named)):
            named = without(named, lambda axis: is_made_of(axis, undecided))
        found += [named.sizes[letter] for letter in "TS" if letter in named.sizes and named.sizes[letter] not in found]
        left = list((Counter(left) - Counter(found)).elements())
        names = {name for axes in written.values() for name in axes}
        said = tuple(
            unnamed(named, probes, left, self.sizes, names, lambda sizes: name_axes(plain, runs, sizes), self.option)
        )
        said = said or tuple(kept(named, lambda sizes: name_widths(seen, sizes, written), self.sizes, self.option))
        said = *said, *contradicted(named, held, self.sizes)
        named = msgspec.structs.replace(named, notes=(*trace.notes, *said))
        return as_declared(named, written) if written else named

    def probes(self, trace: Trace) -> Probes:
        """Of the first source that gives runs at other sizes."""
        if self.given is None:
            return Probes({}, reason=self.reason)
        if is_shared():
            return Probes({}, reason="the model runs in several processes, which would have to run again together")
        meeting = meetings(trace)
        bonds = bonds_of(trace, {name for name, _ in self.model.named_parameters(remove_duplicate=False)})
        unmade = any(call.unmade for call in trace.calls)
        again: Recording = (lambda *forward: with_unmade(self.record(*forward))) if unmade else self.record
        layers = None if self.is_hooked else layers_of(trace)
        depths = [None] if layers is None else [(trace, layers), None]
        reasons: list[str] = []
        for make in (*self.sources, self.configured_lightly, self.configured, self.copied):
            source = make(self.given)
            if source is None:
                continue
            for shallow in depths if "L" in source.letters else [None]:
                failed = trace if trace.error else None
                probes = probe(source, again, meeting=meeting, bonds=bonds, failed=failed, shallow=shallow)
                if probes.runs and self.is_hooked and not flows_alike(trace.calls, probes.runs[0].calls):
                    return Probes({}, reason=f"hooks on the model change what it computes, and {NOT_AGAIN}")
                if probes.runs:
                    return probes
                reasons += [probes.reason] if probes.reason else []
        if not reasons:
            return Probes({}, reason="nothing that the model was given has a size that could be another")
        if self.is_hooked:
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


def is_shared() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def axes_of(trace: Trace) -> set[str | int]:
    places = ((call.inputs, call.outputs, call.unmade) for call in trace.calls)
    found = {tensor.axes or () for tensors in places for place in tensors for tensor in place.values()}
    return {axis for axes in found for axis in axes}


def shares(named: Trace) -> set[str]:
    """The axes C/2 that stand beside a 2: how wide heads are, of which nobody said how many there are. What the model
    does with C then says more of it than runs where the heads stay as they are."""
    rows = {
        tensor.axes or ()
        for call in named.calls
        for tensor in (*call.inputs.values(), *call.outputs.values(), *call.unmade.values())
    }
    return {f"C/{axis}" for row in rows for axis in row if isinstance(axis, int) and f"C/{axis}" in row}


def is_formula(axis: str | int) -> bool:
    """Whether it is more than a product of letters; that may fit two runs by chance, as the tokens of an expert do."""
    return isinstance(axis, str) and not is_varying(axis) and "·".join(names_in(axis)) != axis


def undecided_in(named: Trace) -> set[int]:
    """The sizes of what the model was given that are no letter, but for widths and a few: rows of a picture, a past."""
    index = forward_of(named.calls)
    tensors = [] if index is None else named.calls[index].inputs.values()
    dims = (
        axis
        for tensor in tensors
        for axis in (tensor.axes or ())[: -1 if is_float(tensor) and len(tensor.shape) < RANK_OF_IMAGES else None]
        if isinstance(axis, int)
    )
    return {size for size in dims if size > FEW}


def is_made_of(axis: str | int, undecided: set[int]) -> bool:
    """Whether a number in it may be one of these: of 5·B, where an input has 5 rows, nothing is known at 6."""
    return (
        isinstance(axis, str)
        and any(map(is_of_input, names_in(axis)))
        and any(int(number) in undecided for number in NUMBER.findall(axis))
    )


def may_be_chance(axis: str | int) -> bool:
    """Whether it is a formula that is to be confirmed: not where it is short, and the model's own: 3·C, D/2, H/G."""
    is_short = isinstance(axis, str) and SHORT.fullmatch(axis) is not None
    return is_formula(axis) and not (is_short and not any(map(is_of_input, names_in(axis))))


def goes_by_values(call: Call) -> bool:
    """Whether what comes of it is of a size that the values in a tensor say; two runs may fit a letter by chance."""
    if call.name == "where":  # of three, it says which of two are taken
        return len(call.inputs) + len(call.literals) == 1
    return call.name in BY_VALUES or (
        call.name == "__getitem__" and any(tensor.dtype == "bool" for tensor in list(call.inputs.values())[1:])
    )


def used(trace: Trace) -> dict[str, int]:
    """The sizes of those letters that a dim of some result has, or of one that a call stands for."""
    places = ((call.outputs, call.unmade) for call in trace.calls)
    made = (tensor for tensors in places for place in tensors for tensor in place.values())
    letters = {letter for tensor in made for axis in tensor.axes or () for letter in names_in(axis)}
    return {letter: size for letter, size in trace.sizes.items() if letter in letters}
