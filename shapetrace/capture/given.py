"""What a forward was given, kept so that it can be given again at other sizes.

It is copied before the forward runs, which may change it: a cache grows. Of large floats only the form is kept, so that
no memory is; integers, which the model may look up, and what is small, which it may branch on, are copied. At another
size a dim repeats itself, or lacks its middle: padding is at either end of a mask.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor

from .annotations import Annotation, annotated, fitting
from .copied import Copies
from .stacks import without_modes
from .structures import collect
from .tensors import PLAIN

__all__ = ["CannotProbe", "Given", "Held", "given"]

MOST_INTEGERS, MOST_FLOATS = 1 << 22, 1 << 16
"""Elements of a tensor whose values are worth keeping."""


class CannotProbe(Exception):
    """Why a model cannot be run again."""


class Held(msgspec.Struct, frozen=True):
    """A tensor that was given: its name among the arguments, its axes if declared, its values if they are kept.

    unlike  the annotation, if it is not as that says
    twin    the number of an earlier one that is the very same tensor
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[str | None, ...]
    unlike: str
    dtype: torch.dtype
    device: torch.device
    values: torch.Tensor | None
    requires_grad: bool
    twin: int | None

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point or self.dtype.is_complex

    def at(self, shape: tuple[int, ...], generator: torch.Generator, *, redrawn: bool) -> torch.Tensor:
        """Such a tensor in another shape of the same rank."""
        values = self.values
        if isinstance(values, FakeTensor):
            return values.new_empty(shape).requires_grad_(self.requires_grad)
        if values is None:
            values = torch.randn(shape, generator=generator) if self.is_float else torch.zeros(shape)
            return values.to(self.device, self.dtype).requires_grad_(self.requires_grad)
        for dim, (size, old) in enumerate(zip(shape, self.shape, strict=True)):
            if size != old:
                values = values.index_select(dim, places(size, old).to(values.device))
        if redrawn and values.dim() > 1 and values.numel():  # one of rank 1 may say where others begin
            values = drawn(values, generator)
        return values.clone().requires_grad_(self.requires_grad)


def places(size: int, old: int) -> torch.Tensor:
    """Of a dim that was `old` long those places that make it `size` long."""
    if size >= old:
        return torch.arange(size) % max(old, 1)
    first = torch.arange(size)
    return torch.where(first < (size + 1) // 2, first, first + old - size)


def drawn(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A tensor of the same shape with values from among these. If there are two of them, as in a mask, both are there:
    a model may leave out what a mask does that masks nothing."""
    found = values.flatten()[torch.randint(values.numel(), values.shape, generator=generator).to(values.device)]
    kinds = values.unique()
    if len(kinds) == 2 and len(found.unique()) == 1:
        place = int(torch.randint(found.numel(), (), generator=generator))
        found.view(-1)[place] = kinds[kinds != found.flatten()[0]][0]
    return found


class Stand:
    """Stands where a tensor was, in a copy of the arguments."""


class Given(msgspec.Struct, frozen=True):
    """The arguments of a forward, with one of `stands` in the place of each of their tensors, which are `held`.

    written   the annotations of these, and of what the forward returns
    """

    held: tuple[Held, ...]
    stands: tuple[Stand, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    written: Mapping[str, Sequence[Annotation]] = {}

    def at(
        self, shapes: Mapping[int, tuple[int, ...]], seed: int, *, redrawn: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments again, those tensors whose number is in `shapes` in another shape; and drawn from
        among their values if what goes by them is to come out differently."""
        generator = torch.Generator().manual_seed(seed)
        made: list[torch.Tensor] = []
        for number, tensor in enumerate(self.held):
            shape = shapes.get(number, tensor.shape)
            is_same = tensor.twin is not None and tuple(made[tensor.twin].shape) == shape
            made.append(made[tensor.twin or 0] if is_same else tensor.at(shape, generator, redrawn=redrawn))
        memo: dict[int, Any] = {id(stand): tensor for stand, tensor in zip(self.stands, made, strict=True)}
        with Copies(lambda tensor, _: tensor.detach().clone()):
            args, kwargs = copy.deepcopy((self.args, self.kwargs), memo)
        return args, kwargs


def given(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
    """What `forward` is about to be given. Its tensors are named as `forward` names its parameters.

    `CannotProbe` if there is something in it that cannot be made again.
    """
    try:
        with without_modes():
            return Taking(forward).taken(args, kwargs)
    except CannotProbe:
        raise
    except Exception as error:  # a structure of the user's may fail when it is looked into, or hold itself
        raise CannotProbe(f"its arguments cannot be copied: {type(error).__name__}") from None


class Taking:
    """A copy of the arguments in the making."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.names = positions(forward)
        self.written = annotated(forward)
        self.held: list[Held] = []
        self.stands: list[Stand] = []
        self.first: dict[int, int] = {}

    def taken(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
        names = [*self.names, *map(str, range(len(self.names), len(args)))]
        own = tuple(self.copy(name, value) for name, value in zip(names, args, strict=False))
        named = {name: self.copy(name, value) for name, value in kwargs.items()}
        return Given(tuple(self.held), tuple(self.stands), own, named, self.written)

    def copy(self, name: str, value: Any) -> Any:
        """Of one argument: the tensors that it shows go first, in their order, then those that it hides, as a cache."""
        memo: dict[int, Any] = {}
        with torch._C.DisableTorchFunction():
            shown = collect(value, "", {})
            for _, tensor in shown:
                if id(tensor) not in memo:
                    memo[id(tensor)] = self.stand(name, tensor, is_whole=tensor is value)
        with Copies(lambda tensor, _: self.stand(name, tensor, is_whole=False)):
            return copy.deepcopy(value, memo)

    def stand(self, name: str, tensor: torch.Tensor, *, is_whole: bool) -> Stand:
        with torch._C.DisableTorchFunction():
            written = self.written.get(name, ()) if is_whole else ()
            axes, unlike = fitting(written, tensor.shape, str(tensor.dtype).removeprefix("torch."))
            twin = self.first.setdefault(id(tensor), len(self.held))
            self.held.append(hold(name, tensor, axes, unlike, twin if twin < len(self.held) else None))
        self.stands.append(Stand())
        return self.stands[-1]


def hold(name: str, tensor: torch.Tensor, axes: tuple[str | None, ...], unlike: str, twin: int | None) -> Held:
    if type(tensor) not in PLAIN or tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = type(tensor).__name__ if type(tensor) not in PLAIN else "sparse, nested or quantised tensor"
        raise CannotProbe(f"it is given a {kind}")
    is_float = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    is_kept = tensor.numel() <= (MOST_FLOATS if is_float else MOST_INTEGERS)
    values = tensor.detach().clone() if is_kept or isinstance(tensor, FakeTensor) else None
    return Held(
        name, tuple(tensor.shape), axes, unlike, tensor.dtype, tensor.device, values,
        tensor.requires_grad, twin,
    )  # fmt: skip


def positions(forward: Callable[..., Any]) -> list[str]:
    """The names of the parameters of `forward` that can be given by position."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]
