"""Weights for a model that is run once, to see its shapes: drawn from a few numbers, for drawing each takes longer than
all else."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["FewDrawn"]

FEW = 4099
"""A prime: rows of a weight are not each other's copies."""

DRAWING = frozenset({torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default})


class FewDrawn(TorchDispatchMode):
    """While it is active a large tensor that is filled with random numbers has the same few over and over."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func in DRAWING and is_large(args[0]):
            few = func(args[0].new_empty(FEW), *args[1:], **(kwargs or {}))
            flat = args[0].view(-1)
            whole = len(flat) // FEW * FEW
            flat[:whole].view(-1, FEW).copy_(few)
            flat[whole:].copy_(few[: len(flat) - whole])
            return args[0]
        return func(*args, **(kwargs or {}))


FewDrawn.__torch_dispatch__ = getattr(  # type: ignore[method-assign]
    FewDrawn.__torch_dispatch__, "__wrapped__", FewDrawn.__torch_dispatch__
)
"""As it was written: what torch has put around it imports its compiler."""


def is_large(tensor: torch.Tensor) -> bool:
    return tensor.numel() > FEW and tensor.is_contiguous() and not isinstance(tensor, FakeTensor) and not tensor.is_meta
