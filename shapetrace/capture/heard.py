"""Run a model and be told each tensor that a call gives, while it is there: its values, of which a trace keeps none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from .noted import NotedModule
from .recorder import Recorder
from .slots import CallSlot
from .structures import collect
from .watch import Detail, Watch

__all__ = ["heard"]

Hear = Callable[[torch.Tensor], object]


class Listener(Recorder):
    """Tells of each result when its call ends, which is the order in which `records` has the results of a trace."""

    is_quick = False

    def __init__(self, hear: Hear) -> None:
        self.hear = hear
        super().__init__()

    def run(self, *call: Any) -> Any:
        result = super().run(*call)
        self.tell(result)
        return result

    def leave(self, noted: NotedModule, result: object, error: BaseException | None) -> None:
        super().leave(noted, result, error)
        if error is None:
            self.tell(result)

    def tell(self, result: object) -> None:
        with torch._C.DisableTorchFunction():
            for _, tensor in collect(result, "", {}):
                self.hear(tensor)


def heard(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], hear: Hear, *, materialise: bool = False
) -> None:
    """One forward of `model`; `hear` is called with each result of its modules and functions, unwatched."""
    with (
        Watch(model, Detail(materialise=materialise), Listener(hear)) as watch,
        CallSlot(model, watch.hooks.run),
    ):
        model(*args, **kwargs)
