"""What was looked up and is not there: no record has it, for it is a value."""

from __future__ import annotations

import msgspec

__all__ = ["Outlier"]


class Outlier(msgspec.Struct, frozen=True):
    """A number that is no row of a table: the first of `count`, and its place in the tensor of ids."""

    number: int
    place: tuple[int, ...]
    count: int
