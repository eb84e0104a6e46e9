"""Which axis of the input is the batch, which a length: told by what attention does with it.

The weights of attention are [B, H, T, S]: the last dim is the length that keys and values come from, the one before
that of the queries, and what the input has besides is the batch. A model without attention has B and T if it looks up
ids, which are [B, T], and B if there is nothing else that could change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from ..schema import TensorMeta, Trace

__all__ = ["settled"]

AxesOf = Callable[[int, str, str, TensorMeta], tuple[str | int, ...]]

INTEGERS = ("int", "uint")


def settled(trace: Trace, axes: AxesOf) -> dict[str, str]:
    """Of each small letter in the sizes of `trace` the letter that it is, where that is known."""
    unknown = [letter for letter in trace.sizes if letter.islower()]
    if not unknown:
        return {}
    weights = [axes(*place) for place in tensors(trace, lambda tensor: tensor.role == "weights")]
    found = lengths(weights)
    for letter, _ in Counter(small for each in weights for small in leading(each)).most_common():
        if letter not in found and "B" not in found.values():
            found[letter] = "B"
    if not weights:
        found = of_ids(trace, axes)
    left = [letter for letter in unknown if letter not in found]
    if len(left) == 1 and "B" not in found.values() and is_first(trace, axes, left[0]):
        found[left[0]] = "B"
    return found


def lengths(weights: list[tuple[str | int, ...]]) -> dict[str, str]:
    """The letters that are the length of queries and, where it is another, of keys."""
    pairs = Counter((each[-2], each[-1]) for each in weights if len(each) > 1)
    alone = {q: count for (q, k), count in pairs.items() if q == k}
    for (q, k), _ in pairs.most_common():
        if q != k and is_small(q) and is_small(k):
            return {str(q): "T", str(k): "S"}
    found = [str(q) for q in alone if is_small(q)]
    return {found[0]: "T"} if len(found) == 1 else {}


def leading(axes: tuple[str | int, ...]) -> Iterator[str]:
    """The small letters in all dims of weights but the two lengths."""
    for axis in axes[:-2]:
        yield from re.findall("[a-z]", str(axis))


def of_ids(trace: Trace, axes: AxesOf) -> dict[str, str]:
    """Without attention: the letters of the ids that the model is given."""
    for index, place, key, tensor in tensors(trace, lambda tensor: tensor.dtype.startswith(INTEGERS), first=1):
        match axes(index, place, key, tensor):
            case (str(batch), str(length)) if is_small(batch) and is_small(length) and place == "inputs":
                return {batch: "B", length: "T"}
    return {}


def is_first(trace: Trace, axes: AxesOf, letter: str) -> bool:
    """Whether it is the first dim of all that the model is given; of a tensor of rank 3 that may be a length."""
    given = [(axes(*place), place[3]) for place in tensors(trace, lambda _: True, first=1) if place[1] == "inputs"]
    return all(letter not in map(str, found) or (found[0] == letter and len(found) != 3) for found, _ in given)


def is_small(axis: str | int) -> bool:
    return isinstance(axis, str) and len(axis) == 1 and axis.islower()


def tensors(
    trace: Trace, wanted: Callable[[TensorMeta], bool], first: int | None = None
) -> Iterator[tuple[int, str, str, TensorMeta]]:
    """The wanted tensors of the first calls, each with its place."""
    for index, call in enumerate(trace.calls[:first]):
        for place in ("inputs", "outputs", "unmade"):
            tensors: dict[str, TensorMeta] = getattr(call, place)
            yield from ((index, place, key, tensor) for key, tensor in tensors.items() if wanted(tensor))
