"""What keeps axes from being named, and what would help: no more than was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import permutations

from ..passes.nesting import forward_of
from ..schema import Trace
from .probe import Probes

__all__ = ["unnamed"]

OF_INPUT, BESIDE_LENGTHS = "BTSP", "BHSP"
"""Letters for what is left, as far as there are any: where weights have a length, heads are beside it."""

HELPING = "; axes='B=… T=…' names what has these sizes"

Sizes = Mapping[str, int]


def unnamed(
    trace: Trace,
    probes: Probes,
    left: Sequence[int],
    given: Sizes,
    written: Set[str | None],
    named: Callable[[Sizes], Trace],
) -> Iterator[str]:
    """`left` are sizes of axes of the input that have no letter in `trace`; `given` those that the user gave a letter,
    and `written` the names that the author of the model has; `named` is the trace if what is given were another."""
    if not probes.runs:
        is_declared = not trace.sizes.keys().isdisjoint({*given, *written})
        helps = not given and not is_declared and can_declare(trace)
        yield f"axes are {'named only as declared' if is_declared else 'not named'}: {probes.reason}{HELPING * helps}"
    elif left:
        sizes = ", ".join(map(str, left))
        letters = BESIDE_LENGTHS if "T" in trace.sizes and attends(trace) else OF_INPUT
        free = [letter for letter in letters if letter not in trace.sizes and letter not in given]
        yield f"axes: nothing tells which of the input's axes ({sizes}) is which{declaring(left, free, given, named)}"


def attends(trace: Trace) -> bool:
    return any(
        tensor.role == "weights" for call in trace.calls for tensor in (*call.outputs.values(), *call.unmade.values())
    )


def can_declare(trace: Trace) -> bool:
    """Whether something that the model was given has a dim that its size tells from its others."""
    forward = forward_of(trace.calls)
    tensors = () if forward is None else trace.calls[forward].inputs.values()
    return any(size > 1 and tensor.shape.count(size) == 1 for tensor in tensors for size in tensor.shape)


def declaring(left: Sequence[int], free: Sequence[str], given: Sizes, named: Callable[[Sizes], Trace]) -> str:
    """The end of a sentence: what to say of sizes that have no letter, of those that are free; "" if nothing helps."""
    if len(left) == 1 and free[:2] == ["B", "T"]:
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
