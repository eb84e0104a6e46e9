"""What torch runs although its sizes do not fit: fused attention with more keys than values, or fewer.

Whether it raises goes by the device, by the number of dims and by the version. Where it does not it reads what lies
behind the shorter of them, and on fake tensors nothing at all: that a model runs at some sizes says nothing then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..passes.roles.functions import FUSED

__all__ = ["NoMisfits"]


class NoMisfits(TorchFunctionMode):
    """While it is active such a call raises, as any other does whose sizes do not fit."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "").lstrip("_") in FUSED:
            fitting(*(args[at] if at < len(args) else kwargs[name] for at, name in ((1, "key"), (2, "value"))))
        return func(*args, **kwargs)


def fitting(key: torch.Tensor, value: torch.Tensor) -> None:
    if not key.is_nested and not value.is_nested and key.shape[-2:-1] != value.shape[-2:-1]:
        raise RuntimeError(f"there are not as many keys {tuple(key.shape)} as values {tuple(value.shape)}")
