"""A copy of a model to run in its place: with tensors of its own, and without anybody's hooks."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = ["copied", "is_large", "weightless"]

HOOKS = [
    name
    for name in vars(nn.Module())
    if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")) and "state_dict" not in name
]

LARGE = 1 << 28
"""Bytes of parameters and buffers from which on a copy has none."""


def is_large(model: nn.Module) -> bool:
    return sum(tensor.nbytes for tensor in chain(model.parameters(), model.buffers())) > LARGE


def copied(model: nn.Module) -> nn.Module:
    """Raises what copying one of the model's attributes raises."""
    return without_hooks(copy.deepcopy(model))


def weightless(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """A copy whose parameters and buffers have a shape and no memory, to be run under `mode`."""
    fakes: dict[int, Any] = {}
    for tensor in chain(model.parameters(), model.buffers()):
        fakes[id(tensor)] = mode.from_tensor(tensor)
    return without_hooks(copy.deepcopy(model, fakes))


def without_hooks(model: nn.Module) -> nn.Module:
    for module in model.modules():
        for name in HOOKS:
            if hooks := module.__dict__.get(name):
                hooks.clear()
    return model
