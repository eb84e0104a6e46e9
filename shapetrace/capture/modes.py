"""The two modes through which torch tells what is called between modules. Both only pass on what they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode, _push_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from .materialised import MATERIALISED
from .opened import OPENED
from .recorder import Recorder
from .tensors import PLAIN

__all__ = ["FunctionCalls", "OpCalls"]

GETTERS_OF_TENSORS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})
QUESTIONS = frozenset(
    """__len__ __hash__ __repr__ __format__ __contains__ dim ndimension size stride numel nelement element_size
    storage_offset untyped_storage storage data_ptr get_device is_contiguous is_floating_point is_complex is_signed
    is_inference is_nonzero is_same_size is_set_to is_tensor has_names""".split()
)
"""Functions that only ask about a tensor: passed through at once, for a model asks often."""


SPECIAL = frozenset({"data.__set__", *(function.__name__ for function in (*OPENED, *MATERIALISED))})


class FunctionCalls(TorchFunctionMode):
    """Tells `recorder` of each torch function and tensor method that is called while it is on the stack.

    materialise   run fused attention written out, which makes its scores and weights
    """

    def __init__(self, recorder: Recorder, *, materialise: bool = False) -> None:
        super().__init__()
        self.recorder = recorder
        self.opened = OPENED | MATERIALISED if materialise else OPENED
        self.names: dict[Callable[..., Any], str | None] = {}
        self.run = recorder.run
        self.shielded = False

    def __enter__(self) -> FunctionCalls:
        self.shielded = torch._C._len_torch_function_stack() > 0
        super().__enter__()
        return self

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        try:
            name = self.names[func]
        except KeyError:
            name = self.names[func] = function_name(func)
        if name is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        if name in SPECIAL:
            func = self.prepare(name, func, types)
        if self.shielded:
            return self.run_shielded(name, func, args, kwargs or {}, sys._getframe(1))
        return self.run("function", name, func, args, kwargs or {}, sys._getframe(1))

    def prepare(self, name: str, func: Any, types: Any) -> Any:
        """What to run in place of a function that takes more than to be run."""
        if name == "data.__set__":
            return self.forgetting(func)
        if func in self.opened and PLAIN.issuperset(types):
            return self.open(self.opened[func])
        return func

    def forgetting(self, setter: Callable[..., None]) -> Callable[..., None]:
        """`x.data = y` gives x another form, and no version tells it."""

        def run(tensor: torch.Tensor, value: torch.Tensor) -> None:
            setter(tensor, value)
            self.recorder.table.forget(tensor)

        return run

    def run_shielded(
        self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Any:
        """Under other modes: they are to see the function, but not how tensors are looked at before and after it."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._EnableTorchFunction():
                return func(*args, **kwargs)

        with torch._C.DisableTorchFunction():
            return self.recorder.run("function", name, run, args, kwargs, frame)

    def open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Off the stack for a while. Where another mode lies on top of this one, it stays where it is."""
        if _get_current_function_mode() is not self:
            yield
            return
        _pop_mode()
        try:
            yield
        finally:
            _push_mode(self)


class OpCalls(TorchDispatchMode):
    """Tells `recorder` of each aten op that is run while it is on the stack."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        written = written_keys(func)
        return self.recorder.run(
            "op", str(func.overloadpacket), func, args, kwargs or {}, None, lambda key: key.split("[")[0] in written
        )

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Off the stack for a while, as `FunctionCalls.aside`."""
        if _get_current_dispatch_mode() is not self:
            yield
            return
        with _pop_mode_temporarily():
            yield


@lru_cache(maxsize=4096)
def written_keys(op: Any) -> frozenset[str]:
    """The keys of the arguments that an aten op writes to, by its schema: positions, and names of keyword arguments."""
    arguments = [
        (index, argument)
        for index, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return frozenset(argument.name if argument.kwarg_only else str(index) for index, argument in arguments)


def function_name(function: Any) -> str | None:
    """What to call a function in the record; None if it is not to be recorded."""
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":
        attribute: str = function.__self__.__name__
        return attribute if attribute in GETTERS_OF_TENSORS else None
    if name == "__set__":
        return f"{function.__self__.__name__}.__set__"
    return None if name in QUESTIONS else name
