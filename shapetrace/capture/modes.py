"""The two modes through which torch tells what is called between modules. Both only pass on what they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import BuiltinFunctionType, FrameType, FunctionType, MethodDescriptorType, MethodWrapperType
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode, _push_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from .materialised import MATERIALISED
from .noted import Function
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

FORGETTING = "data.__set__"

SPECIAL = frozenset({*OPENED, *MATERIALISED})
"""Functions that may run otherwise under a watch."""

PURE = """view reshape transpose permute unsqueeze squeeze expand contiguous to type float flatten split chunk narrow
    select __getitem__ le lt ge gt eq ne add sub mul div true_divide matmul mm bmm addmm baddbmm linear layer_norm
    rms_norm softmax tanh pow exp rsqrt sqrt mean sum cat stack where masked_fill gelu dropout relu silu
    scaled_dot_product_attention""".split()
PURE_FUNCTIONS = frozenset(getattr(place, name, None) for name in PURE for place in (torch, torch.Tensor, F))
"""The functions that models call most, of those that change no argument but `out`, or one if told to by `inplace`."""


class FunctionCalls(TorchFunctionMode):
    """Tells `recorder` of each torch function and tensor method that is called while it is on the stack.

    materialise   run fused attention written out, which makes its scores and weights
    """

    def __init__(self, recorder: Recorder, *, materialise: bool = False) -> None:
        super().__init__()
        self.recorder = recorder
        self.opened = OPENED | MATERIALISED if materialise else OPENED
        self.functions: dict[Callable[..., Any], Function | None] = {}
        self.run = recorder.run
        self.shielded = False

    def __enter__(self) -> FunctionCalls:
        self.shielded = torch._C._len_torch_function_stack() > 0
        super().__enter__()
        return self

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        try:
            what = FUNCTIONS[func]
        except KeyError:
            what = self.function(func)
        if what is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        if what.is_special or self.shielded or (types and not PLAIN.issuperset(types)):
            return self.run_specially(what, func, types, args, kwargs, sys._getframe(1))
        return self.run(what, func, args, kwargs, sys._getframe(1))

    def function(self, func: Callable[..., Any]) -> Function | None:
        """What is known of a function. Only torch's own are kept for the next trace: a user's may hold tensors."""
        if func not in self.functions:
            self.functions[func] = function_of(func)
            if is_of_torch(func):
                FUNCTIONS[func] = self.functions[func]
        return self.functions[func]

    def run_specially(
        self, what: Function, func: Any, types: Any, args: tuple[Any, ...], kwargs: Any, frame: FrameType
    ) -> Any:
        """A function that takes more than to be run; or under other modes, or for a subclass: those may do anything."""
        function = func
        if what.is_pure:
            what = msgspec.structs.replace(what, is_pure=False)
        if func in self.opened and PLAIN.issuperset(types):
            function = self.open(self.opened[func])
        if not self.shielded:
            result = self.run(what, function, args, kwargs, frame)
        else:
            with torch._C.DisableTorchFunction():
                result = self.run(what, shielded(function), args, kwargs, frame)
        if what.name == FORGETTING:  # `x.data = y` gives x another form, and no version tells it
            self.recorder.table.forget(args[0])
        return result

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
        return self.recorder.run(op_of(func), func, args, kwargs, None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Off the stack for a while, as `FunctionCalls.aside`."""
        if _get_current_dispatch_mode() is not self:
            yield
            return
        with _pop_mode_temporarily():
            yield


FUNCTIONS: dict[Callable[..., Any], Function | None] = {}
"""What is known of the functions of torch that have been called. None of those that are not to be recorded."""


def function_of(function: Any) -> Function | None:
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":
        attribute: str = function.__self__.__name__
        return Function("function", attribute) if attribute in GETTERS_OF_TENSORS else None
    if name == "__set__":
        return Function("function", f"{function.__self__.__name__}.__set__", is_special=True)
    if name in QUESTIONS:
        return None
    return Function("function", name, is_pure=function in PURE_FUNCTIONS, is_special=function in SPECIAL)


def is_of_torch(function: Any) -> bool:
    if isinstance(function, FunctionType):
        return function.__module__.startswith("torch.") and "<locals>" not in function.__qualname__
    return isinstance(function, (MethodDescriptorType, MethodWrapperType, BuiltinFunctionType)) and (
        "torch" in (getattr(function, "__module__", None) or repr(function))
    )


@lru_cache(maxsize=4096)
def op_of(op: Any) -> Function:
    """An aten op, and the keys of the arguments that it writes to: positions, and names of keyword arguments."""
    changes = frozenset(
        argument.name if argument.kwarg_only else str(index)
        for index, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    return Function("op", str(op.overloadpacket), changes=changes)


def shielded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Other modes are to see the function, but not how tensors are looked at before and after it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._EnableTorchFunction():
            return function(*args, **kwargs)

    return run
