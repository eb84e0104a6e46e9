"""Elements of what no call of a forward makes: of the buffers of a model, and of what it was given."""

from __future__ import annotations

import weakref

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from ..schema import TensorMeta
from .given import Given
from .stacks import without_modes
from .tensors import PLAIN

__all__ = ["HeldElements"]

MOST = 1 << 24
"""Elements of a tensor that is looked at."""


class HeldElements:
    """Looks up single elements, of masks and of positions. It keeps no model alive.

    given   what the model was given; its values are those before it ran
    """

    def __init__(self, model: nn.Module, given: Given | None) -> None:
        self.model = weakref.ref(model)
        self.given = given
        self.near: dict[tuple[str | None, str], torch.Tensor | None] = {}

    def __call__(self, meta: TensorMeta, key: str, index: tuple[int, ...]) -> float | None:
        """Of the buffer that `meta` names, or of the argument `key`; None if its values are not to be had."""
        place = meta.name, key
        try:
            with without_modes(), torch.no_grad():
                if place not in self.near:
                    self.near[place] = near(self.tensor(*place))
                tensor = self.near[place]
                return float(tensor[index].item()) if tensor is not None and tensor.shape == meta.shape else None
        except Exception:  # under a mode of torch's own it may have no numbers to give
            return None

    def tensor(self, name: str | None, key: str) -> torch.Tensor | None:
        if name is None:
            found = [held for held in self.given.held if held.name == key] if self.given and key else []
            return found[0].values if len(found) == 1 else None
        model = self.model()
        try:
            return None if model is None else model.get_buffer(name)
        except AttributeError:  # a parameter, or gone
            return None


def near(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The numbers of a tensor where they are read without waiting for a device each time; None if it has none."""
    if tensor is None or type(tensor) not in PLAIN or isinstance(tensor, FakeTensor) or tensor.is_meta:
        return None
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_nested or tensor.is_quantized:
        return None
    return tensor.detach().cpu() if tensor.numel() <= MOST else None
