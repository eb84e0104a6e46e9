"""The two modes through which torch tells what is called between modules. Both only pass on what they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import BuiltinFunctionType, FrameType, FunctionType, MethodDescriptorType, MethodWrapperType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _pop_mode, _push_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _pop_mode_temporarily

from ..contexts import context
from .materialised import MATERIALISED
from .noted import INDEX, NONE, Function, keys_of
from .opened import OPENED
from .places import PLACES, Place
from .recorder import Recorder, said
from .structures import ATOMS
from .tensors import PLAIN
from .writes import written_keys

__all__ = ["FunctionCalls", "OpCalls"]

GETTERS_OF_TENSORS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})
QUESTIONS = frozenset(
    """__len__ __hash__ __repr__ __format__ __contains__ dim ndimension size stride numel nelement element_size
    storage_offset untyped_storage storage data_ptr get_device is_contiguous is_floating_point is_complex is_signed
    is_inference is_nonzero is_same_size is_set_to is_tensor has_names""".split()
)
"""Functions that only ask about a tensor: passed through at once, for a model asks often."""

FORGETTING = "data.__set__"

PURE = """view reshape transpose permute unsqueeze squeeze expand contiguous to type float flatten split chunk narrow
    select __getitem__ le lt ge gt eq ne add sub mul div true_divide matmul mm bmm addmm baddbmm linear layer_norm
    rms_norm softmax tanh pow exp rsqrt sqrt mean sum cat stack where masked_fill gelu dropout relu silu
    neg cos sin sigmoid clone unbind arange tensor zeros ones full triu tril log_softmax
    scaled_dot_product_attention""".split()
PURE_FUNCTIONS = frozenset(getattr(place, name, None) for name in PURE for place in (torch, torch.Tensor, F))
"""The functions that models call most, of those that change no argument but `out`, or one if told to by `inplace`."""


class FunctionCalls(TorchFunctionMode):
    """Tells `recorder` of each torch function and tensor method that is called while it is on the stack.

    materialise   run fused attention written out, which makes its scores and weights
    """

    def __init__(self, recorder: Recorder, *, materialise: bool = False, ops: bool = False) -> None:
        super().__init__()
        self.recorder = recorder
        self.opened = OPENED | MATERIALISED if materialise else OPENED
        self.functions: dict[Callable[..., Any], Function | None] = {}
        self.shielded = False
        self.is_quick = recorder.is_quick and not ops and not materialise

    def __enter__(self) -> FunctionCalls:
        self.shielded = torch._C._len_torch_function_stack() > 0
        if self.shielded:
            self.is_quick = False
        super().__enter__()
        return self

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """The short way of `Recorder`, written out."""
        try:
            what = FUNCTIONS[func]
        except KeyError:
            what = self.function(func)
        if what is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        frame = getframe(1)
        keys, values = INDEX, args
        if kwargs:
            if "out" in kwargs or kwargs.get("inplace"):
                return self.run(what, func, types, args, kwargs, frame)
            keys, values = keys_of(INDEX, args, kwargs), (*args, *kwargs.values())
        if not what.is_pure or not self.is_quick or (types and not PLAIN.issuperset(types)):
            return self.run(what, func, types, args, kwargs, frame)
        recorder = self.recorder
        known, read, keep = recorder.short
        given = []
        for value in values:
            kind = type(value)
            if kind is int:
                given.append(value)
            elif kind is Tensor or kind in PLAIN:
                seen = known(id(value))
                if seen is None:
                    given.append(read(value))
                elif seen() is value and seen.version == value._version:
                    given.append(seen.meta)
                else:
                    given.append(recorder.table.describe(value))
            elif kind in ATOMS:
                given.append(value)
            else:
                given.append(recorder.look(value, keys, len(given)))
        sites = SITES.get(id(frame.f_code))
        place: Any = None if sites is None else sites.get(frame.f_lasti)
        if type(place) is not Place:
            place = PLACES.place(frame)
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            keep((what, recorder.path, recorder.depth, place, (*given,), None, keys, NONE, said(error)))
            raise
        seen = known(id(result))
        if type(result) is Tensor and (seen is None or seen() is not result):
            meta = read(result)
        elif (meta := recorder.seen(result)) is None:
            return result
        keep((what, recorder.path, recorder.depth, place, (*given,), meta, keys, NONE, None))
        return result

    def function(self, func: Callable[..., Any]) -> Function | None:
        """What is known of a function. Only torch's own are kept for the next trace: a user's may hold tensors."""
        if func not in self.functions:
            self.functions[func] = function_of(func)
            if is_of_torch(func):
                FUNCTIONS[func] = self.functions[func]
        return self.functions[func]

    def run(self, what: Function, func: Any, types: Any, args: tuple[Any, ...], kwargs: Any, frame: FrameType) -> Any:
        """The long way: a function that changes something, or runs otherwise; under other modes, or for a subclass."""
        function = func
        if func in self.opened and PLAIN.issuperset(types):
            function = self.open(self.opened[func])
        if not self.shielded:
            result = self.recorder.run(what, function, args, kwargs, frame)
        else:
            with torch._C.DisableTorchFunction():
                result = self.recorder.run(what, shielded(function), args, kwargs, frame)
        if what.name == FORGETTING:  # `x.data = y` gives x another form, and no version tells it
            self.recorder.table.forget(args[0])
        return result

    def open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    @context
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

    @context
    def aside(self) -> Iterator[None]:
        """Off the stack for a while, as `FunctionCalls.aside`."""
        if _get_current_dispatch_mode() is not self:
            yield
            return
        with _pop_mode_temporarily():
            yield


SITES = PLACES.known
getframe = sys._getframe

FUNCTIONS: dict[Callable[..., Any], Function | None] = {}
"""What is known of the functions of torch that have been called. None of those that are not to be recorded."""


def function_of(function: Any) -> Function | None:
    name: str = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":
        attribute: str = function.__self__.__name__
        return Function("function", attribute) if attribute in GETTERS_OF_TENSORS else None
    if name == "__set__":
        return Function("function", f"{function.__self__.__name__}.__set__")
    if name in QUESTIONS:
        return None
    return Function("function", name, is_pure=function in PURE_FUNCTIONS)


def is_of_torch(function: Any) -> bool:
    if isinstance(function, FunctionType):
        return function.__module__.startswith("torch.") and "<locals>" not in function.__qualname__
    if isinstance(function, MethodWrapperType):  # what reads or sets an attribute
        function = getattr(function.__self__, "__objclass__", None)
    return isinstance(function, (MethodDescriptorType, BuiltinFunctionType, type)) and (
        "torch" in (getattr(function, "__module__", None) or repr(function))
    )


@lru_cache(maxsize=4096)
def op_of(op: Any) -> Function:
    """An aten op, and the keys of the arguments that it writes to."""
    return Function("op", str(op.overloadpacket), changes=written_keys(op))


def shielded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Other modes are to see the function, but not how tensors are looked at before and after it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._EnableTorchFunction():
            return function(*args, **kwargs)

    return run
