"""Describe live tensors.

A tensor is described as it is, never a clone of it (a clone's stride is its own). Tensors and storages are numbered by
weak reference: the `id` of a short-lived tensor repeats at once, and a strong one would keep its memory. What is made
for each call is unknown to the garbage collector (`gc=False`, no cycles), so that tracing sets off few collections.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar
from weakref import ref

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..schema import TensorMeta

__all__ = ["PLAIN", "Numbers", "Stamp", "TensorTable"]

T = TypeVar("T")

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, FakeTensor})
"""The classes whose attributes can be read without running anyone's `__torch_function__`."""


Stamp = tuple[TensorMeta, int, "int | None"]
"""A tensor as it was seen, its `id`, and its version then: None where no change can be told by it."""


class TensorTable:
    """The tensors of one trace. `names` gives the `id` of a parameter or buffer a reference and its dotted name.

    known      what was read last of each tensor, by its `id`
    refs       whose `id` that is: without a look at it, what is known may be of a tensor that is gone
    versions   the version of it that was read
    odd        the numbers of those that have no version, or that only code of a subclass could ask for it: they are
               read each time
    """

    def __init__(self, names: Mapping[int, tuple[Callable[[], Any], str]]) -> None:
        self.names = names
        self.known: dict[int, TensorMeta] = {}
        self.versions: dict[int, int] = {}
        self.odd: dict[int, int] = {}
        self.refs: dict[int, Callable[[], Any]] = {}
        self.storages: dict[int, int] = {}
        self.count = count().__next__

    def __del__(self) -> None:
        deque(map(torch.UntypedStorage._free_weak_ref, self.storages), 0)

    def describe(self, tensor: Any) -> TensorMeta:
        """What `tensor` is now. It is read again only if its version moved: each change of its form moves it."""
        key = id(tensor)
        meta = self.known.get(key)
        if meta is None or self.refs[key]() is not tensor:
            return self.read(tensor)
        if self.versions[key] == tensor._version:
            return meta
        return self.read(tensor, meta.number)

    def moved(self, stamps: Iterable[Stamp]) -> list[TensorMeta]:
        """Which tensors have been written to since they were seen; and those of which no version tells it."""
        found = []
        for seen, key, version in stamps:
            if version is None:
                found.append(seen)
                continue
            tensor = self.refs[key]()
            if tensor is not None and tensor._version != version and self.known[key].number == seen.number:
                found.append(seen)
                self.describe(tensor)
        return found

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """Its number, if this very tensor was seen."""
        key = id(tensor)
        if key not in self.refs or self.refs[key]() is not tensor:
            return None
        return self.known[key].number if key in self.known else self.odd[key]

    def living(self) -> Numbers:
        """What `number_of` needs of the tensors that still live, to be kept when the table goes."""
        living = ((key, whose, whose()) for key, whose in self.refs.items())
        return Numbers({key: (whose, self.number_of(tensor)) for key, whose, tensor in living if tensor is not None})

    def forget(self, tensor: torch.Tensor) -> None:
        """Read `tensor` anew: its form was changed without its version (`x.data = y`)."""
        key = id(tensor)
        if key in self.known and self.refs[key]() is tensor:
            self.read(tensor, self.known[key].number)

    def read(self, tensor: Any, number: int | None = None) -> TensorMeta:
        """Read a tensor that was not known, or whose form may have changed."""
        key = id(tensor)
        if number is None:
            number = self.count() if not self.odd else self._number(tensor)
        self.refs[key] = ref(tensor)
        kind, meta = type(tensor), None
        if kind in PLAIN:
            try:
                storage = tensor.untyped_storage()
                storages = self.storages
                memory = storages.get(storage._cdata)
                if memory is None:
                    memory = storages[storage._weak_ref()] = len(storages)
                device = tensor.fake_device if kind is FakeTensor else tensor.device  # the short way to it
                make = FORMS[tensor.shape, tensor.stride(), tensor.dtype, device]
                if key not in self.names and kind is torch.Tensor:
                    meta = make(tensor.storage_offset(), number, memory)
                else:
                    kind_name = None if kind is torch.Tensor or is_fake_result(tensor) else "Parameter"
                    meta = make(tensor.storage_offset(), number, memory, self._name(tensor), kind_name)
                self.versions[key] = tensor._version
                self.known[key] = meta
                return meta
            except (RuntimeError, TypeError):  # no storage, no stride, no version, or a size that is no number
                pass
        self.known.pop(key, None)
        self.odd[key] = number
        if meta is not None:
            return meta
        with torch._C.DisableTorchFunctionSubclass():
            return self._read(tensor, number)

    def _number(self, tensor: Any) -> int:
        key = id(tensor)
        return self.odd[key] if key in self.odd and self.refs[key]() is tensor else self.count()

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
            dtype=WORDS[tensor.dtype],
            device=WORDS[tensor.device],
            layout=WORDS[tensor.layout],
            is_contiguous=bool(attempt(tensor.is_contiguous)),
            offset=attempt(tensor.storage_offset) or 0,
            number=number,
            storage=attempt(lambda: self._storage(tensor)),
            name=self._name(tensor),
            kind=None if type(tensor) is torch.Tensor else type(tensor).__name__,
        )

    def _name(self, tensor: torch.Tensor) -> str | None:
        """Its dotted name; another tensor may have got the `id` of a buffer that the forward replaced."""
        whose, name = self.names.get(id(tensor), (lambda: None, None))
        return name if whose() is tensor else None

    def _storage(self, tensor: torch.Tensor) -> int:
        """The number of its storage. A weak reference of torch's own holds the address, not the memory."""
        storage: Any = tensor.untyped_storage()
        if storage._cdata not in self.storages:
            self.storages[storage._weak_ref()] = len(self.storages)
        return self.storages[storage._cdata]


class Numbers(dict[int, tuple[Callable[[], Any], int | None]]):
    """`id` of a tensor -> a weak reference to it, and its number."""

    def number_of(self, tensor: torch.Tensor) -> int | None:
        whose, number = self.get(id(tensor), (lambda: None, None))
        return number if whose() is tensor else None


class Words(dict[object, str]):
    """What torch calls a dtype, device or layout. Interned: msgspec leaves a default out of a file by identity."""

    def __missing__(self, thing: object) -> str:
        word = self[thing] = sys.intern(str(thing).removeprefix("torch."))
        return word


def is_fake_result(tensor: torch.Tensor) -> bool:
    return type(tensor) is FakeTensor and not isinstance(tensor, torch.nn.Parameter)


WORDS = Words()


class Forms(dict[tuple[Any, ...], Callable[..., TensorMeta]]):
    """What makes the data of a tensor of some shape, stride, dtype and device. There are few of them in a model."""

    MOST = 4096

    def __missing__(self, form: tuple[Any, ...]) -> Callable[..., TensorMeta]:
        shape, stride, dtype, device = form
        if len(self) >= self.MOST:
            self.clear()
        make = self[form] = partial(
            TensorMeta, tuple(shape), stride, WORDS[dtype], WORDS[device], "strided", is_contiguous(shape, stride)
        )
        return make


FORMS = Forms()


def is_contiguous(shape: Iterable[int], stride: Iterable[int]) -> bool:
    """As torch decides it: the stride of a dim of one element does not matter, nor any of no elements."""
    dims = [*zip(shape, stride, strict=True)]
    if any(size == 0 for size, _ in dims):
        return True
    expected = 1
    for size, step in reversed(dims):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


def attempt(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (RuntimeError, ValueError):
        return None


def whole_numbers(sizes: Iterable[object]) -> tuple[int, ...]:
    """Sizes as ints; -1 for one that is a symbol (the ragged dim of a jagged tensor)."""
    return tuple(size if isinstance(size, int) else -1 for size in sizes)
