"""Which tensors a function writes to, where no version tells it: under `torch.inference_mode` they have none.

The ops that it runs say it: what each of them writes to is part of its schema.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Writes", "written_keys"]


class Writes(TorchDispatchMode):
    """Looks, while it is on the stack, at what ops write to.

    tensors    by their `id`
    storages   by their address
    """

    def __init__(self) -> None:
        super().__init__()
        self.tensors: set[int] = set()
        self.storages: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        with self:  # dropout in place is made of others, and in eval of none
            result: Any = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        for key in written_keys(func):
            value = args[int(key)] if key.isdecimal() and int(key) < len(args) else kwargs.get(key)
            for tensor in value if isinstance(value, list | tuple) else [value]:
                if isinstance(tensor, Tensor):
                    self.see(tensor)
        return func(*args, **kwargs)

    def see(self, tensor: Tensor) -> None:
        self.tensors.add(id(tensor))
        with suppress(RuntimeError, NotImplementedError):  # sparse ones have no storage
            self.storages.add(tensor.untyped_storage()._cdata)


@lru_cache(maxsize=4096)
def written_keys(op: Any) -> frozenset[str]:
    """The keys of the arguments that an aten op writes to: positions, and names of keyword arguments."""
    return frozenset(
        argument.name if argument.kwarg_only else str(index)
        for index, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
