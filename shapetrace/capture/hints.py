"""What keeps axes from being named, and what would help: no more than was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import permutations

from ..passes.nesting import forward_of
from ..schema import Trace
from .annotations import Returned
from .given import Held
from .probe import Probes

__all__ = ["contradicted", "kept", "unnamed"]

OF_INPUT, BESIDE_LENGTHS = "BTS", "BH"
"""Letters for what is left, as far as there are any: where weights have a length, heads are beside it, and a source
if it is one that they have, too. A past is told by what is joined to it, and is nothing to guess."""

HELPING = "; {}'B=… T=…' names what has these sizes"

Sizes = Mapping[str, int]


def unnamed(
    trace: Trace,
    probes: Probes,
    left: Sequence[int],
    given: Sizes,
    written: Set[str | None],
    named: Callable[[Sizes], Trace],
    option: str,
) -> Iterator[str]:
    """`left` are sizes of axes of the input that have no letter in `trace`; `given` those that the user gave a letter,
    and `written` the names that the author of the model has; `named` is the trace if what is given were another;
    by `option` the user says it."""
    if not probes.runs:
        is_declared = not trace.sizes.keys().isdisjoint({*given, *written})
        helping = HELPING.format(option) if not given and not is_declared and can_declare(trace) else ""
        yield f"axes are {'named only as declared' if is_declared else 'not named'}: {probes.reason}{helping}"
    elif left:
        sizes = ", ".join(map(str, left))
        lengths = set(lengths_of(trace))
        letters = (BESIDE_LENGTHS + "S" * (lengths > {"T"})) if "T" in trace.sizes and lengths else OF_INPUT
        free = [letter for letter in letters if letter not in trace.sizes and letter not in given]
        helping = declaring(left, free, given, named, option)
        yield f"axes: nothing tells which of the input's axes ({sizes}) is which{helping}"


def lengths_of(trace: Trace) -> Iterator[str | int]:
    """The last two axes of each weights of attention."""
    for call in trace.calls:
        for tensor in (*call.outputs.values(), *call.unmade.values()):
            if tensor.role == "weights":
                yield from (tensor.axes or tensor.shape)[-2:]


def kept(trace: Trace, named: Callable[[Sizes], Trace], given: Sizes, option: str) -> Iterator[str]:
    """A length that weights have, and that no run changed; `named` is the trace if what is given were another."""
    for size in dict.fromkeys(axis for axis in lengths_of(trace) if isinstance(axis, int) and axis > 1):
        if size not in sizes_given(trace):
            if "T" not in trace.sizes:  # else it is that of windows, or of what is learned
                yield f"axes: {size}, a length that weights have, is the model's own, and has no letter"
            continue
        free = [letter for letter in "TS" if letter not in trace.sizes and letter not in given]
        ways = [{letter: size} for letter in free[:1]]
        helping = [written(way) for way in ways if way.items() <= named({**given, **way}).sizes.items()]
        hint = f"; {option}'{written({**given, **ways[0]})}' names it" if helping else ""
        yield f"axes: the model was not run at another size of {size}, a length that weights have{hint}"


def sizes_given(trace: Trace) -> set[str | int]:
    """The dims of what the model was given that have no letter."""
    forward = forward_of(trace.calls)
    tensors = () if forward is None else trace.calls[forward].inputs.values()
    return {axis for tensor in tensors for axis in tensor.axes or tensor.shape}


def contradicted(trace: Trace, held: Iterable[Held | Returned], declared: Sizes) -> Iterator[str]:
    """What the author of the model has written of its inputs and results, or the user of sizes, and is not so."""
    for one in held:
        if one.unlike:
            yield f"axes: {one.name} is declared as {one.unlike}, but is {kind(one)}"
    for letter, size in declared.items():
        if trace.sizes.get(letter, size) != size:
            yield f"axes: {letter} is {trace.sizes[letter]} in this model, not {size}"
        elif letter not in trace.sizes:
            yield f"axes: {letter}={size} names nothing in this model"
    lengths = [axis for axis in lengths_of(trace) if not isinstance(axis, int)]
    if lengths and set(lengths) == {"B"} and "T" in trace.sizes:
        yield "axes: attention goes along B, and T is its batch; where the batch comes second an input is [T, B, …]"


def kind(held: Held | Returned) -> str:
    return f"{str(held.dtype).removeprefix('torch.')}[{', '.join(map(str, held.shape))}]"


def can_declare(trace: Trace) -> bool:
    """Whether something that the model was given has a dim that its size tells from its others."""
    forward = forward_of(trace.calls)
    tensors = () if forward is None else trace.calls[forward].inputs.values()
    return any(size > 1 and tensor.shape.count(size) == 1 for tensor in tensors for size in tensor.shape)


def declaring(
    left: Sequence[int], free: Sequence[str], given: Sizes, named: Callable[[Sizes], Trace], option: str
) -> str:
    """The end of a sentence: what to say of sizes that have no letter, of those that are free; "" if nothing helps."""
    if len(left) == 1 and free[:2] == ["B", "T"]:
        free = free[1:]  # a row of tokens, rather than a batch of numbers
    if len(left) > len(free):
        return ""
    if len({*left}) < len(left):
        return f"; where their sizes differ {option}'{' '.join(f'{letter}=…' for letter in free[: len(left)])}' says so"
    orders = list(permutations(left)) if len(left) < 3 else [left]
    ways = [dict(zip(free, sizes, strict=False)) for sizes in orders]
    ways = [{**given, **way} for way in ways if way.items() <= named({**given, **way}).sizes.items()]
    if not ways:
        return ""
    said = " or ".join(f"{option}'{written(way)}'" for way in ways)
    return f"; {said}{', or so in another order,' * (len(left) > 2)} says so"


def written(sizes: Sizes) -> str:
    return " ".join(f"{letter}={size}" for letter, size in sizes.items())
