"""What differs between two tensors, or two calls; and which shapes differ by no more than the size of a letter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..errors import ShapetraceError, near
from ..letters import names_in
from ..passes.formulas import evaluate
from ..passes.memory import memory
from ..schema import Call, TensorMeta, Trace
from .items import Place

__all__ = ["ALWAYS", "EXACT", "Comparer", "Fields", "chosen", "refuse"]

Fields = dict[str, tuple[object, object]]
"""Name of what differs -> what it is before, and after."""

ALWAYS = (
    "shape",
    "axes",
    "role",
    "dtype",
    "layout",
    "device",
    "class",
    "tied",
    "bias",
    "made",
    "error",
    "layers",
    "order",
    "structure",
)
EXACT = ("stride", "contiguity", "memory")
"""What is compared: what is the same on every machine, and what is only comparable on one."""


def chosen(only: Collection[str], ignore: Collection[str], *, exact: bool) -> frozenset[str]:
    """The fields to compare. `ShapetraceError` for one that is not there, or that only `exact` compares, or if none is
    left."""
    known = (*ALWAYS, *EXACT)
    for word in (*only, *ignore):
        if word not in known:
            meant = near(word, known, most=1)
            hint = f": did you mean {meant[0]}?" if meant else f"; there is {', '.join(known)}"
            raise ShapetraceError(f"no field is called {word!r}{hint}")
    if wrong := [word for word in only if word in EXACT and not exact]:
        raise ShapetraceError(
            f"{' and '.join(wrong)}: only an exact comparison looks at that; add --exact (exact=True)"
        )
    compared = {*ALWAYS, *(EXACT if exact else ())}
    left = frozenset((compared & set(only) if only else compared) - set(ignore))
    if not left:
        raise ShapetraceError("nothing is left to compare: every field is ignored")
    return left


def refuse(before: Trace, after: Trace) -> None:
    """`ShapetraceError` if strides and memory of two traces are not comparable."""
    portable = [trace.target for trace in (before, after) if trace.torch is None]
    if portable:
        raise ShapetraceError(
            f"an exact comparison needs strides and memory, and the trace of {' and that of '.join(portable)} is "
            "portable: it holds none\nrecord it again, or compare without --exact"
        )
    if (before.device, before.torch) != (after.device, after.torch):
        raise ShapetraceError(
            "an exact comparison needs one device and one version of torch\n"
            f"  before  {before.target}  {before.device}, torch {before.torch}\n"
            f"  after   {after.target}  {after.device}, torch {after.torch}\n"
            "record one of them again, or compare without --exact"
        )


class Comparer:
    """Compares in the fields that were chosen.

    sizes   letter -> its sizes before and after, where shapes are compared and these differ; None where it is not there
    """

    def __init__(self, before: Trace, after: Trace, fields: Collection[str]) -> None:
        self.fields = fields
        self.before, self.after = before.sizes, after.sizes
        self.sizes = differing(before.sizes, after.sizes) if "shape" in fields else {}
        self.before_device, self.after_device = before.device, after.device
        self.has_axes = all(is_named(trace) for trace in (before, after))
        self.memory = [memory(trace) if "memory" in fields else [] for trace in (before, after)]
        self.known: dict[tuple[object, ...], tuple[Fields, tuple[str, ...]]] = {}

    def calls(self, one: Call, other: Call) -> Fields:
        said: Fields = {
            "class": (one.name, other.name),
            "error": (one.error, other.error),
            "role": (one.role, other.role),
        }
        return self.differ(said)

    def differ(self, said: Fields) -> Fields:
        return {name: both for name, both in said.items() if both[0] != both[1] and name in self.fields}

    def tensors(self, one: tuple[Place, TensorMeta], other: tuple[Place, TensorMeta]) -> tuple[Fields, tuple[str, ...]]:
        """What differs; and the letters that explain that the shape does, if they do."""
        (place, before), (there, after) = one, other
        unmade = place.part == "unmade", there.part == "unmade"
        if before == after and unmade[0] == unmade[1] and not self.memory[0]:
            return {}, ()
        key = (*told(before), *told(after), *unmade)
        if key not in self.known:
            self.known[key] = self.found(place, before, there, after)
        fields, letters = self.known[key]
        if self.memory[0]:
            fields = fields | self.differ({"memory": (self.effect(0, place), self.effect(1, there))})
        return fields, letters

    def seen(self, side: int, place: Place, tensor: TensorMeta) -> tuple[object, ...]:
        """What is compared of a tensor of one side."""
        said: dict[str, object] = {
            "shape": tensor.shape,
            "axes": tensor.axes,
            "role": tensor.role,
            "dtype": tensor.dtype,
            "layout": tensor.layout,
            "device": tensor.device,
            "stride": tensor.stride,
            "contiguity": tensor.is_contiguous,
            "memory": self.effect(side, place) if self.memory[side] else None,
        }
        return place.part, *(value for name, value in said.items() if name in self.fields)

    def found(
        self, place: Place, before: TensorMeta, there: Place, after: TensorMeta
    ) -> tuple[Fields, tuple[str, ...]]:
        said: Fields = {}
        letters = self.explaining(before, after)
        if self.has_axes and axes_differ(before, after):
            said["axes"] = (before.axes or before.shape, after.axes or after.shape)
        if not letters:
            said["shape"] = (before.shape, after.shape)
        said["role"] = (before.role, after.role)
        said["dtype"] = (before.dtype, after.dtype)
        said["layout"] = (before.layout, after.layout)
        said["made"] = (place.part != "unmade", there.part != "unmade")
        if before.shape == after.shape or not (before.is_contiguous and after.is_contiguous):
            said["stride"] = (before.stride, after.stride)
        said["contiguity"] = (before.is_contiguous, after.is_contiguous)
        if self.before_device and self.after_device:
            said["device"] = (apart(before.device, self.before_device), apart(after.device, self.after_device))
        return self.differ(said), letters

    def lacks_names(self, before: TensorMeta, after: TensorMeta) -> bool:
        """Whether a letter on one side is a number on the other, of its size: there it could not be decided."""
        if before.axes == after.axes or before.shape != after.shape or not self.has_axes or "axes" not in self.fields:
            return False
        both = zip(before.axes or before.shape, after.axes or after.shape, strict=True)
        return any(type(one) is not type(other) for one, other in both)

    def explaining(self, before: TensorMeta, after: TensorMeta) -> tuple[str, ...]:
        """The letters by which a shape differs, if nothing else about it does."""
        if not self.sizes or before.shape == after.shape or before.axes != after.axes or before.axes is None:
            return ()
        for tensor, sizes in ((before, self.before), (after, self.after)):
            if tuple(evaluate(axis, sizes) for axis in tensor.axes or ()) != tensor.shape:
                return ()
        names = {name for axis in before.axes for name in names_in(axis)}
        return tuple(letter for letter in self.sizes if letter in names)

    def effect(self, side: int, place: Place) -> str | None:
        """Whether a tensor is a view, a copy, new …"""
        account = self.memory[side][place.at]
        made = account.steps.get(place.key) if place.part == "outputs" else None
        return None if made is None else made.kind


def apart(device: str, usual: str) -> str | None:
    """The device of a tensor that is not where its model is: that a model runs elsewhere is said in the head."""
    return None if device == usual else device


def told(tensor: TensorMeta) -> tuple[object, ...]:
    return (
        tensor.shape, tensor.axes, tensor.role, tensor.dtype, tensor.layout,
        tensor.stride, tensor.is_contiguous, tensor.device,
    )  # fmt: skip


def axes_differ(before: TensorMeta, after: TensorMeta) -> bool:
    """Whether a letter is another one, or not there while the size is another; that of two numbers one is another is a
    matter of the shape."""
    one: Sequence[str | int] = before.axes or before.shape
    other: Sequence[str | int] = after.axes or after.shape
    if len(one) != len(other):
        return True
    return any(
        a != b and (type(a) is type(b) is str or (type(a) is not type(b) and before.shape[dim] != after.shape[dim]))
        for dim, (a, b) in enumerate(zip(one, other, strict=True))
    )


def differing(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
    letters = dict.fromkeys((*before, *after))
    return {
        letter: (before.get(letter), after.get(letter)) for letter in letters if before.get(letter) != after.get(letter)
    }


def is_named(trace: Trace) -> bool:
    """Whether the axes of a trace were told at all."""
    return any(
        tensor.axes is not None for call in trace.calls for tensor in (*call.inputs.values(), *call.outputs.values())
    )
