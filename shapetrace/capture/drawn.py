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

INIT: Any = torch.nn.init

DRAWING = frozenset({torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default})


class FewDrawn(TorchDispatchMode):
    """While it is active a large tensor that is filled with random numbers has the same few over and over."""

    def __enter__(self) -> FewDrawn:
        self.cut_off = INIT._no_grad_trunc_normal_
        INIT._no_grad_trunc_normal_ = self.draw_cut_off
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        INIT._no_grad_trunc_normal_ = self.cut_off

    def draw_cut_off(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """From a normal distribution that is cut off: torch computes with all that it draws, and more than once."""
        if not is_large(tensor):
            drawn: torch.Tensor = self.cut_off(tensor, *args, **kwargs)
            return drawn
        with torch.no_grad():
            return repeated(self.cut_off(tensor.new_empty(FEW), *args, **kwargs), tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func in DRAWING and is_large(args[0]):
            return repeated(func(args[0].new_empty(FEW), *args[1:], **(kwargs or {})), args[0])
        return func(*args, **(kwargs or {}))


FewDrawn.__torch_dispatch__ = getattr(  # type: ignore[method-assign]
    FewDrawn.__torch_dispatch__, "__wrapped__", FewDrawn.__torch_dispatch__
)
"""As it was written: what torch has put around it imports its compiler."""


def repeated(few: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, filled with `few` over and over."""
    flat = tensor.view(-1)
    whole = len(flat) // FEW * FEW
    flat[:whole].view(-1, FEW).copy_(few)
    flat[whole:].copy_(few[: len(flat) - whole])
    return tensor


def is_large(tensor: torch.Tensor) -> bool:
    return tensor.numel() > FEW and tensor.is_contiguous() and not isinstance(tensor, FakeTensor) and not tensor.is_meta
