"""A recorder that tells of each tensor that a call gives, while it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .noted import NotedModule
from .recorder import Recorder
from .structures import collect

__all__ = ["Hear", "Listener"]

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
