"""A recorder that tells of each tensor that a call gives or changes, while it is there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import FrameType
from typing import Any

import torch

from .noted import WRITTEN, Function, NotedModule
from .recorder import Recorder
from .structures import collect

__all__ = ["Hear", "Listener"]

Hear = Callable[[torch.Tensor], object]


class Listener(Recorder):
    """Tells of each result when its call ends, and of what a function changed and does not give: in the order in which
    `records_and_writes` has those of a trace."""

    is_quick = False

    def __init__(self, hear: Hear) -> None:
        self.hear = hear
        super().__init__()

    def run(
        self, what: Function, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, frame: FrameType | None
    ) -> Any:
        at = len(self.calls)
        result = super().run(what, function, args, kwargs, frame)
        self.tell(result)
        for noted in self.calls[at : at + 1]:
            if isinstance(noted, tuple) and noted[WRITTEN]:
                self.tell_changed(noted[WRITTEN], (*args, *(kwargs or {}).values()), result)
        return result

    def leave(self, noted: NotedModule, result: object, error: BaseException | None) -> None:
        super().leave(noted, result, error)
        if error is None:
            self.tell(result)

    def tell(self, result: object) -> None:
        with torch._C.DisableTorchFunction():
            for _, tensor in collect(result, "", {}):
                self.hear(tensor)

    def tell_changed(self, written: Collection[int], values: Iterable[object], result: object) -> None:
        """Of those arguments with the numbers in `written` that are no result."""
        with torch._C.DisableTorchFunction():
            told = {self.table.number_of(tensor) for _, tensor in collect(result, "", {})}
            for value in values:
                for _, tensor in collect(value, "", {}):
                    number = self.table.number_of(tensor)
                    if number in written and number not in told:
                        told.add(number)
                        self.hear(tensor)
