"""Rows and columns of images, which are no length."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..letters import is_unknown

__all__ = ["rows_of_images"]

RANK = 4


def rows_of_images(given: Collection[tuple[str | int, ...]], seen: Iterable[tuple[str | int, ...]]) -> set[str]:
    """The letters that only images have, [B, channels, rows, columns], where these are cut in pieces: a model that has
    as many pieces as rows by chance has no length that is one.

    given   the axes of what the model is given
    seen    those of all tensors
    """
    having = [(letter, dim, len(found)) for found in given for dim, letter in enumerate(found) if is_unknown(letter)]
    others = {letter for letter, dim, rank in having if dim < 2 or rank < RANK}
    rows = {str(letter) for letter, _, _ in having} - {*map(str, others)}
    cut = {str(axis) for found in seen for axis in found if "/" in str(axis)} if rows else set()
    return {letter for letter in rows if any(axis.startswith(f"{letter}/") for axis in cut)}
