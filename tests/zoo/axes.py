"""The laws of axes: a letter is right at every size, and few dims have none."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from shapetrace import Trace
from shapetrace.schema import Call, TensorMeta

from .checks import Subject, Verdict, listed
from .expressions import predict
from .sizes import Sizes, others, same_model
from .specimens import Specimen, specimen

SEED = 0
"""Of the settings at which axes are confirmed. The check must hold with any."""


def law(s: Subject) -> Verdict:
    """Letters stand for what was built, and at three other settings every axis predicts the size that its dim has."""
    if not has_axes(s.trace):
        return Verdict(None, "no axes")
    wrong = list(misnamed(s.trace, s.sizes, fixed(s.trace, s.trace)))
    compared = rebuilt = 0
    for setting in others(s.sizes, SEED):
        sizes, other = elsewhere(s, setting)
        rebuilt += sizes.C != s.sizes.C
        trace = other.trace()[1]
        lengths = fixed(s.trace, trace)
        wrong += misnamed(trace, sizes, lengths)
        letters = letters_of(trace, sizes) | lengths
        for key, tensor, real in pairs(s.trace, trace):
            compared += 1
            wrong += [f"{key} {text}" for text in broken(tensor, real.shape, letters)]
    text = f"{compared} tensors, {rebuilt} other models"
    return Verdict(False, f"{len(wrong)}: {listed(wrong)}") if wrong else Verdict(True, text)


def elsewhere(s: Subject, setting: Sizes) -> tuple[Sizes, Specimen]:
    """The type at another setting: of the model, too, where it can be built so."""
    for sizes in (held(s, setting), same_model(s.sizes, setting)):
        try:
            return sizes, specimen(s.group, s.model_type, sizes)
        except Exception:  # heads that do not divide, a table too short
            continue
    return s.sizes, s.specimen


def held(s: Subject, setting: Sizes) -> Sizes:
    """The setting, but for letters that the trace does not know: what it says of them are numbers, also in "4·B"."""
    known = {*s.trace.sizes} | ({"D"} if "C" in s.trace.sizes else set())  # a width of H·D
    known |= {"H"} if {"C", "h"} <= known else set()  # which h·d is a multiple of
    return setting._replace(**{letter: size for letter, size in s.sizes._asdict().items() if letter not in known})


def misnamed(trace: Trace, sizes: Sizes, lengths: Collection[str] = ()) -> Iterator[str]:
    """Letters, but these, whose size is not the one that the model, or its input, was made with.

    What heads are, there are several views of.
    """
    ours = {**sizes._asdict(), "C": sizes.C}
    for letter in "BTSCV":
        if letter not in lengths and trace.sizes.get(letter, ours[letter]) != ours[letter]:
            yield f"{letter} is {trace.sizes[letter]}, was made {ours[letter]}"


def fixed(trace: Trace, other: Trace) -> dict[str, int]:
    """The lengths that are the configuration's: of images and recordings, where those of another run are as large."""
    given, given_there = (one.calls[0].inputs if one.calls else {} for one in (trace, other))
    is_fixed = any(
        name in given and name in given_there and given[name].shape[1:] == given_there[name].shape[1:]
        for name in ("pixel_values", "input_features", "input_values")
    )
    letters = "S" if "decoder_input_ids" in given else "TS"
    return {letter: trace.sizes[letter] for letter in letters if is_fixed and letter in trace.sizes}


def letters_of(trace: Trace, sizes: Sizes) -> dict[str, int]:
    """What the letters stand for: what the trace says where we do not know it."""
    return {**sizes._asdict(), "C": sizes.C} | trace.sizes


def broken(tensor: TensorMeta, real: tuple[int, ...], letters: dict[str, int]) -> Iterator[str]:
    """What the axes of a tensor say that is not so where its shape is `real`."""
    for axis, size in zip(tensor.axes or (), real, strict=False):
        if not isinstance(axis, str):
            continue
        try:
            predicted = predict(axis, letters)
        except (KeyError, ValueError) as error:
            yield f"{axis}: {error}"
            continue
        if predicted != size:
            yield f"{axis} = {predicted}, is {size}"


def pairs(before: Trace, after: Trace) -> Iterator[tuple[str, TensorMeta, TensorMeta]]:
    """Tensors of two traces of one type that correspond.

    Calls that one makes more often than the other, such as the experts that a token finds, have no counterpart.
    """
    ours, theirs = by_place(before), by_place(after)
    for place, calls in ours.items():
        others = theirs.get(place, [])
        if len(calls) != len(others):
            continue
        for call, other in zip(calls, others, strict=True):
            for key, tensor in call.outputs.items():
                if key in other.outputs and len(other.outputs[key].shape) == len(tensor.shape):
                    yield f"{call.path}.{call.name} {key}".strip(), tensor, other.outputs[key]


def by_place(trace: Trace) -> dict[tuple[str, str, str, str], list[Call]]:
    def place(call: Call) -> tuple[str, str, str, str]:
        return call.kind, call.path, call.name, str(call.source)  # two loops may together go round as often as before

    return {key: list(calls) for key, calls in groupby(sorted(trace.calls, key=place), key=place)}


def named(s: Subject) -> Verdict:
    """How many dims of the tensors between the embedding and the logits have an axis; dims of size 1 or 0 need none."""
    dims = [
        (axis, size)
        for call in between(s.trace)
        for tensor in call.outputs.values()
        for axis, size in zip(tensor.axes or tensor.shape, tensor.shape, strict=True)
    ]
    known = sum(isinstance(axis, str) for axis, _ in dims)
    count = sum(isinstance(axis, str) or size > 1 for axis, size in dims)
    share = known / count if count else 1.0
    return Verdict(share >= 0.95, f"{share:.1%}", known, count)


def between(trace: Trace) -> Iterator[Call]:
    """The calls from the first that looks something up in a table to the one that makes the logits."""
    numbers = {tensor.number for key, tensor in trace.calls[0].outputs.items() if key == "logits"}
    begin = next((i for i, call in enumerate(trace.calls) if call.name in ("embedding", "Embedding")), 1)
    made = (i for i, call in enumerate(trace.calls) if i > begin and made_by(call, numbers))
    yield from trace.calls[begin : next(made, len(trace.calls)) + 1]


def made_by(call: Call, numbers: set[int | None]) -> bool:
    return any(tensor.number in numbers for tensor in call.outputs.values())


def has_axes(trace: Trace) -> bool:
    return any(tensor.axes is not None for call in trace.calls for tensor in call.outputs.values())
