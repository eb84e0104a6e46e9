"""What a model was before its forward ran, as far as it can be kept at no cost.

A forward may count, keep what it made, or fill a cache: what runs again is to begin where it began. Numbers, texts and
what was not there yet are kept, and how long lists were; tensors are not, for they would stay alive.
"""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["Before"]

KEPT = (bool, int, float, str, type(None))

OF_TORCH = frozenset(vars(nn.Module())) - {"training"}
"""What torch itself keeps in a module."""


class Before:
    """The plain attributes of each module of a model, by its path."""

    def __init__(self, model: nn.Module) -> None:
        self.parts = {path: (type(module), attributes(module)) for path, module in model.named_modules()}

    def restore(self, copy: nn.Module) -> None:
        """Make a copy of the model, which is its own from top to bottom, what the model was."""
        for path, module in copy.named_modules():
            kind, before = self.parts.get(path, (None, {}))
            if kind is not type(module):  # a lazy module has become another
                continue
            now = vars(module)
            for name in [name for name in now if name not in before and name not in OF_TORCH]:
                del now[name]
            for name, value in before.items():
                if isinstance(value, Length):
                    if isinstance(now.get(name), list):
                        del now[name][value:]
                elif isinstance(value, KEPT):
                    now[name] = value


class Length(int):
    """Of a list."""


OTHER = object()


def attributes(module: nn.Module) -> dict[str, Any]:
    """Name -> value, or what stands for one that is not kept."""
    return {
        name: value if type(value) in KEPT else Length(len(value)) if type(value) is list else OTHER
        for name, value in vars(module).items()
        if name not in OF_TORCH
    }
