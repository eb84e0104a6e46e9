"""Elements of what no call of a forward makes: of the buffers of a model, and of what it was given."""

from __future__ import annotations

import weakref

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from ..schema import TensorMeta
from .given import Given
from .tensors import PLAIN
from .undisturbed import without_modes

__all__ = ["HeldElements"]


class HeldElements:
    """Looks up single elements, of masks as a rule. It keeps no model alive.

    given   what the model was given; its values are those before it ran
    """

    def __init__(self, model: nn.Module, given: Given | None) -> None:
        self.model = weakref.ref(model)
        self.given = given

    def __call__(self, meta: TensorMeta, key: str, index: tuple[int, ...]) -> float | None:
        """Of the buffer that `meta` names, or of the argument `key`; None if its values are not to be had."""
        tensor = self.tensor(meta.name, key)
        if type(tensor) not in PLAIN or tensor is None or isinstance(tensor, FakeTensor) or tensor.is_meta:
            return None
        try:
            with without_modes(), torch.no_grad():
                return float(tensor[index].item()) if tuple(tensor.shape) == meta.shape else None
        except (RuntimeError, TypeError):
            return None

    def tensor(self, name: str | None, key: str) -> torch.Tensor | None:
        if name is None:
            found = [held.values for held in self.given.held if held.name == key] if self.given and key else []
            return found[0] if len(found) == 1 else None
        model = self.model()
        try:
            return None if model is None else model.get_buffer(name)
        except AttributeError:  # a parameter, or gone
            return None
