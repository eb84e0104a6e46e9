"""Which axis of the input is the batch, which a length: told by what the functions of the model do with it.

The weights of attention are [B, H, T, S]: the last dim is the length that keys and values come from, the one before
that of the queries, and what the input has besides is the batch. Where keys are of T and of what was kept before, as
in P+T, that is the past. A recurrent net keeps a state [L, B, C], and a convolution is given [B, C, …]. A model without
any of these has B and T if it looks up ids, which are [B, T], and B if there is nothing else that could change. What
contradicts itself names nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations

from ..letters import MODEL_AXES, is_unknown, names_in
from ..schema import TensorMeta, Trace
from .nesting import forward_of
from .pictures import rows_of_images

__all__ = ["settled"]

Place = tuple[int, str, str, TensorMeta]
"""Where a tensor stands: the index of its call, "inputs", "outputs" or "unmade", its key; and the tensor."""

AxesOf = Callable[[int, str, str, TensorMeta], tuple[str | int, ...]]

Axes = tuple[str | int, ...]

NUMBER = re.compile(r"\d+")

INTEGERS = ("int", "uint")

RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})

CONVOLUTIONS = {"conv1d": 3, "conv2d": 4, "conv3d": 5}
"""Of each the rank of what it is given, if that has a batch."""

LOOKUPS = frozenset({"embedding", "embedding_bag", "one_hot"})


def settled(trace: Trace, axes: AxesOf, declared: Mapping[str, int]) -> dict[str, str]:
    """Of each unknown axis in the sizes of `trace` the letter that it is, where that is known."""
    unknown = [letter for letter in trace.sizes if is_unknown(letter)]
    if not unknown:
        return {}
    roles = of_attention(trace, axes)
    weights = list(by_lengths(trace, axes, roles))
    attended = {letter for each in roles["weights"] for letter in letters_in(each)}
    found = lengths(weights) or of_step(trace, axes, weights)
    along = of_convolutions(trace, axes)
    of_batch = {letter: "B" for letter in along if along[letter] == "B"}
    for told in (batches(weights), of_recurrent(trace, axes), of_batch):
        found |= agreeing(told, found)
    found |= agreeing(of_ids(trace, axes, found), found)  # of the two lengths of a decoder of sound, theirs is T
    found |= agreeing(along, found)
    found |= agreeing(of_source(trace, weights, found), found)
    left = [letter for letter in unknown if letter not in found]
    if len(left) == 1 and "B" not in found.values() and left[0] not in attended and is_first(trace, axes, left[0]):
        found[left[0]] = "B"
    found = {letter: name for letter, name in found.items() if name not in trace.sizes}
    rows = rows_of_images({axes(*at) for at in given(trace)}, (axes(*at) for at in tensors(trace)))
    found = {letter: name for letter, name in found.items() if letter not in rows}
    return found | of_sizes(trace, axes, found, declared)


def agreeing(told: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """What is told of letters that are not known yet by names that none has yet."""
    if any(found.get(letter, name) != name for letter, name in told.items()):
        return {}
    return {letter: name for letter, name in told.items() if name not in found.values()}


def of_attention(trace: Trace, axes: AxesOf) -> dict[str, list[Axes]]:
    """The axes of queries, keys, values and weights, by their role."""
    found: dict[str, list[Axes]] = {role: [] for role in ("q", "k", "v", "weights")}
    for place in tensors(trace):
        if (role := place[3].role) in found:
            found[role].append(axes(*place))
    return found


def by_lengths(trace: Trace, axes: AxesOf, roles: Mapping[str, list[Axes]]) -> Iterator[Axes]:
    """The axes of weights, in an order that ends with the two lengths, of queries and of keys: [B, H, T, S]. Of some
    it cannot be told which these are."""
    keys = [*roles["k"], *roles["v"]] or [axes(*place) for place in given(trace)]
    for each in roles["weights"]:
        pair = pair_in(each, roles["q"], keys)
        if pair is not None:
            yield (*(axis for dim, axis in enumerate(each) if dim not in pair), *(each[dim] for dim in pair))
        elif len(each) < 2:
            yield each


def pair_in(each: Axes, queries: list[Axes], keys: list[Axes]) -> tuple[int, int] | None:
    """Of the axes of weights the places of the length of queries and of that of keys.

    Where a length attends to itself, it is there twice, wherever that is: [T, T, B, H]. Else the lengths come last,
    but turned, if keys have the axis before the last only. If keys have both, and then a width, that is the batch: each
    sequence attends with one query, [B, S]; or the lengths stand elsewhere, one of which keys have and one queries.
    """
    last = len(each) - 2, len(each) - 1
    selves = [pair for pair in permutations(range(len(each)), 2) if is_self(each[pair[0]], each[pair[1]])]
    if selves:
        found = {tuple(sorted(pair)) for pair in selves}
        return selves[0] if len(found) == 1 else None
    if len(each) < 2 or each[-2] == each[-1]:
        return last if len(each) > 1 else None
    if is_unknown(each[-1]) and any(is_before_heads(each, query) for query in queries):
        return len(each) - 3, len(each) - 1
    if any({*each[-2:]} <= {*key[:-1]} for key in keys):
        return crossed(each, queries, keys)
    is_turned = any(each[-2] in key for key in keys) and not any(each[-1] in key for key in keys)
    return last[::-1] if is_turned else last


def is_before_heads(weights: Axes, query: Axes) -> bool:
    """Whether weights are [B, T, H, S] as queries are [B, T, H, D]."""
    return len(weights) > 3 and weights[:-1] == query[:-1] and is_unknown(weights[-3]) and isinstance(weights[-2], int)


def is_self(q: str | int, k: str | int) -> bool:
    """Whether the lengths are one, or one and a past: T and P+T."""
    return is_unknown(q) and (q == k or (isinstance(k, str) and str(q) in k.split("+") and "+" in k))


def crossed(each: Axes, queries: list[Axes], keys: list[Axes]) -> tuple[int, int] | None:
    """The places of the only two axes that not all queries and keys have: more of the queries have the first, more of
    the keys the second."""
    every = [*queries, *keys]
    found = [dim for dim, axis in enumerate(each) if is_unknown(axis) and not all(axis in of for of in every)]
    if len(found) != 2:
        return None
    more = [sum(each[dim] in q for q in queries) - sum(each[dim] in k for k in keys) for dim in found]
    return None if more[0] == more[1] else (found[more[0] < more[1]], found[more[0] > more[1]])


def lengths(weights: list[Axes]) -> dict[str, str]:
    """The letters that are the length of queries and, where it is another, of keys, or of the past that these hold."""
    pairs = dict.fromkeys((each[-2], each[-1]) for each in weights if len(each) > 1)
    for q, k in pairs:
        if is_unknown(q) and is_unknown(k) and q != k:
            return {str(q): "T", str(k): "S"} if (k, q) not in pairs else {}
    for q, k in pairs:
        more = [letter for letter in names_in(k) if letter != q]
        if is_unknown(q) and len(more) == 1 and k in (f"{q}+{more[0]}", f"{more[0]}+{q}"):
            return {str(q): "T", more[0]: "P"}
    alone = [str(q) for q, k in pairs if is_unknown(q) and (q == k or is_longer(k, q))]
    queries = {q for q, _ in pairs if is_unknown(q)}
    return {alone[0]: "T"} if len(alone) == len(queries) == 1 else {}


def of_step(trace: Trace, axes: AxesOf, weights: list[Axes]) -> dict[str, str]:
    """The past of a single query: keys are one more than those that were given as [B, G, P, D], or in a cache that
    shows none."""
    keys = {each[-1] for each in weights if len(each) > 1 and each[-2] == 1}
    shown = [axes(*place) for place in given(trace)]
    for letter in filter(is_unknown, trace.sizes):
        if f"{letter}+1" in keys and all(len(each) == 4 for each in shown if letter in each):
            return {letter: "P"}
    return {}


def is_longer(axis: str | int, length: str | int) -> bool:
    """Whether it is a length and a few more, as where some keys are learned."""
    return any(str(axis) == f"{length}+{number}" for number in NUMBER.findall(str(axis)))


def batches(weights: list[Axes]) -> dict[str, str]:
    """The one letter that stands before the two lengths of weights, by itself or beside heads, and is no length.

    In windows of a length, of which there are B·T/8, and where attention goes along one axis after another, that is
    not one letter, or not a whole one.
    """
    within = {letter for each in weights for axis in each[-2:] for letter in names_in(axis)}
    found = {letter for each in weights for axis in each[:-2] for letter in names_in(axis) if is_unknown(letter)}
    is_whole = not any(sign in str(axis) for sign in "/+-" for each in weights for axis in each[:-2])
    return dict.fromkeys(found, "B") if len(found) == 1 and not found & within and is_whole else {}


def of_recurrent(trace: Trace, axes: AxesOf) -> dict[str, str]:
    """The state of a recurrent net is [L, B, C], whichever way round it is given a batch of sequences."""
    for index, call in enumerate(trace.calls):
        if call.kind == "function" and call.name in RECURRENT and {"0", "1"} <= call.outputs.keys():
            sequence, state = (axes(index, "outputs", key, call.outputs[key]) for key in "01")
            if len(sequence) == len(state) == 3 and is_unknown(state[1]):
                length = [axis for axis in sequence[:2] if axis != state[1]]
                return {str(state[1]): "B"} | {str(axis): "T" for axis in length if is_unknown(axis)}
    return {}


def of_convolutions(trace: Trace, axes: AxesOf) -> dict[str, str]:
    """The batch comes first in what they are given, and the one length last."""
    for index, call in enumerate(trace.calls):
        if call.kind == "function" and call.name in CONVOLUTIONS and "0" in call.inputs:
            shape = axes(index, "inputs", "0", call.inputs["0"])
            if len(shape) == CONVOLUTIONS[call.name] and is_unknown(shape[0]):
                is_length = len(shape) == 3 and is_unknown(shape[2]) and shape[2] != shape[0]
                return {str(shape[0]): "B"} | ({str(shape[2]): "T"} if is_length else {})
    return {}


def of_source(trace: Trace, weights: list[Axes], found: Mapping[str, str]) -> dict[str, str]:
    """The one length beside T, which attends to itself where T attends to what is made of it."""
    selves = {str(each[-2]) for each in weights if len(each) > 1 and each[-2] == each[-1] and is_unknown(each[-2])}
    left = [letter for letter in selves if letter not in found]
    is_crossed = any(call.role == "cross-attention" for call in trace.calls) and "T" in found.values()
    return {left[0]: "S"} if is_crossed and len(left) == 1 else {}


def across(trace: Trace, axes: AxesOf) -> set[str | int]:
    """The axes that convolutions go along, as those of a board; none of them is a batch."""
    shapes = [
        axes(index, "inputs", "0", call.inputs["0"])
        for index, call in enumerate(trace.calls)
        if call.kind == "function" and call.name in CONVOLUTIONS and "0" in call.inputs
    ]
    return {axis for shape in shapes for axis in shape[2:]}


def of_ids(trace: Trace, axes: AxesOf, found: Mapping[str, str]) -> dict[str, str]:
    """The letters of the ids that the model looks up: [B, T], or the other way round if that is what is known of one.
    Of ids of several lengths the batch is what all have first.

    Where only the second comes out of the model, it has summed over the first, which is no batch then.
    """
    inputs = [place for place in given(trace) if is_integer(place[3])]
    shapes = dict.fromkeys(axes(*place) for place in inputs if len(place[3].shape) == 2)
    if not shapes or not looks_up(trace):
        return {}
    first, second = next(iter(shapes))
    if len(shapes) > 1:
        seconds = {each[1] for each in shapes}
        is_batch = is_unknown(first) and {each[0] for each in shapes} == {first} and first not in seconds
        return {str(first): "B"} if is_batch and all(map(is_unknown, seconds)) else {}
    if not is_unknown(first) or not is_unknown(second) or first == second or first in across(trace, axes):
        return {}
    out = {letter for place in of_forward(trace, "outputs") for axis in axes(*place) for letter in names_in(axis)}
    is_turned = found.get(str(first)) == "T" or found.get(str(second)) == "B" or (second in out and first not in out)
    return {str(first): "T", str(second): "B"} if is_turned else {str(first): "B", str(second): "T"}


def looks_up(trace: Trace) -> bool:
    """Whether integers are made vectors; where no functions were recorded, that cannot be known."""
    functions = [call for call in trace.calls if call.kind == "function"]
    return not functions or any(call.name in LOOKUPS for call in functions)


def is_integer(tensor: TensorMeta) -> bool:
    return tensor.dtype.startswith(INTEGERS)


def is_first(trace: Trace, axes: AxesOf, letter: str) -> bool:
    """Whether it is the first dim, and no other, of all that is given; of rank 3, 1, or [T, T] that may be a length."""
    having = [found for found in (axes(*place) for place in given(trace)) if letter in letters_in(found)]
    is_told = any(len(found) not in (1, 3) for found in having)
    return is_told and all(found[0] == letter and letter not in found[1:] and len(found) != 3 for found in having)


def letters_in(axes: Axes) -> set[str]:
    return {letter for axis in axes for letter in names_in(axis)}


def of_sizes(trace: Trace, axes: AxesOf, found: Mapping[str, str], declared: Mapping[str, int]) -> dict[str, str]:
    """What is declared of the letters that are still left, each of which is the only one of its size.

    A letter of the model's own is another axis that has this size, if there is one that did not change.
    """
    left = [letter for letter in trace.sizes if is_unknown(letter) and letter not in found]
    if not left or not declared:
        return {}
    constant = {axis for place in tensors(trace) for axis in axes(*place) if isinstance(axis, int)}
    free = {
        name: size
        for name, size in declared.items()
        if name not in {*found.values(), *trace.sizes} and not (name in f"{MODEL_AXES}L" and size in constant)
    }
    sizes = [trace.sizes[letter] for letter in left]
    alike = {size: [name for name, its in free.items() if its == size] for size in sizes if sizes.count(size) == 1}
    return {letter: alike[size][0] for letter, size in zip(left, sizes, strict=True) if len(alike.get(size, ())) == 1}


def given(trace: Trace) -> Iterator[Place]:
    """What the model is given."""
    return of_forward(trace, "inputs")


def of_forward(trace: Trace, place: str) -> Iterator[Place]:
    index = forward_of(trace.calls)
    if index is not None:
        found: dict[str, TensorMeta] = getattr(trace.calls[index], place)
        yield from ((index, place, key, tensor) for key, tensor in found.items())


def tensors(trace: Trace) -> Iterator[Place]:
    """Each tensor with its place."""
    for index, call in enumerate(trace.calls):
        for place in ("inputs", "outputs", "unmade"):
            found: dict[str, TensorMeta] = getattr(call, place)
            yield from ((index, place, key, tensor) for key, tensor in found.items())
