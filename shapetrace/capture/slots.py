"""A slot around the call of a module.

It stands where `Module.compile` puts a compiled call, which is asked first: torch needs no hooks to tell of the call,
and takes its fast way through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

__all__ = ["Around", "CallSlot"]


Around = Callable[[nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class CallSlot:
    """Replaces the call of a module by `around(module, call, args, kwargs)`, from `__enter__` to `__exit__`."""

    __slots__ = ("around", "inner", "module")

    def __init__(self, module: nn.Module, around: Around) -> None:
        self.module = module
        self.around = around
        self.inner: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.around(self.module, self.inner or self.module._call_impl, args, kwargs)

    def __enter__(self) -> CallSlot:
        attributes = self.module.__dict__
        self.inner = attributes.get("_compiled_call_impl")
        attributes["_compiled_call_impl"] = self
        return self

    def __exit__(self, *_: object) -> None:
        """Take this slot out; others may have been put around it since, and stay."""
        attributes = self.module.__dict__
        outer = attributes.get("_compiled_call_impl")
        if outer is self and self.inner is None:
            del attributes["_compiled_call_impl"]
        elif outer is self:
            attributes["_compiled_call_impl"] = self.inner
        else:  # and if the module was compiled since, none of the chain is left
            while isinstance(outer, CallSlot) and outer.inner is not self:
                outer = outer.inner
            if isinstance(outer, CallSlot):
                outer.inner = self.inner
        self.around = bare  # what it led to leads back here

    def __deepcopy__(self, _: object) -> None:
        """A copy or a pickle of the module has no slot: not all of torch's modules leave it out."""

    def __reduce__(self) -> Any:
        return no_slot, ()


def bare(_: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(*args, **kwargs)


def no_slot() -> None: ...
