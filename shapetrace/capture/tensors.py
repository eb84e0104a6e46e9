"""Describe live tensors.

A tensor is described as it is, never a clone of it (a clone's stride is its own). Tensors and storages are numbered by
weak reference: the `id` of a short-lived tensor repeats at once, and a strong one would keep its memory. What is made
for each call is unknown to the garbage collector (`gc=False`, no cycles), so that tracing sets off few collections.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter

from ..schema import TensorMeta

__all__ = ["PLAIN", "Known", "Numbers", "Stamp", "TensorTable"]

T = TypeVar("T")

PLAIN = frozenset({Tensor, Parameter, FakeTensor})
"""The classes whose attributes can be read without running anyone's `__torch_function__`."""


Stamp = tuple[TensorMeta, int, "int | None"]
"""A tensor as it was seen, its `id`, and its version then: None where no change can be told by it."""


class Known(ref[Any]):
    """Whose `id` it is: what is known by an `id` may be of a tensor that is gone, and then it is None that this gives.

    meta      what was read last of the tensor
    version   the version of it that was read
    memory    the number of the storage that it lay in then
    before    another that lay in it before, and still did
    """

    __slots__ = ("before", "memory", "meta", "version")

    meta: TensorMeta
    version: int
    memory: int
    before: Known | None

    if TYPE_CHECKING:

        def __call__(self) -> Any: ...


class TensorTable:
    """The tensors of one trace, by their `id`. `names` gives that of a parameter or buffer a reference and its name.

    odd   those that have no version, or that only code of a subclass could ask for it: they are read each time
    """

    def __init__(self, names: Mapping[int, tuple[Callable[[], Any], str]]) -> None:
        self.names = names
        self.known: dict[int, Known] = {}
        self.odd: dict[int, Known] = {}
        self.storages: dict[int, Known] = {}
        """What was read last of those that lie in a storage, by its address. A weak reference of torch's own would keep
        the small object at that address, and so many of these in between keep freed memory from being used again."""
        self.count = count().__next__
        self.count_storages = count().__next__

    def describe(self, tensor: Any) -> TensorMeta:
        """What `tensor` is now. It is read again only if its version moved: each change of its form moves it."""
        known = self.known.get(id(tensor))
        if known is None or known() is not tensor:
            return self.read(tensor)
        return known.meta if known.version == tensor._version else self.read(tensor, known.meta.number)

    def stamp(self, meta: TensorMeta, key: int) -> Stamp:
        return meta, key, self.known[key].version if key in self.known else None

    def moved(self, stamps: Iterable[Stamp]) -> list[TensorMeta]:
        """Which tensors have been written to since they were seen; and those of which no version tells it."""
        found = []
        for seen, key, version in stamps:
            if version is None:
                found.append(seen)
                continue
            known = self.known.get(key)
            tensor: Any = None if known is None else known()
            if (
                known is not None
                and tensor is not None
                and tensor._version != version
                and known.meta.number == seen.number
            ):
                found.append(seen)
                self.describe(tensor)
        return found

    def number_of(self, tensor: Tensor) -> int | None:
        """Its number, if this very tensor was seen."""
        found = number_in(self.known, tensor)
        return number_in(self.odd, tensor) if found is None else found

    def living(self) -> Numbers:
        """What `number_of` needs of the tensors that still live, to be kept when the table goes."""
        tables = (self.odd, self.known) if self.odd else (self.known,)
        return Numbers({key: known for table in tables for key, known in table.items() if known() is not None})

    def forget(self, tensor: Tensor) -> None:
        """Read `tensor` anew: its form was changed without its version (`x.data = y`)."""
        number = self.number_of(tensor)
        if number is not None:
            self.read(tensor, number)

    def read(self, tensor: Any, number: int | None = None) -> TensorMeta:
        """Read a tensor that is not `known`, or whose form may have changed."""
        key, kind = id(tensor), type(tensor)
        known = Known(tensor)
        if number is None and self.odd:
            number = number_in(self.odd, tensor)
        if number is None:
            number = self.count()
        try:
            if kind is not Tensor and kind not in PLAIN:
                raise TypeError
            memory = self.place(known, tensor.untyped_storage()._cdata)
            if kind is FakeTensor:
                form = tensor.shape, tensor.stride(), tensor.dtype, tensor.fake_device  # the short way to it
            else:
                form = tensor.shape, tensor.stride(), tensor.dtype, tensor.is_cpu or tensor.device
            make = FORMS.get(form) or made(form)
            named = self.names.get(key)
            if kind is Tensor and named is None:
                known.meta = make(tensor.storage_offset(), number, memory)
            else:
                name = None if named is None or named[0]() is not tensor else named[1]
                is_parameter = kind is not Tensor and (kind is Parameter or isinstance(tensor, Parameter))
                known.meta = make(tensor.storage_offset(), number, memory, name, "Parameter" if is_parameter else None)
            known.version = tensor._version
            self.known[key] = known
            return known.meta
        except (RuntimeError, TypeError):  # no storage, no stride, no version, or a size that is no number
            pass
        if not hasattr(known, "meta"):
            with torch._C.DisableTorchFunctionSubclass():
                known.meta = self._read(tensor, known, number)
        self.known.pop(key, None)
        self.odd[key] = known
        return known.meta

    def _read(self, tensor: Any, known: Known, number: int | None) -> TensorMeta:
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
            storage=attempt(lambda: self.place(known, tensor.untyped_storage()._cdata)),
            name=self._name(tensor),
            kind=None if type(tensor) is Tensor else type(tensor).__name__,
        )

    def _name(self, tensor: Tensor) -> str | None:
        """Its dotted name; another tensor may have got the `id` of a buffer that the forward replaced."""
        whose, name = self.names.get(id(tensor), (lambda: None, None))
        return name if whose() is tensor else None

    def place(self, known: Known, address: int) -> int:
        """The number of the storage at an address, in which a tensor lies now. It is another one if all that lay there
        have gone, or lie elsewhere."""
        before = self.storages.get(address)
        if before is not None:
            before = lying(before, address)
        memory = self.count_storages() if before is None else before.memory
        known.before, known.memory = before, memory
        self.storages[address] = known
        return memory

    def storage_at(self, address: int) -> int | None:
        """Its number, if a tensor in it was seen."""
        known = self.storages.get(address)
        known = None if known is None else lying(known, address)
        return None if known is None else known.memory


class Numbers(dict[int, Known]):
    """The tensors that lived when their trace was complete, by their `id`."""

    def number_of(self, tensor: Tensor) -> int | None:
        return number_in(self, tensor)


def lying(known: Known | None, address: int) -> Known | None:
    """It, or the next before it, that still lies in the storage at this address."""
    while known is not None:
        tensor = known()
        if tensor is not None and address_of(tensor) == address:
            return known
        known = known.before
    return None


def address_of(tensor: Any) -> int:
    """That of its storage, asked by no code of the user's."""
    if type(tensor) in PLAIN:
        return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]


def number_in(known: Mapping[int, Known], tensor: Tensor) -> int | None:
    found = known.get(id(tensor))
    return None if found is None or found() is not tensor else found.meta.number


class Words(dict[object, str]):
    """What torch calls a dtype, device or layout. Interned: msgspec leaves a default out of a file by identity."""

    def __missing__(self, thing: object) -> str:
        word = self[thing] = sys.intern(str(thing).removeprefix("torch."))
        return word


WORDS = Words()


Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, "torch.device | bool"]
"""Shape, stride, dtype and device. In place of the device of the CPU stands True, which costs less to ask for than a
device, and to compare."""

FORMS: dict[Form, Callable[..., TensorMeta]] = {}
"""What makes the data of a tensor of some form. There are few of them in a model."""

MOST_FORMS = 4096


def made(form: Form) -> Callable[..., TensorMeta]:
    """What makes the data of a tensor of a form that was not met yet."""
    shape, stride, dtype, device = form
    if len(FORMS) >= MOST_FORMS:
        FORMS.clear()
    where = "cpu" if device is True else WORDS[device]
    make = FORMS[form] = partial(
        TensorMeta, tuple(shape), stride, WORDS[dtype], where, "strided", is_contiguous(shape, stride)
    )
    return make


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
