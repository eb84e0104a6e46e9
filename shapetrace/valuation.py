"""`shapetrace diff --values`: two targets made, and run against each other."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .errors import TargetError
from .streams import aside, names_trace

if TYPE_CHECKING:
    from .diff.divergence import ValuesDiff
    from .targets import Request
    from .values import Side, Weights

__all__ = ["Valued", "values_of"]


class Valued(msgspec.Struct, frozen=True):
    """What to compare, and how."""

    before: Request
    after: Request
    weights: str | None
    rtol: float | None
    atol: float | None


def values_of(asked: Valued) -> ValuesDiff:
    for text in (asked.before.target, asked.after.target):
        if names_trace(text):
            raise TargetError(f"{text} is a trace, which holds no values; --values runs two models")
    from .targets.blame import blame
    from .targets.place import importable
    from .values import compare

    with aside():
        weights = weights_of(asked.weights)
        before, here = side(asked.before)
        after, there = side(asked.after)
        with (
            importable(here),
            importable(there),
            blame(f"{asked.before.target} against {asked.after.target}: without values of both nothing is compared"),
        ):
            return compare(
                before, after, weights=weights, rtol=asked.rtol, atol=asked.atol, seed=asked.before.seed, refill=True
            )


def side(request: Request) -> tuple[Side, Path | None]:
    """The model of a target and its inputs, and where it can import from while it runs. It is made alone: of two files
    of one name, each beside its model, both are imported. What is made without weights is made anew, with them."""
    from .targets import made, sources
    from .values import Inputs, Side

    way = msgspec.structs.replace(request.way, weightless=False)
    for each in (request, msgspec.structs.replace(request, way=way)):
        with made(each) as (place, ready):
            if not ready.is_weightless:
                return Side(ready.model, Inputs(ready.args, ready.kwargs), place.target, sources(ready)), place.folder
            size = sum(parameter.nbytes for parameter in ready.model.parameters())
        if size > MOST:
            raise TargetError(f"{request.target} has {size / 1e9:.0f} GB of weights, {WITH_WEIGHTS}")
    raise TargetError(f"{request.target} is asked for without weights, {WITH_WEIGHTS}")


WITH_WEIGHTS = "and --values runs it with them: make it smaller, as [num_hidden_layers=2] does, or say [no-weightless]"

MOST = 1 << 32
"""Bytes of weights that are made without being asked for."""


def weights_of(how: str | None) -> Weights:
    if how is None or how == "own":
        return "own"
    if how == "copy":
        return "copy"
    if ":" not in how:
        raise TargetError(f"--weights is copy, own or file.py:function, not {how!r}")
    from .targets import find
    from .targets.blame import blame
    from .targets.place import importable

    place = find(how)
    with importable(place.folder):
        found: Any = place.load()
    if not callable(found):
        raise TargetError(f"{how} is of type {type(found).__name__}; it must be a function(before, after)")

    def put(before: Any, after: Any) -> None:
        with blame(f"--weights {how}: it raised this, given copies of both models"):
            found(before, after)

    return wraps(found)(put)
