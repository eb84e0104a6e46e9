"""A copy of a model to run in its place: with tensors of its own, and without anybody's hooks.

What only a copy of its own could have, an open file for one, cannot be copied, and the copy raises that. Functions that
stand on a module in the place of its methods get a copy of what they hold, or they would run the model itself.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

from .before import Before

__all__ = ["Copies", "copied", "hooks_on", "is_large", "lines_of", "weightless"]

HOOKS = [name for name in vars(nn.Module()) if name.endswith("_hooks") and "state_dict" not in name]

LARGE = 1 << 28
"""Bytes of parameters and buffers from which on a copy has none."""

LOCKS: dict[type, Callable[[], object]] = {type(make()): make for make in (threading.Lock, threading.RLock)}


class Copies(TorchFunctionMode):
    """While something is copied deeply, `of` says what each of its tensors, but for parameters, becomes."""

    def __init__(self, of: Callable[[torch.Tensor, dict[int, Any]], object]) -> None:
        super().__init__()
        self.of = of

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        tensor, memo = args
        if id(tensor) not in memo:
            memo[id(tensor)] = self.of(tensor, memo)
        return memo[id(tensor)]


def hooks_on(model: nn.Module) -> list[object]:
    """Somebody's hooks on it that may change what it computes, which a copy then does not do."""
    names = [name for name in HOOKS if name.startswith("_forward")]
    held = (vars(module).get(name) for module in model.modules() for name in names)
    return [hook for hooks in held if isinstance(hooks, dict) for hook in hooks.values() if not is_of_torch(hook)]


def lines_of(hooks: Iterable[object]) -> set[tuple[str, int]]:
    """(file, line) of all that hooks written in Python run in their own code, and in functions inside of it."""
    codes = list(map(code_of, hooks))
    found: set[tuple[str, int]] = set()
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            found |= {(code.co_filename, line) for _, _, line in code.co_lines() if line is not None}
            codes += code.co_consts
    return found


def code_of(hook: object) -> object:
    """That of a function, of what a partial calls, or of an object that is called; None if it is no Python."""
    function = inspect.unwrap(getattr(hook, "func", hook))  # type: ignore[arg-type]
    return getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)


def is_large(model: nn.Module) -> bool:
    return sum(tensor.nbytes for tensor in chain(model.parameters(), model.buffers())) > LARGE


def copied(model: nn.Module, before: Before | None = None) -> nn.Module:
    """As the model is, or was `before`. Raises what copying one of the model's attributes raises.

    Of fake tensors there is nothing to copy.
    """
    tensors = chain(model.parameters(), model.buffers())
    with Copies(detached):
        fakes = {id(tensor): tensor for tensor in tensors if isinstance(tensor, FakeTensor)}
        return copied_with(model, fakes, before)


def weightless(model: nn.Module, mode: FakeTensorMode, before: Before | None = None) -> nn.Module:
    """A copy whose parameters and buffers have a shape and no memory, to be run under `mode`."""
    tensors = chain(model.parameters(), model.buffers())
    with Copies(lambda tensor, _: faked(tensor, mode)):
        return copied_with(model, {id(tensor): faked(tensor, mode) for tensor in tensors}, before)


def faked(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """Its fake; on the CPU if it is on meta."""
    if isinstance(tensor, FakeTensor):
        return tensor
    if not tensor.is_meta:
        return mode.from_tensor(tensor if tensor.is_leaf else tensor.detach())
    fake = FakeTensor(mode, tensor.detach(), torch.device("cpu"))
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake


def detached(tensor: torch.Tensor, memo: dict[int, Any]) -> object:
    """A copy that shares memory with the copies of what the tensor shares it with; torch copies no result of autograd,
    as a model holds that keeps its attention weights."""
    if tensor.is_leaf:
        return torch.Tensor.__deepcopy__(tensor, memo)
    return torch.Tensor.__deepcopy__(tensor.detach(), memo).requires_grad_(tensor.requires_grad)


def copied_with(model: nn.Module, memo: dict[int, Any], before: Before | None) -> nn.Module:
    """A copy of `model` that has what is in `memo` for what has this id in the model."""
    functions = Functions(memo)
    for module in model.modules():
        for name, value in vars(module).items():
            if name in HOOKS and value:
                memo[id(value)] = OrderedDict((key, hook) for key, hook in value.items() if is_of_torch(hook))
            elif type(value) in LOCKS:
                memo[id(value)] = LOCKS[type(value)]()
            elif isinstance(value, torch.Generator):
                memo[id(value)] = value.clone_state()
            elif isinstance(value, torch.jit.ScriptFunction):
                memo[id(value)] = value  # torch copies none
            elif isinstance(value, FunctionType):
                functions.add(value)
    own = copy.deepcopy(model, memo)
    functions.fill()
    for module, its in zip(model.modules(), own.modules(), strict=True):
        for name, value in vars(module).items():
            if isinstance(value, FunctionType):
                vars(its)[name] = memo.get(id(value), value)  # from Python 3.13 on a deep copy leaves functions alone
    if before is not None and own is not model:
        before.restore(own)
    return own


class Functions:
    """Copies of functions that hold, or have as a global, a module or a method of one; made before what they hold."""

    def __init__(self, memo: dict[int, Any]) -> None:
        self.memo = memo
        self.cells: list[tuple[CellType, CellType]] = []
        self.globals: list[tuple[FunctionType, list[str]]] = []

    def add(self, function: FunctionType) -> None:
        names = [name for name in function.__code__.co_names if is_of_module(function.__globals__.get(name))]
        closure = function.__closure__ or ()
        if id(function) in self.memo or not (closure or names):
            return
        own = tuple(CellType() for _ in closure)
        place = dict(function.__globals__) if names else function.__globals__
        made = FunctionType(function.__code__, place, function.__name__, function.__defaults__, own)
        made.__kwdefaults__, made.__dict__ = function.__kwdefaults__, dict(function.__dict__)
        self.memo[id(function)] = made
        self.globals.append((made, names))
        for cell, its in zip(closure, own, strict=True):
            with suppress(ValueError):  # it is empty until what it is for has been assigned
                held = cell.cell_contents
                self.cells.append((cell, its))
                if isinstance(held, FunctionType):
                    self.add(held)

    def fill(self) -> None:
        """Once the model is copied: a copy of what each cell and each such global holds."""
        for cell, its in self.cells:
            its.cell_contents = self.copy(cell.cell_contents)
        for made, names in self.globals:
            made.__globals__.update({name: self.copy(made.__globals__[name]) for name in names})

    def copy(self, held: Any) -> Any:
        if isinstance(held, FunctionType):
            return self.memo.get(id(held), held)
        if isinstance(held, ModuleType):
            return held
        try:
            return copy.deepcopy(held, self.memo)
        except Exception:
            if hasattr(held, "__next__"):  # to run it is to change it
                raise
            return held


def is_of_module(value: object) -> bool:
    return isinstance(value.__self__ if isinstance(value, MethodType) else value, nn.Module)


def is_of_torch(hook: object) -> bool:
    """Hooks that torch itself sets are part of the model: one normalises a weight before it is used."""
    return str(getattr(hook, "__module__", "")).startswith("torch.nn.")
