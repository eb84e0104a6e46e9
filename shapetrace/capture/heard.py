"""Run a model and be told each tensor that a call gives, while it is there: its values, of which a trace keeps none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from .listener import Hear, Listener
from .slots import CallSlot
from .watch import Detail, Watch

__all__ = ["heard"]


def heard(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], hear: Hear, *, materialise: bool = False
) -> None:
    """One forward of `model`; `hear` is called with each result of its modules and functions, unwatched."""
    with (
        Watch(model, Detail(materialise=materialise), Listener(hear)) as watch,
        CallSlot(model, watch.hooks.run),
    ):
        model(*args, **kwargs)
