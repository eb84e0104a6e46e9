"""Say of the tensors of a trace what they are: their roles from the data flow, their axes from runs at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from torch import nn

from ..passes.axes import letters_in, name_axes
from ..schema import Trace
from .copied import copied
from .given import CannotProbe, Given, given
from .probe import Probes, Recording, Sizes, Source, probe
from .rebuild import letters_of, rebuilt

__all__ = ["Naming", "Sourcing"]

Sourcing = Callable[[Given], Source | None]
"""A way to come by a model again; None if there is none for it."""


class Naming:
    """What it takes to name the tensors of one forward; made before the forward runs.

    record    gives the trace of another forward, recorded in the same way
    sources   ways to come by the model again, besides its configuration
    """

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        record: Recording,
        sources: Sequence[Sourcing] = (),
    ) -> None:
        self.model = model
        self.given: Given | None = None
        self.reason = ""
        try:
            self.given = given(model.forward, args, kwargs)
        except CannotProbe as error:
            self.reason = str(error)
        self.record = record
        self.sources = sources

    def name(self, trace: Trace) -> Trace:
        """`trace`, which has roles, with axes."""
        probes = self.probes(trace)
        if not probes.runs:
            note = f"axes are not named: {probes.reason}"
            return msgspec.structs.replace(trace, notes=(*trace.notes, note))
        named = name_axes(msgspec.structs.replace(trace, sizes=dict(probes.sizes)), probes.runs)
        used = {
            letter for call in named.calls for tensor in call.outputs.values() for letter in letters_in(tensor.axes)
        }
        sizes = {letter: size for letter, size in named.sizes.items() if letter in used}
        return msgspec.structs.replace(named, sizes={**trace.sizes, **sizes})

    def probes(self, trace: Trace) -> Probes:
        """Of the first source that gives runs at other sizes."""
        told_apart = any(call.role == "cross-attention" for call in trace.calls)
        if self.given is None:
            return Probes({}, reason=self.reason)
        reasons: list[str] = []
        for make in (*self.sources, self.configured, self.copied):
            source = make(self.given)
            if source is None:
                continue
            probes = probe(source, self.record, told_apart=told_apart)
            if probes.runs:
                return probes
            reasons.append(probes.reason)
        return Probes({}, reason=f"the model does not run at other sizes ({reasons[-1]})")

    def configured(self, given: Given) -> Source | None:
        """From the configuration that the model carries."""
        letters = letters_of(self.model)
        if not letters:
            return None
        if "C" in letters:
            letters.setdefault("F", 4 * letters["C"])  # where it is left open; no dim has it if it is not so

        def build(new: Sizes) -> tuple[nn.Module, Given]:
            return rebuilt(self.model, letters, new) if new else copied(self.model), given

        return Source(given, letters, build)

    def copied(self, given: Given) -> Source:
        """As it is, in a copy: its own axes stay as they are."""
        return Source(given, {}, lambda _: (copied(self.model), given))
