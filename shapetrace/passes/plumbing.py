"""Which tensors carry no activations: masks and position arithmetic, out of the way of a first look."""

from __future__ import annotations

import msgspec

from ..schema import Call, TensorMeta, Trace

__all__ = ["Plumbing", "is_float", "plumbing"]

TRIANGLES = frozenset({"triu", "tril"})


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What a tensor was computed from: `floats` that the model was given or owns, or else perhaps a mask."""

    floats: bool
    mask: bool


class Plumbing:
    def __init__(self) -> None:
        self.origins: dict[int, Origin] = {}

    def __contains__(self, tensor: TensorMeta) -> bool:
        """Whether it is a mask, or an integer computed without any floating-point input, parameter or buffer.

        Floats computed from integers alone stay (tables of sines), unless a mask is among them. Where tensors have no
        numbers (a portable trace) the dtype decides.
        """
        if tensor.dtype == "bool":
            return True
        if tensor.number is None:
            return not is_float(tensor)
        origin = self.origins.get(tensor.number)
        return origin is not None and not origin.floats and (origin.mask or not is_float(tensor))

    def add(self, call: Call) -> None:
        takes_shape_alone = call.name.endswith("_like") or call.name.startswith("new_")
        sources = [] if takes_shape_alone else [self.origin(tensor) for tensor in call.inputs.values()]
        floats = any(source.floats for source in sources)
        mask = call.name in TRIANGLES or any(source.mask for source in sources)
        given = {tensor.number for tensor in call.inputs.values()}
        for tensor in call.outputs.values():
            if tensor.number is not None and tensor.number not in given:
                self.origins[tensor.number] = Origin(floats, mask or tensor.dtype == "bool")
        for number in call.written:
            self.origins[number] = Origin(floats, mask)

    def origin(self, tensor: TensorMeta) -> Origin:
        known = self.origins.get(tensor.number) if tensor.number is not None else None
        return known or Origin(is_float(tensor), tensor.dtype == "bool")


def plumbing(trace: Trace) -> Plumbing:
    found = Plumbing()
    for call in trace.calls:
        if call.kind == "function":
            found.add(call)
    return found


def is_float(tensor: TensorMeta) -> bool:
    return tensor.dtype.startswith(("float", "bfloat", "complex"))
