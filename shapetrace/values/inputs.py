"""The inputs of the first model, as the second takes them: by name, or else by position."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from ..errors import InputError

__all__ = ["Inputs", "fitted", "refilled"]

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Inputs(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def fitted(before: nn.Module, after: nn.Module, given: Inputs) -> Inputs:
    """What goes by position stays there; so does a name that the second model has not, if its place is free.

    `InputError` if it is not.
    """
    ours, theirs = positions(before), positions(after)
    takes = inspect.signature(after.forward).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values())
    kwargs: dict[str, Any] = {name: value for name, value in given.kwargs.items() if name in takes}
    for name, value in given.kwargs.items():
        if name in takes:
            continue
        at = ours.index(name) if name in ours else len(theirs)
        if len(given.args) <= at < len(theirs) and theirs[at] not in kwargs:
            kwargs[theirs[at]] = value
        elif takes_any:
            kwargs[name] = value
        else:
            raise InputError(
                f"{type(after).__name__} has no input {name!r}, nor one in its place; it takes {', '.join(takes)}"
            )
    return Inputs(given.args, kwargs)


def refilled(before: nn.Module, after: nn.Module, given: Inputs, own: Inputs) -> tuple[Inputs, str]:
    """The second model's own inputs, each replaced by that of the first of the same name, or else by the next one of
    its form; and what was replaced, in words."""
    ours, theirs = (
        {**dict(zip(positions(model), inputs.args, strict=False)), **inputs.kwargs}
        for model, inputs in ((before, given), (after, own))
    )
    found = {name: name for name in theirs if name in ours}
    for name, value in theirs.items():
        likely = (other for other in ours if other not in found.values() and alike(ours[other], value))
        if name not in found and (other := next(likely, None)) is not None:
            found[name] = other
    names = positions(after)

    def value_of(name: str, value: Any) -> Any:
        return as_kept(ours[found[name]], value) if name in found else value

    args = tuple(map(value_of, names, own.args)) + tuple(own.args[len(names) :])
    kwargs = {name: value_of(name, value) for name, value in own.kwargs.items()}
    return Inputs(args, kwargs), said(found, [name for name in theirs if name not in found])


def as_kept(value: Any, own: Any) -> Any:
    """A tensor of floats in the dtype, and any tensor on the device, in which the second model takes its own."""
    if not isinstance(value, torch.Tensor) or not isinstance(own, torch.Tensor):
        return value
    are_floats = value.is_floating_point() and own.is_floating_point()
    return value.to(own.device, own.dtype) if are_floats else value.to(own.device)


def said(found: Mapping[str, str], kept: list[str]) -> str:
    same = ", ".join(name if name == other else f"{other} as {name}" for name, other in found.items())
    own = f"after's own {', '.join(kept)}" if kept else ""
    return "; ".join(filter(None, (same, own))) or "none"


def alike(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return one.shape == other.shape and one.dtype == other.dtype


def positions(model: nn.Module) -> list[str]:
    """The names of what the forward of a model can be given by position."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in BY_POSITION]
