"""Run a model without its weights: floats are fake, with a shape and no memory, and integers are what they are.

Fake tensors go where a bare forward goes, by way of the kernels of their device; tensors on meta decompose fused
attention and so go another way. Models that look at values look at ids and masks as a rule, hardly ever at weights:
what is computed from integers and inputs alone is computed in earnest, as long as it is small.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
)

from ..contexts import context
from .bounds import within_bounds
from .compiled import Uncompiled
from .copied import weightless

__all__ = ["Weightless", "building", "built", "mode_of", "runnable", "within"]

MOST = 1 << 22
"""Elements of a tensor that is computed in earnest."""

aten = torch.ops.aten
DEVICE = torch.ops.prim.device.default
GROUPED = aten._grouped_mm.default if hasattr(aten, "_grouped_mm") else None
"""Since torch 2.8."""
FACTORIES = frozenset({aten.zeros, aten.ones, aten.empty, aten.full, aten.randint, aten.randperm, aten.eye})
STEPS = frozenset({aten.linspace, aten.logspace})
"""Made in earnest, though floats: a schedule of one number a layer, which the layers are built with."""


class Weightless(FakeTensorMode):
    """While it is active new floats have no memory."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.fake_tensor_converter = Forgetful()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is DEVICE and type(args[0]) is FakeTensor:
            return args[0].fake_device
        if FakeTensor not in types and is_earnest(func, args, kwargs or {}):
            return func(*args, **(kwargs or {}))
        args = spelled(func, args)
        within_bounds(func, args)
        if func is GROUPED and args[0].dtype != torch.bfloat16:
            return self.grouped(func, args, kwargs or {})
        return self.dispatch(func, types, args, kwargs or {})

    def grouped(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Kernels multiply experts of any float; what torch knows of them without running them is bfloat16 alone."""
        with self:
            lower = [arg.to(torch.bfloat16) if is_float(arg) else arg for arg in args]
            return func(*lower, **kwargs).to(args[0].dtype)


class Forgetful(FakeTensorConverter):
    """Refers to no result weakly: a module whose parameters anything refers to so cannot be converted, by `half()`."""

    def set_tensor_memo(self, t: Any, v: Any) -> None: ...


Weightless.__torch_dispatch__ = getattr(  # type: ignore[method-assign]
    Weightless.__torch_dispatch__, "__wrapped__", Weightless.__torch_dispatch__
)
"""As it was written: torch has put around it what keeps its compiler away, and takes a third of the time."""


@context
def building(mode: Weightless | None) -> Iterator[None]:
    """While it is active a model is built weightless, if there is a mode to build it in.

    torch draws from a normal distribution that is cut off until nothing lies outside: there is nothing to look at.
    """
    if mode is None:
        yield
        return
    init: Any = nn.init
    drawn = init._no_grad_trunc_normal_
    init._no_grad_trunc_normal_ = lambda tensor, *args, **kwargs: (
        tensor if isinstance(tensor, FakeTensor) else drawn(tensor, *args, **kwargs)
    )
    try:
        with mode:
            yield
    finally:
        init._no_grad_trunc_normal_ = drawn


def built(make: Callable[[], nn.Module], mode: Weightless | None) -> nn.Module:
    """A model that is built weightless; where its builder looks at what it computes it is built first, then made so."""
    try:
        with building(mode):
            return make()
    except (DataDependentOutputException, DynamicOutputShapeException):
        if mode is None:
            raise
        return weightless(make(), mode)


def is_float(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def mode_of(model: nn.Module) -> FakeTensorMode | None:
    """What a model that is on fake tensors runs under; None if it is on real ones."""
    fake = next((tensor for tensor in tensors_of(model) if isinstance(tensor, FakeTensor)), None)
    return None if fake is None else fake.fake_mode


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """Its parameters and buffers, some of them twice. torch's own way makes names, and takes ten times as long."""
    found: list[torch.Tensor | None] = []
    seen, left = {model}, [model]
    while left:
        module = left.pop()
        found += module._parameters.values()
        found += module._buffers.values()
        for child in module._modules.values():
            if child is not None and child not in seen:
                seen.add(child)
                left.append(child)
    return [tensor for tensor in found if tensor is not None]


def within(model: nn.Module) -> AbstractContextManager[object]:
    """What a forward of `model` is to be run in: fake tensors beside which it is given real ones."""
    mode = mode_of(model)
    return nullcontext() if mode is None else Beside(mode)


LOG = logging.getLogger(FakeTensorMode.__module__)
"""Where torch writes the traceback of what a function refuses, beside raising it."""


class Beside(AbstractContextManager[object]):
    """A fake mode that takes real tensors as well, as long as it is active here, and raises without a word."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self.before: list[tuple[bool, Uncompiled]] = []

    def filter(self, _: logging.LogRecord) -> bool:
        return False

    def __enter__(self) -> None:
        eager = Uncompiled()  # what is compiled would read memory that is not there
        eager.__enter__()
        self.before.append((self.mode.allow_non_fake_inputs, eager))
        self.mode.allow_non_fake_inputs = True
        LOG.addFilter(self)
        self.mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)
        self.mode.allow_non_fake_inputs, eager = self.before.pop()
        eager.__exit__(*error)
        if not self.before:
            LOG.removeFilter(self)


def runnable(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> nn.Module:
    """A model that can take these: itself, or for one on meta that is given real tensors a weightless copy."""
    with torch._C.DisableTorchFunction():  # whoever watches is not to see it
        is_meta = any(tensor.is_meta and not isinstance(tensor, FakeTensor) for tensor in tensors_of(model))
        if not is_meta or not any(is_real(value) for value in flat((*args, *kwargs.values()))):
            return model
    return weightless(model, Weightless())


def is_real(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and not value.is_meta


def spelled(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a lookup, with the places at which a mask says yes instead of the mask, where that is known."""
    if getattr(func, "overloadpacket", None) not in (aten.index, aten.index_put, aten.index_put_):
        return args
    x, indices, *rest = args
    found: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype != torch.bool or not is_real(index):
            found.append(index)
            continue
        for dim, size in enumerate(index.shape):
            if x.shape[len(found) + dim : len(found) + dim + 1] != (size,):
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {dim} does not match the shape of the "
                    f"indexed tensor {list(x.shape)} at index {len(found) + dim}"
                )
        found += index.nonzero().unbind(1)
    return (x, found, *rest)


def is_earnest(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an op that is given no fake tensor is to be run as it is."""
    if (device := kwargs.get("device")) is not None and device.type != "cpu":
        return False
    given = [arg for arg in flat((*args, *kwargs.values())) if isinstance(arg, torch.Tensor)]
    if given:
        try:
            return bool(math.prod(torch.broadcast_shapes(*(tensor.shape for tensor in given))) <= MOST)
        except RuntimeError:  # they do not broadcast, as in a product or a lookup
            return sum(tensor.numel() for tensor in given) <= MOST
    packet = getattr(func, "overloadpacket", None)
    dtype = kwargs.get("dtype", torch.int64 if packet is aten.randint else None)
    if packet is aten.arange:
        numbers = [arg for arg in args if isinstance(arg, int | float)]
        return is_whole(dtype) if dtype is not None else all(isinstance(number, int) for number in numbers)
    if packet in STEPS:
        return True
    if packet in FACTORIES and is_whole(dtype):
        return bool(not args or not isinstance(args[0], list | tuple) or math.prod(args[0]) <= MOST)
    return False


def is_whole(dtype: torch.dtype | None) -> bool:
    return dtype is not None and not dtype.is_floating_point and not dtype.is_complex


def flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield value
