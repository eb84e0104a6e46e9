"""What keeps axes from being named, and what would help: no more than was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import permutations

from ..passes.nesting import forward_of
from ..schema import Trace
from .probe import Probes

__all__ = ["unnamed"]

OF_INPUT, BESIDE_LENGTHS = "BTSP", "BHSP"
"""Letters for what is left, as far as there are any: where T is known, heads may be."""

HELPING = "; axes='B=… T=…' names what has these sizes"

Sizes = Mapping[str, int]


def unnamed(
    trace: Trace, probes: Probes, left: Sequence[int], given: Sizes, named: Callable[[Sizes], Trace]
) -> Iterator[str]:
    """`left` are sizes of axes of the input that have no letter in `trace`, `given` those that the user gave a letter;
    `named` is the trace if these were others."""
    if not probes.runs:
        said = "not named" if given.keys().isdisjoint(trace.sizes) else "named only as declared"
        yield f"axes are {said}: {probes.reason}{'' if given or not can_declare(trace) else HELPING}"
    elif left:
        sizes = ", ".join(map(str, left))
        declared = declaring(left, {*trace.sizes, *given}, given, named)
        yield f"axes: nothing tells which of the input's axes ({sizes}) is which{declared}"


def can_declare(trace: Trace) -> bool:
    """Whether something that the model was given has a dim that its size tells from its others."""
    forward = forward_of(trace.calls)
    tensors = () if forward is None else trace.calls[forward].inputs.values()
    return any(size > 1 and tensor.shape.count(size) == 1 for tensor in tensors for size in tensor.shape)


def declaring(left: Sequence[int], letters: Set[str], given: Sizes, named: Callable[[Sizes], Trace]) -> str:
    """The end of a sentence: what to say of sizes that have no letter; "" if nothing would help."""
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
