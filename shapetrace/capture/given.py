"""What a forward was given, kept so that it can be given again at other sizes.

Of the tensors nothing stays alive: integers and booleans, which the model may look up or branch on, are copied, and of
floats only the form is kept. At another size a dim repeats itself, or is cut off.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
from torch.utils import _pytree as pytree

from .structures import ARGUMENTS
from .tensors import PLAIN
from .undisturbed import without_modes

__all__ = ["CannotProbe", "Given", "Held", "given"]

MOST_COPIED = 1 << 22
"""Elements of an integer tensor that are worth keeping."""


class CannotProbe(Exception):
    """Why a model cannot be run again."""


class Held(msgspec.Struct, frozen=True):
    """A tensor that was given: its name among the arguments, and its values where they are integers."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    values: torch.Tensor | None

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point or self.dtype.is_complex

    def at(self, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        """Such a tensor in another shape of the same rank."""
        if self.values is None:
            drawn = torch.randn(shape, generator=generator)
            return drawn.to(self.device, self.dtype)
        values = self.values
        for dim, (size, old) in enumerate(zip(shape, self.shape, strict=True)):
            if size != old:
                values = values.index_select(dim, torch.arange(size, device=values.device) % max(old, 1))
        return values.clone()


class Given(msgspec.Struct, frozen=True):
    """The arguments of a forward. `held` are their tensors; `others` is all else, in its place."""

    held: tuple[Held, ...]
    others: list[Any]
    places: dict[int, int]
    form: pytree.TreeSpec

    def at(self, shapes: Mapping[int, tuple[int, ...]], seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments again, those tensors whose number is in `shapes` in another shape."""
        generator = torch.Generator().manual_seed(seed)
        leaves = list(map(again, self.others))
        for number, place in self.places.items():
            tensor = self.held[number]
            leaves[place] = tensor.at(shapes.get(number, tensor.shape), generator)
        args, kwargs = pytree.tree_unflatten(leaves, self.form)
        return args, kwargs


def given(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    """What `forward` is about to be given. Its tensors are named as `forward` names its parameters.

    `CannotProbe` if there is something in it that cannot be made again.
    """
    try:
        with without_modes(), torch._C.DisableTorchFunction():
            return taken(forward, args, kwargs)
    except CannotProbe:
        raise
    except Exception as error:  # a structure of the user's may fail when it is looked into, or hold itself
        raise CannotProbe(f"its arguments cannot be copied: {type(error).__name__}") from None


def taken(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    paths, form = pytree.tree_flatten_with_path((args, dict(kwargs)))
    names = positions(forward, len(args))
    held: list[Held] = []
    others: list[Any] = []
    places: dict[int, int] = {}
    for index, (path, leaf) in enumerate(paths):
        if isinstance(leaf, torch.Tensor):
            places[len(held)] = index
            held.append(hold(named(path, names), leaf))
            others.append(None)
        else:
            others.append(leaf)
    return Given(tuple(held), others, places, form)


def hold(name: str, tensor: torch.Tensor) -> Held:
    if type(tensor) not in PLAIN or tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = type(tensor).__name__ if type(tensor) not in PLAIN else "sparse, nested or quantised tensor"
        raise CannotProbe(f"it is given a {kind}")
    is_kept = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) and tensor.numel() <= MOST_COPIED
    values = tensor.detach().clone() if is_kept else None
    return Held(name, tuple(tensor.shape), tensor.dtype, tensor.device, values)


def again(leaf: Any) -> Any:
    """What is no tensor: a number as it is, anything else as a copy, for the model may change it."""
    return (
        leaf if type(leaf) in ARGUMENTS or isinstance(leaf, str | torch.dtype | torch.device) else copy.deepcopy(leaf)
    )


def positions(forward: Callable[..., Any], count: int) -> list[str]:
    """The names of the first parameters of `forward`; numbers where it has none."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    return [*names, *map(str, range(len(names), count))]


def named(path: tuple[Any, ...], names: list[str]) -> str:
    """The name of the argument that a leaf is in."""
    kind, entry = path[0], path[1]
    return names[entry.idx] if kind.idx == 0 else str(entry.key)
