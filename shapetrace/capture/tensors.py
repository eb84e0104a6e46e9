"""Describe live tensors, and find them in any structure of arguments and results.

A tensor is described as it is, never a clone of it (a clone's stride is its own). Tensors and storages are numbered by
weak reference: the `id` of a short-lived tensor repeats at once, and a strong one would keep its memory. What is made
for each call is unknown to the garbage collector (`gc=False`, no cycles), so that tracing sets off no collections.
"""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import count, islice
from typing import Any, TypeVar, cast

import msgspec
import torch

from ..schema import TensorMeta

__all__ = [
    "ARGUMENTS",
    "CONSTANTS",
    "CONSTANT_TEXTS",
    "MOST_WRITTEN",
    "PLAIN",
    "SEQUENCES",
    "Known",
    "TensorTable",
    "collect",
    "join_keys",
    "text",
    "version_of",
]

T = TypeVar("T")

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""The classes whose attributes can be read without running anyone's `__torch_function__`."""

ARGUMENTS = frozenset({int, float, bool, type(None)})
SEQUENCES = frozenset({tuple, list, torch.Size})
CONSTANTS = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})

DEEPEST = 16
MOST = 4096
MOST_WRITTEN = 16
LONGEST = 200
"""Bounds, so that a structure that holds itself, or a million numbers, comes to an end."""


class Known(msgspec.Struct, gc=False):
    """What is known of a tensor while it lives.

    version   None where no change can be told by it
    plain     a change can be told by it, and to read it runs no code of a subclass
    """

    ref: Callable[[], Any]
    version: int | None
    plain: bool
    meta: TensorMeta


class TensorTable:
    """The tensors of one trace. `names` gives the `id` of a parameter or buffer a reference and its dotted name."""

    def __init__(self, names: Mapping[int, tuple[Callable[[], Any], str]]) -> None:
        self.names = names
        self.known: dict[int, Known] = {}
        self.storages: dict[int, int] = {}
        self.next_tensor = 0
        self.words = Words()

    def __del__(self) -> None:
        for address in self.storages:
            torch.UntypedStorage._free_weak_ref(address)

    def describe(self, tensor: torch.Tensor) -> Known:
        """What `tensor` is now. It is read again only if its version moved: each change of its form moves it."""
        known = self.known.get(id(tensor))
        if known is None or known.ref() is not tensor:
            return self.add(tensor)
        if known.version is None or known.version != version_of(tensor):
            return self.add(tensor, known.meta.number)
        return known

    def forget(self, tensor: torch.Tensor) -> None:
        """Read `tensor` anew the next time: its form was changed without its version (`x.data = y`)."""
        known = self.known.get(id(tensor))
        if known is not None:
            known.version, known.plain = None, False

    def add(self, tensor: Any, number: int | None = None) -> Known:
        """Read a tensor that was not known, or whose form has changed."""
        if number is None:
            number = self.next_tensor
            self.next_tensor = number + 1
        kind = type(tensor)
        if kind in PLAIN:
            try:
                storage = tensor.untyped_storage()
                memory = self.storages.get(storage._cdata)
                if memory is None:
                    memory = self.storages[storage._weak_ref()] = len(self.storages)
                known = self.known[id(tensor)] = Known(
                    weakref.ref(tensor),
                    tensor._version,
                    True,
                    TensorMeta(
                        tuple(tensor.shape),
                        tensor.stride(),
                        self.words[tensor.dtype],
                        self.words[tensor.device],
                        "strided",
                        tensor.is_contiguous(),
                        tensor.storage_offset(),
                        number,
                        memory,
                        None if id(tensor) not in self.names else self._name(tensor),
                        None if kind is torch.Tensor else "Parameter",
                    ),
                )
                return known
            except (RuntimeError, TypeError):  # no storage, no stride, no version, or a size that is no number
                pass
        with torch._C.DisableTorchFunctionSubclass():
            meta = self._read(tensor, number)
        known = self.known[id(tensor)] = Known(weakref.ref(tensor), version_of(tensor), False, meta)
        return known

    def _read(self, tensor: Any, number: int | None) -> TensorMeta:
        """For tensors that lack a storage, a stride or even a shape: sparse, nested, quantised, functorch's, lazy."""
        shape: tuple[int, ...] | None = attempt(lambda: tensor.shape)
        if shape is None and tensor.is_nested:
            sizes = [attempt(partial(tensor.size, dim)) for dim in range(tensor.dim())]
            shape = tuple(-1 if size is None else size for size in sizes)
        stride = attempt(tensor.stride) if tensor.layout in (torch.strided, torch.jagged) else None
        return TensorMeta(
            shape=whole_numbers(shape or ()),
            stride=None if stride is None else whole_numbers(stride),
            dtype=self.words[tensor.dtype],
            device=self.words[tensor.device],
            layout=self.words[tensor.layout],
            is_contiguous=bool(attempt(tensor.is_contiguous)),
            offset=attempt(tensor.storage_offset) or 0,
            number=number,
            storage=attempt(lambda: self._storage(tensor)),
            name=self._name(tensor),
            kind=None if type(tensor) is torch.Tensor else type(tensor).__name__,
        )

    def _name(self, tensor: torch.Tensor) -> str | None:
        """Its dotted name; another tensor may have got the `id` of a buffer that the forward replaced."""
        ref, name = self.names.get(id(tensor), (lambda: None, None))
        return name if ref() is tensor else None

    def _storage(self, tensor: torch.Tensor) -> int:
        """The number of its storage. A weak reference of torch's own holds the address, not the memory."""
        storage: Any = tensor.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._weak_ref()] = len(self.storages)
        return self.storages[storage._cdata]


class Words(dict[object, str]):
    """What torch calls a dtype, device or layout. Interned: msgspec leaves a default out of a file by identity."""

    def __missing__(self, thing: object) -> str:
        word = self[thing] = sys.intern(str(thing).removeprefix("torch."))
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


def collect(
    value: Any, key: str, literals: dict[str, str], above: tuple[int, ...] = ()
) -> list[tuple[str, torch.Tensor]]:
    """Each tensor inside `value` with its key; what is none is written into `literals`.

    Tuples, lists, mappings (so `ModelOutput`) and dataclasses are looked into; one that holds no tensor is one literal,
    and so is one that is inside itself.
    """
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return [(key, value)]
    parts = parts_of(cast(Hashable, kind))
    if parts is None or id(value) in above or len(above) > DEEPEST:
        literals[key] = literal(value)
        return []
    found: list[tuple[str, torch.Tensor]] = []
    others: dict[str, str] = {}
    for name, part in first_parts(parts, value):
        inner = name if not key else f"{key}[{name}]" if name[:1].isdigit() else f"{key}.{name}"
        if type(part) in PLAIN:
            found.append((inner, part))
        elif type(part) in ARGUMENTS:
            others[inner] = repr(part)
        else:
            found += collect(part, inner, others, (*above, id(value)))
    if found:
        literals.update(others)
    else:
        literals[key] = literal(value)
    return found


Parts = Callable[[Any], Iterable[tuple[str, Any]]]


@lru_cache(maxsize=1024)
def parts_of(kind: Any) -> Parts | None:
    """How to take a structure of this class apart into names and values; None if it is not one."""
    if issubclass(kind, (list, tuple)):
        return lambda value: zip(map(str, count()), value, strict=False)
    if issubclass(kind, Mapping):
        return lambda value: ((name_in_mapping(name), part) for name, part in value.items())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: ((name, getattr(value, name, None)) for name in names)
    return None


def name_in_mapping(name: object) -> str:
    """A name is written as it is, anything else as Python does: "a.b" must not read as the b of a."""
    return name if type(name) is str and name.isidentifier() else literal(name)


def first_parts(parts: Parts, value: Any) -> list[tuple[str, Any]]:
    """A mapping is a user's code, and may fail where it is looked into."""
    try:
        return list(islice(parts(value), MOST))
    except Exception:
        return []


def join_keys(outer: str, inner: str) -> str:
    """The key of what stands at `inner` within what stands at `outer`: "0" and "1.mask" make "0[1].mask"."""
    if not outer or not inner:
        return outer or inner
    digits = len(inner) - len(inner.lstrip("0123456789"))
    return f"{outer}[{inner[:digits]}]{inner[digits:]}" if digits else f"{outer}.{inner}"


def literal(value: Any, depth: int = 0) -> str:
    """`value` as Python writes it. What is no number, text or container is `<its class>`: no `__repr__` is run."""
    kind = type(value)
    if kind in ARGUMENTS:
        return text(value)
    if kind in CONSTANTS:
        return CONSTANT_TEXTS[value]
    if kind in SEQUENCES and depth <= DEEPEST:
        parts = [literal(part, depth + 1) for part in value[:MOST_WRITTEN]]
        if len(value) > MOST_WRITTEN:
            parts.append("…")
        written = f"[{', '.join(parts)}]" if kind is list else f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    elif kind is slice:
        parts = ["" if part is None else literal(part, depth + 1) for part in (value.start, value.stop, value.step)]
        written = ":".join(parts if parts[2] else parts[:2])
    elif kind is str or kind is complex:
        written = repr(value)
    elif value is Ellipsis:
        written = "..."
    else:
        written = f"<{value.__name__ if isinstance(value, type) else kind.__name__}>"
    return written if len(written) <= LONGEST else f"{written[:LONGEST]}…"


def text(value: Any) -> str:
    """A number, or a short sequence of numbers, as Python writes it."""
    try:
        return repr(value) if type(value) is not torch.Size else repr(tuple(value))
    except ValueError:  # Python writes no int of more than 4300 digits
        return "<int>" if type(value) is int else literal(list(value))


class ConstantTexts(dict[object, str]):
    """A dtype, device, layout or memory format as Python writes it; there are few of them."""

    def __missing__(self, constant: object) -> str:
        text = self[constant] = repr(str(constant) if type(constant) is torch.device else constant)
        return text


CONSTANT_TEXTS = ConstantTexts()
