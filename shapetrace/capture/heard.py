"""Run a model and be told each tensor that a call gives, while it is there: its values, of which a trace keeps none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from ..schema import TensorMeta
from .hooks import CallSlot
from .recorder import Recorder
from .structures import collect
from .watch import Detail, Watch

__all__ = ["heard"]

Hear = Callable[[torch.Tensor], object]


class Listener(Recorder):
    """Tells of each result when its call ends, which is the order in which `records` has the results of a trace."""

    def __init__(self, hear: Hear) -> None:
        self.hear = hear
        super().__init__()

    def outputs(self, result: Any) -> dict[str, TensorMeta]:
        found = super().outputs(result)
        if found:
            tensors = dict(collect(result, "", {}))
            for key in found:
                self.hear(tensors[key])
        return found


def heard(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], hear: Hear, *, materialise: bool = False
) -> None:
    """One forward of `model`; `hear` is called with each result of its modules and functions, unwatched."""
    with (
        Watch(model, Detail(materialise=materialise), Listener(hear)) as watch,
        CallSlot(model, partial(watch.hooks.run, model)),
    ):
        model(*args, **kwargs)
