"""Which row shows a role that was found on a tensor without a row of its own."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..schema import TensorMeta
from .row import Row

__all__ = ["Bearers"]


class Bearers:
    """The rows by the tensors that they show.

    A role may stand on a call that is out of sight: on dropout that did nothing, on a view inside of a closed module.
    The row of the same tensor, or else of all the same memory, bears it then.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.places: dict[object, int] = {}

    def add(self, tensor: TensorMeta) -> None:
        """The row that was added last shows `tensor`."""
        self.places.update(dict.fromkeys(keys(tensor), len(self.rows) - 1))

    def hand(self, hidden: Iterable[TensorMeta], since: int = 0) -> None:
        """Hand each role to a row without one, from the row at `since` on; the first of several is what stays."""
        for tensor in hidden:
            place = next((self.places[key] for key in keys(tensor) if key in self.places), -1)
            if tensor.role is not None and place >= since and not self.rows[place].role:
                self.rows[place] = msgspec.structs.replace(self.rows[place], role=tensor.role)


def keys(tensor: TensorMeta) -> list[object]:
    """What tells the tensor from others, and its memory; nothing in a portable trace."""
    memory = [("memory", tensor.storage, tensor.nbytes)] if tensor.storage is not None else []
    return [] if tensor.number is None else [tensor.number, *memory]
