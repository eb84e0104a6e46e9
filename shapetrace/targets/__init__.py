"""What can be run, from the words on a command line: a target, its options, its inputs.

A target is one of

    gpt                       a model that a package has registered
    path/file.py:callable     a builder or a class in a file
    package.module:callable   or in a module

and may have options with it, in brackets: gpt[norm=post, G=1].

The callable returns a model, (model, args) or (model, args, kwargs), or is a model itself; a class is called without
arguments. Its parameters are its options. A kind of target is one file here with a `find(…) -> Place`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from ..letters import in_order, sizes_in
from ..schema import Trace
from . import files, modules, registry
from .blame import Raised, own_traceback
from .brackets import split
from .inputs import parse
from .place import Place, importable

if TYPE_CHECKING:
    from ..capture.naming import Sourcing
    from .ready import Ready

__all__ = ["Raised", "Request", "find", "made", "own_traceback", "record", "sources"]


class Request(msgspec.Struct, frozen=True):
    """What to run, as it was written.

    options   of the target's builder: ("--C", "16", "--head", "untied")
    inputs    a spec each: "ids: int64[2, 4]"
    seed      of torch's random numbers
    ops       whether to record aten ops as well
    materialise   whether to run fused attention written out
    axes      sizes of letters, as the user says: "C=768 H=12"
    others    names of options that are not the builder's, for the hint when one is mistyped
    given     those of them that were given
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


def find(target: str) -> Place:
    """Where a target is; nothing is imported yet. `TargetError`, with what is near, if it is not there."""
    where, _, name = target.rpartition(":")
    if not where or not name or re.fullmatch(r"[A-Za-z]:[\\/][^:]*", target):  # the colon of a drive is none
        return registry.find(target.removesuffix(":"))
    if where.endswith(".py") or "/" in where or os.sep in where:
        return files.find(target, where, name)
    return modules.find(target, where, name)


def record(request: Request) -> Trace:
    """The trace of one forward of what was asked for.

    Raises `Raised` from an exception of the user's own code, and other kinds of `ShapetraceError` for what is wrong in
    the request.
    """
    with made(request) as (place, ready):
        from ..capture import record as record_forward
        from ..capture import trace_of

        try:
            recorded = record_forward(
                ready.model,
                ready.args,
                ready.kwargs,
                ops=request.ops,
                materialise=request.materialise,
                axes=request.axes or True,
                sources=sources(ready),
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            partial = trace_of(error)
            if partial is None:
                raise  # before anything of the user's ran
            raise failure(place, ready, with_header(partial, place, ready, request.seed)) from error
        return with_header(recorded, place, ready, request.seed)


@contextmanager
def made(request: Request) -> Iterator[tuple[Place, Ready]]:
    """The model of what was asked for, ready to run; in the block it can import what stands beside it.

    Raises as `record` does.
    """
    specs = [parse(text) for text in request.inputs]
    sizes_in(request.axes)  # refused, if it cannot be read, before anything slow begins
    target, own = split(request.target)
    place = find(target)
    if own:
        place = msgspec.structs.replace(place, target=f"{place.target}{request.target[len(target) :]}")
    from .ready import make  # torch, from here on

    options = (*request.options, *own)
    with importable(place.folder):
        yield place, make(place, options, specs, seed=request.seed, others=request.others, given=request.given)


def sources(ready: Ready) -> list[Sourcing]:
    """How its builder makes it again at other sizes."""
    from .again import source

    return [lambda plain: source(ready, plain)]


def failure(place: Place, ready: Ready, partial: Trace) -> Raised:
    raised = Raised(f"{place.target}: the forward of {partial.model} raised this{ready.advice}")
    raised.partial = partial
    return raised


def with_header(recorded: Trace, place: Place, ready: Ready, seed: int) -> Trace:
    """What the model itself does not know: how it was asked for, and the sizes that it was asked for with."""
    sizes = in_order({**ready.letters, **recorded.sizes})
    return msgspec.structs.replace(recorded, target=place.target, sizes=sizes, seed=seed)
