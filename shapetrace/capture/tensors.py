"""Describe live tensors.

A tensor is described as it is, never a clone of it (a clone's stride is its own). Tensors and storages are numbered by
weak reference: the `id` of a short-lived tensor repeats at once, and a strong one would keep its memory. What is made
for each call is unknown to the garbage collector (`gc=False`, no cycles), so that tracing sets off no collections.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..schema import TensorMeta

__all__ = ["PLAIN", "Known", "Numbers", "TensorTable", "version_of"]

T = TypeVar("T")

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, FakeTensor})
"""The classes whose attributes can be read without running anyone's `__torch_function__`."""


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

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """Its number, if this very tensor was seen."""
        known = self.known.get(id(tensor))
        return known.meta.number if known is not None and known.ref() is tensor else None

    def living(self) -> Numbers:
        """What `number_of` needs of the tensors that still live, to be kept when the table goes."""
        numbers = ((key, known.ref, known.meta.number) for key, known in self.known.items())
        return Numbers({key: (ref, number) for key, ref, number in numbers if ref() is not None})

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
                        self.words[tensor.fake_device if kind is FakeTensor else tensor.device],
                        "strided",
                        tensor.is_contiguous(),
                        tensor.storage_offset(),
                        number,
                        memory,
                        None if id(tensor) not in self.names else self._name(tensor),
                        None if kind is torch.Tensor or is_fake_result(tensor) else "Parameter",
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


class Numbers(dict[int, tuple[Callable[[], Any], int | None]]):
    """`id` of a tensor -> a weak reference to it, and its number."""

    def number_of(self, tensor: torch.Tensor) -> int | None:
        ref, number = self.get(id(tensor), (lambda: None, None))
        return number if ref() is tensor else None


class Words(dict[object, str]):
    """What torch calls a dtype, device or layout. Interned: msgspec leaves a default out of a file by identity."""

    def __missing__(self, thing: object) -> str:
        word = self[thing] = sys.intern(str(thing).removeprefix("torch."))
        return word


def is_fake_result(tensor: torch.Tensor) -> bool:
    return type(tensor) is FakeTensor and not isinstance(tensor, torch.nn.Parameter)


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
