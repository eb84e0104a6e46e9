"""Describe live tensors, and find them in any structure of arguments and results.

A tensor is described as it is, never a clone of it (a clone's stride is its own). Tensors and storages are numbered by
weak reference: the `id` of a short-lived tensor repeats at once, and a strong one would keep its memory. What is made for
each call is unknown to the garbage collector (`gc=False`, no cycles): tracing a model must not set off collections.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec
import torch

from ..schema import TensorMeta

__all__ = ["ARGUMENTS", "PLAIN", "Known", "TensorTable", "collect", "join_keys", "literal", "version_of"]

T = TypeVar("T")

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The classes whose attributes can be read without running anyone's `__torch_function__`."""

ARGUMENTS = frozenset({int, float, bool, type(None)})
SEQUENCES = frozenset({tuple, list, torch.Size})
WRITTEN = ARGUMENTS | {str, complex, torch.dtype, torch.device, torch.layout, torch.memory_format}
"""The classes whose `repr` is short, free of effects and the way Python code writes them."""

DEEPEST = 16
MOST = 4096
MOST_WRITTEN = 16
LONGEST = 200
"""Bounds, so that a structure that holds itself, or a million numbers, comes to an end."""


class Known(msgspec.Struct, gc=False):
    """What is known of one tensor while it lives. `version` is None where a change could not be told by it."""

    ref: weakref.ref[torch.Tensor]
    version: int | None
    meta: TensorMeta


class TensorTable:
    """The tensors of one trace. `names` gives the `id` of a parameter or buffer its dotted name."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        self.known: dict[int, Known] = {}
        self.storages: dict[int, int] = {}
        self.next_tensor = 0
        self._words: dict[object, str] = {}

    def __del__(self) -> None:
        for address in self.storages:
            torch.UntypedStorage._free_weak_ref(address)

    def describe(self, tensor: torch.Tensor) -> Known:
        """What `tensor` is now. It is read again only if its version moved: each change of its form moves it."""
        known = self.known.get(id(tensor))
        if known is not None and known.ref() is tensor:
            if known.version is not None and known.version == version_of(tensor):
                return known
            number = known.meta.number
        else:
            number = self.next_tensor
            self.next_tensor += 1
        known = self.known[id(tensor)] = Known(weakref.ref(tensor), version_of(tensor), self._read(tensor, number))
        return known

    def forget(self, tensor: torch.Tensor) -> None:
        """Read `tensor` anew the next time: its form was changed without its version (`x.data = y`)."""
        known = self.known.get(id(tensor))
        if known is not None:
            known.version = None

    def _read(self, tensor: torch.Tensor, number: int | None) -> TensorMeta:
        kind = type(tensor)
        if kind in PLAIN:
            try:
                storage = self._storage(tensor)
                dtype, device = tensor.dtype, tensor.device
                return TensorMeta(
                    shape=tuple(tensor.shape),
                    stride=tensor.stride(),
                    dtype=self._words.get(dtype) or self._word(dtype),
                    device=self._words.get(device) or self._word(device),
                    is_contiguous=tensor.is_contiguous(),
                    offset=tensor.storage_offset(),
                    number=number,
                    storage=storage,
                    name=self.names.get(id(tensor)),
                    kind=None if kind is torch.Tensor else kind.__name__,
                )
            except (RuntimeError, TypeError):  # no storage, no stride, or a size that is no number
                pass
        with torch._C.DisableTorchFunctionSubclass():
            return self._read_piece_by_piece(tensor, number)

    def _read_piece_by_piece(self, tensor: torch.Tensor, number: int | None) -> TensorMeta:
        """For tensors that lack a storage, a stride or even a shape: sparse, nested, quantised, functorch's, lazy."""
        shape = attempt(lambda: tensor.shape)
        if shape is None and tensor.is_nested:
            shape = (tensor.size(0), *[-1] * (tensor.dim() - 1))
        stride = attempt(tensor.stride) if tensor.layout in (torch.strided, torch.jagged) else None
        return TensorMeta(
            shape=whole_numbers(shape or ()),
            stride=None if stride is None else whole_numbers(stride),
            dtype=self._word(tensor.dtype),
            device=self._word(tensor.device),
            layout=self._word(tensor.layout),
            is_contiguous=bool(attempt(tensor.is_contiguous)),
            offset=attempt(tensor.storage_offset) or 0,
            number=number,
            storage=attempt(lambda: self._storage(tensor)),
            name=self.names.get(id(tensor)),
            kind=None if type(tensor) is torch.Tensor else type(tensor).__name__,
        )

    def _storage(self, tensor: torch.Tensor) -> int:
        """The number of its storage. A weak reference of torch's own holds the address, not the memory, until the end."""
        storage = tensor.untyped_storage()
        number = self.storages.get(storage._cdata)
        if number is None:
            number = self.storages[storage._weak_ref()] = len(self.storages)
        return number

    def _word(self, thing: object) -> str:
        word = self._words[thing] = sys.intern(str(thing).removeprefix("torch."))  # msgspec omits a default if it `is` it
        return word


def version_of(tensor: torch.Tensor) -> int | None:
    """How often it was changed in place; None for an inference tensor, which does not count."""
    try:
        if type(tensor) in PLAIN:
            return tensor._version
        with torch._C.DisableTorchFunctionSubclass():
            return tensor._version
    except RuntimeError:
        return None


def attempt(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (RuntimeError, ValueError):
        return None


def whole_numbers(sizes: Iterable[object]) -> tuple[int, ...]:
    """Sizes as ints; -1 for one that is a symbol (the ragged dim of a jagged tensor)."""
    return tuple(size if isinstance(size, int) else -1 for size in sizes)


def collect(value: object, key: str, tensors: dict[str, torch.Tensor], literals: dict[str, str], depth: int = 0) -> bool:
    """Put each tensor inside `value` into `tensors` by its key, what is none into `literals`. True if there was a tensor.

    Tuples, lists, mappings (so `ModelOutput`) and dataclasses are looked into; one that holds no tensor is one literal.
    """
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        tensors[key] = value
        return True
    if kind in WRITTEN or depth > DEEPEST or (kind in SEQUENCES and ARGUMENTS.issuperset(map(type, value))):
        literals[key] = literal(value)
        return False
    parts = children(value)
    inner: dict[str, str] = {}
    found = False
    for name, part in islice(parts, MOST):
        found |= collect(part, join_keys(key, str(name)), tensors, inner, depth + 1)
    if found:
        literals.update(inner)
    else:
        literals[key] = literal(value)
    return found


def children(value: object) -> Iterable[tuple[object, object]]:
    """The parts of a structure with their names, nothing if it is not one."""
    if isinstance(value, (list, tuple)):
        fields = getattr(value, "_fields", None)
        return zip(fields, value) if isinstance(fields, tuple) else enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return ()


def join_keys(outer: str, inner: str) -> str:
    """The key of what stands at `inner` within what stands at `outer`: "0" and "1.mask" make "0[1].mask"."""
    if not outer or not inner:
        return outer or inner
    digits = len(inner) - len(inner.lstrip("0123456789"))
    return f"{outer}[{inner[:digits]}]{inner[digits:]}" if digits else f"{outer}.{inner}"


def literal(value: Any, depth: int = 0) -> str:
    """`value` as Python writes it. What is no number, text or container is `<its class>`: no user's `__repr__` is run."""
    kind = type(value)
    if kind in SEQUENCES and depth <= DEEPEST:
        if len(value) <= MOST_WRITTEN and ARGUMENTS.issuperset(map(type, value)):
            text = str(tuple(value)) if kind is not list else str(value)
        else:
            parts = [literal(part, depth + 1) for part in value[:MOST_WRITTEN]] + ["…"] * (len(value) > MOST_WRITTEN)
            text = f"[{', '.join(parts)}]" if kind is list else f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    elif kind is int and value.bit_length() > 256:
        text = "<int>"
    elif kind in WRITTEN:
        text = repr(value if kind is not torch.device else str(value))
    elif kind is slice:
        parts = ["" if part is None else literal(part, depth + 1) for part in (value.start, value.stop, value.step)]
        text = ":".join(parts[: 2 if value.step is None else 3])
    elif value is Ellipsis:
        text = "..."
    else:
        text = f"<{value.__name__ if isinstance(value, type) else kind.__name__}>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
