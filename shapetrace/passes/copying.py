"""Whether memory that is new holds the elements of other tensors again, and what made that necessary."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import Call, TensorMeta
from .expressions import plain_name

__all__ = ["CROOKED", "bends", "copied", "is_crooked", "joined", "reason"]

CROOKED = " was not contiguous"

REARRANGING = frozenset(
    """contiguous reshape reshape_as flatten unflatten ravel clone copy to type type_as _to_copy float double half
    bfloat16 int long short char byte bool cfloat cdouble cpu cuda to_dense repeat repeat_interleave tile cat concat
    concatenate stack hstack vstack dstack row_stack column_stack roll flip fliplr flipud rot90 pixel_shuffle
    pixel_unshuffle channel_shuffle as_tensor asarray _reshape_copy""".split()
)
"""Functions whose result, where it is new, holds every element of their inputs, as it is or in another dtype. `pad` by
nothing and a tensor that is made of a tensor do so, too."""

STRAIGHTENING = frozenset({"contiguous", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "_reshape_copy"})
"""Those of them that copy only what does not lie as they need it."""


def copied(call: Call) -> list[TensorMeta]:
    """The inputs whose elements a result that is new holds again; none if it holds others.

    The first, or all of those that are given in a sequence, as `cat` takes them; what is empty does not count.
    """
    name = plain_name(call)
    if name in ("tensor", "new_tensor"):
        place = "0" if name == "tensor" else "1"
        return [tensor for key, tensor in call.inputs.items() if key in (place, "data")]
    if name in ("pad", "constant_pad_nd"):
        return (
            list(call.inputs.values())[:1] if is_nothing(call.literals.get("1", call.literals.get("pad", ""))) else []
        )
    if name not in REARRANGING or (call.kind == "op" and name == "repeat_interleave"):  # this op makes an index
        return []
    items = list(call.inputs.items())
    if items and "[" in items[0][0]:
        sequence = items[0][0].partition("[")[0] + "["
        several = [tensor for key, tensor in items if key.startswith(sequence)]
        return [tensor for tensor in several if 0 not in tensor.shape] or several
    return [tensor for _, tensor in items[:1]]


def is_nothing(padding: str) -> bool:
    """Whether nothing is padded: "(0, 0)"."""
    return set(padding) <= set("([0, ])") and "0" in padding


def reason(call: Call, sources: Sequence[TensorMeta], tensor: TensorMeta, of: str) -> str:
    """What made a copy necessary; "" if it was just asked for."""
    source, form = sources[0], call.literals.get("memory_format", "").removeprefix("torch.")
    if len(sources) > 1:
        return ""
    if source.dtype != tensor.dtype:
        return f"{source.dtype} → {tensor.dtype}"
    if source.device != tensor.device:
        return f"{source.device} → {tensor.device}"
    if form.startswith("channels_last") and plain_name(call) not in ("clone", "copy"):
        return f"{of} was not {form}"
    asks = plain_name(call) in STRAIGHTENING or (plain_name(call) == "clone" and form == "contiguous_format")
    return f"{of}{CROOKED}" if asks and not source.is_contiguous else ""


def is_crooked(tensor: TensorMeta) -> bool:
    """Whether it does not lie as its shape says: transposed, cut out of another, broadcast."""
    return tensor.layout == "strided" and not tensor.is_contiguous


def bends(tensor: TensorMeta) -> set[str]:
    """In which ways it is crooked: "broadcast", "turned" (dims out of order), "cut" (gaps between its elements)."""
    dims = [(size, step) for size, step in zip(tensor.shape, tensor.stride or (), strict=False) if size > 1]
    there = [(size, step) for size, step in dims if step]
    ordered = sorted(there, key=lambda dim: -dim[1])
    packed, found = 1, set[str]()
    for size, step in reversed(ordered):
        if step != packed:
            found.add("cut")
        packed = size * step
    if [step for _, step in ordered] != [step for _, step in there]:
        found.add("turned")
    if len(there) < len(dims):
        found.add("broadcast")
    return found


def joined(names: Sequence[str]) -> str:
    """What to call several tensors: "a", "a and b", "a and 3 more"."""
    if len(names) > 2:
        return f"{names[0]} and {len(names) - 1} more"
    return " and ".join(names)
