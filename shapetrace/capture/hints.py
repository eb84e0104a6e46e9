"""What keeps axes from being named, and what would help: no more than was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

from ..schema import Trace
from .probe import Probes

__all__ = ["unnamed"]

OF_INPUT, BESIDE_LENGTHS = "BTSP", "BHSP"
"""Letters for what is left, as far as there are any: where T is known, heads may be."""

Sizes = Mapping[str, int]


def unnamed(
    probes: Probes, left: Sequence[int], known: Iterable[str], given: Sizes, named: Callable[[Sizes], Trace]
) -> Iterator[str]:
    """`left` are sizes of axes of the input without a letter, `known` the letters that have a size, `given` those that
    the user gave one; `named` is the trace if these were others."""
    if not probes.runs:
        yield f"axes are not named: {probes.reason}"
    elif left:
        sizes = ", ".join(map(str, left))
        yield f"axes: nothing tells which of the input's axes ({sizes}) is which{declaring(left, known, given, named)}"


def declaring(left: Sequence[int], known: Iterable[str], given: Sizes, named: Callable[[Sizes], Trace]) -> str:
    """The end of a sentence: what to say of sizes that have no letter; "" if nothing would help."""
    letters = {*known}
    free = [letter for letter in (BESIDE_LENGTHS if "T" in letters else OF_INPUT) if letter not in letters]
    if len(left) == 1 and free[:1] == ["B"] and "T" not in letters:
        free = free[1:]  # a row of tokens, rather than a batch of numbers
    if len(left) > len(free):
        return ""
    if len({*left}) < len(left):
        return f"; where their sizes differ axes='{' '.join(f'{letter}=…' for letter in free[: len(left)])}' says so"
    orders = list(permutations(left)) if len(left) < 3 else [left]
    ways = [dict(zip(free, sizes, strict=False)) for sizes in orders]
    ways = [{**given, **way} for way in ways if way.items() <= named({**given, **way}).sizes.items()]
    if not ways:
        return ""
    said = " or ".join(f"axes='{written(way)}'" for way in ways)
    return f"; {said}{', or so in another order,' * (len(left) > 2)} says so"


def written(sizes: Sizes) -> str:
    return " ".join(f"{letter}={size}" for letter, size in sizes.items())
