"""Which argument, or which result, of a call is which of the other call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..schema import TensorMeta

__all__ = ["keyed"]


def keyed(
    ours: Mapping[str, TensorMeta], theirs: Mapping[str, TensorMeta], roles: Callable[[int, str], str] | None = None
) -> list[tuple[str | None, str | None]]:
    """The keys that go together: equal ones, then those of equal roles, of names that end alike, and the rest by order
    if it is as many on both sides. None where there is no other.

    `roles` says more of them than the tensors do: of the side, 0 or 1, and a key.
    """
    if ours.keys() == theirs.keys():
        return [(key, key) for key in ours]
    found = {key: key for key in ours if key in theirs and roles is None}
    left = {key: ours[key].role or (roles(0, key) if roles else "") for key in ours}
    right = {key: theirs[key].role or (roles(1, key) if roles else "") for key in theirs}

    def pair(alike: Callable[[str, str], object]) -> None:
        free, others = [key for key in ours if key not in found], [key for key in theirs if key not in found.values()]
        fit = [(key, other) for key in free for other in others if alike(key, other)]
        for key, other in fit:
            if sum(key == a for a, _ in fit) == sum(other == b for _, b in fit) == 1:
                found[key] = other

    def compatible(key: str, other: str) -> bool:
        numbers = [tensor.dtype.startswith(("int", "uint", "bool")) for tensor in (ours[key], theirs[other])]
        return numbers[0] == numbers[1] and not (left[key] and right[other])

    pair(lambda key, other: left[key] and left[key] == right[other])
    pair(lambda key, other: key == other)
    pair(lambda key, other: key and other and (key.endswith(other) or other.endswith(key)))
    rest, others = [key for key in ours if key not in found], [key for key in theirs if key not in found.values()]
    if len(rest) == len(others) and all(compatible(a, b) for a, b in zip(rest, others, strict=True)):
        found |= dict(zip(rest, others, strict=True))
    paired: list[tuple[str | None, str | None]] = [(key, found.get(key)) for key in ours]
    return [*paired, *((None, other) for other in theirs if other not in found.values())]
