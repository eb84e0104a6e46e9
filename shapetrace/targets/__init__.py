"""What can be run, from the words on a command line: a target, its options, its inputs.

A target is one of

    gpt                       a model that a package has registered
    path/file.py:callable     a builder or a class in a file
    package.module:callable   or in a module
    hf:llama                  a type of model that transformers knows, or hf:path/config.json
    timm:NAME                 a model of timm, or torchvision:NAME

and may have options with it, in brackets: gpt[norm=post, G=1].

The callable returns a model, (model, args) or (model, args, kwargs), or is a model itself; a class is called without
arguments. Its parameters are its options. A kind of target is one file here with a `find(…) -> Place`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..contexts import context
from ..errors import ShapetraceError, TargetError
from ..letters import in_order, sizes_in
from ..schema import Trace
from . import files, hf, modules, registry, vision
from .blame import Raised, own_traceback
from .brackets import Word, applied, split
from .inputs import Spec, parse
from .options import join
from .place import AS_IT_IS, Place, Way, importable

if TYPE_CHECKING:
    from ..capture.kept import Kept
    from ..capture.naming import Sourcing
    from .ready import Ready

__all__ = ["Raised", "Request", "Way", "find", "made", "own_traceback", "record", "sources"]


class Request(msgspec.Struct, frozen=True):
    """What to run, as it was written.

    options   of the target's builder: ("--C", "16", "--head", "untied")
    inputs    a spec each: "ids: int64[2, 4]"
    seed      of torch's random numbers
    ops       whether to record aten ops as well
    materialise   whether to run fused attention written out
    stats         whether to sum up the values of each tensor
    axes      sizes of letters, as the user says: "C=768 H=12"
    others    names of options that are not the builder's, for the hint when one is mistyped
    given     those of them that were given
    way       how to run it
    """

    target: str
    options: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    seed: int = 0
    ops: bool = False
    axes: str = ""
    others: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    materialise: bool = False
    stats: bool = False
    way: Way = AS_IT_IS


KINDS = {"hf": hf.find, "timm": vision.timm, "torchvision": vision.torchvision}
"""What stands before the first colon of a target -> what finds it. It makes its models of configurations."""

CONFIGURED = ("hf",)
"""Those of which a configuration has all fields that there are, and no builder takes others."""


def find(target: str, way: Way = AS_IT_IS) -> Place:
    """Where a target is; nothing is imported yet. `TargetError`, with what is near, if it is not there."""
    kind, colon, rest = target.partition(":")
    if colon and kind in KINDS:
        return KINDS[kind](target, rest, way)
    refuse_changes(target, way)
    where, _, name = target.rpartition(":")
    if not where or not name or re.fullmatch(r"[A-Za-z]:[\\/][^:]*", target):  # the colon of a drive is none
        return registry.find(target.removesuffix(":"))
    if where.endswith(".py") or "/" in where or os.sep in where:
        return files.find(target, where, name)
    return modules.find(target, where, name)


def refuse_changes(target: str, way: Way) -> None:
    if way.changes:
        kinds = join(f"{kind}:…" for kind in KINDS)
        raise TargetError(f"{target}: --set changes a field of a configuration: it is for {kinds}")


def record(request: Request) -> Trace:
    """The trace of one forward of what was asked for.

    Raises `Raised` from an exception of the user's own code, and other kinds of `ShapetraceError` for what is wrong in
    the request.
    """
    request, place, words = asked(request)
    first: Raised | None = None
    while True:
        try:
            found = record_at(place, request, words)
        except Raised as raised:
            first = raised if first is None or place.is_told else first
            if place.instead is None:
                raise explained(first, first.__cause__) from first.__cause__
            place = place.instead()
        except ShapetraceError:
            if first is None:
                raise
            raise explained(
                first, first.__cause__
            ) from first.__cause__  # what was to be run instead cannot even be built
        else:
            return noted(found, place, first)


def noted(found: Trace, place: Place, instead_of: Raised | None) -> Trace:
    if not place.note or instead_of is None:
        return found
    return msgspec.structs.replace(found, notes=(*found.notes, place.note.format(reason=reason(instead_of))))


def reason(raised: Raised) -> str:
    """Why a forward did not go on, in a word."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    from .tensors import first_line

    cause = raised.__cause__
    if isinstance(cause, DataDependentOutputException | DynamicOutputShapeException):
        return f"it looks at what it computes ({cause.func}), and without weights there is nothing to see"
    return f"{type(cause).__name__}: {first_line(cause)}" if cause is not None else str(raised)


def asked(request: Request) -> tuple[Request, Place, tuple[Word, ...]]:
    """What was asked for, where that is, and of its own options those of which its builder has to say what they are.

    What cannot be is refused before anything slow.
    """
    check(request)
    target, words = split(request.target)
    kind = target.partition(":")[0]
    if kind in KINDS:
        request, words = applied(request, words, (), has_fields=kind in CONFIGURED), ()
        check(request)
    place = find(target, request.way)
    return request, msgspec.structs.replace(place, target=f"{place.target}{request.target[len(target) :]}"), words


def check(request: Request) -> list[Spec]:
    """The inputs that a request describes; and what of it has to be well written is."""
    sizes_in(request.axes)
    return [parse(text) for text in request.inputs]


def record_at(place: Place, request: Request, words: Sequence[Word]) -> Trace:
    with made_at(place, request, words) as (ready, request):
        from ..capture import Detail, left
        from ..capture import record as record_forward
        from .devices import told

        try:
            recorded = record_forward(
                ready.model,
                ready.args,
                ready.kwargs,
                Detail(ops=request.ops, materialise=request.materialise, stats=request.stats),
                axes=request.axes or True,
                sources=sources(ready),
                written=ready.written,
                explains=False,
                option="--axes ",
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            kept = left(error)
            if kept is None:
                raise  # before anything of the user's ran
            raised = failure(place, ready, kept, request.seed)
            raise (raised if place.instead is not None else explained(raised, error)) from error
        notes = (*recorded.notes, *place.notes, *told(request.way.device))
        return with_header(msgspec.structs.replace(recorded, notes=notes), place, ready, request.seed)


@context
def made(request: Request) -> Iterator[tuple[Place, Ready]]:
    """The model of what was asked for, ready to run; in the block it can import what stands beside it.

    Raises as `record` does.
    """
    request, place, words = asked(request)
    with made_at(place, request, words) as (ready, _):
        yield place, ready


@context
def made_at(place: Place, request: Request, words: Sequence[Word]) -> Iterator[tuple[Ready, Request]]:
    """And the request with the `words` that were options of its own."""
    from .ready import load, make  # torch, from here on

    with importable(place.folder):
        loaded, takes = load(place, request.seed)
        if words:
            request = applied(request, words, takes.parameters)
            refuse_changes(place.target, request.way)
        ready = make(
            place,
            loaded,
            request.options,
            check(request),
            seed=request.seed,
            others=request.others,
            given=request.given,
            way=request.way,
        )
        yield ready, request


def sources(ready: Ready) -> list[Sourcing]:
    """How its builder makes it again at other sizes."""
    from .again import source

    return [lambda plain: source(ready, plain)]


def failure(place: Place, ready: Ready, kept: Kept, seed: int) -> Raised:
    advice = ready.guessed if place.guesses else ready.advice
    raised = Raised(f"{place.target}: the forward of {kept.plain().model} raised this{advice}")
    if place.guesses or not ready.advice:
        raised.keeping = "; shapetrace run … --output FILE.jsonl keeps what ran until then"
    raised.partial = lambda: with_header(kept.named(), place, ready, seed)
    return raised


def explained(raised: Raised, error: BaseException | None) -> Raised:
    """With a note on its cause, for which the model runs again: not if another is to be run instead."""
    from ..capture import explain, left

    kept = None if error is None else left(error)
    if error is not None and kept is not None:
        explain(error, kept)
    return raised


def with_header(recorded: Trace, place: Place, ready: Ready, seed: int) -> Trace:
    """What the model itself does not know: how it was asked for, and the sizes that it was asked for with."""
    sizes = in_order({**ready.letters, **recorded.sizes})
    return msgspec.structs.replace(recorded, target=place.target, sizes=sizes, seed=seed)
