"""Forward hooks on every submodule, with one lifetime; and a slot around the call of a module that hooks do not do for.

Hooks are set module by module (global ones get no keyword arguments) and called also when the module raises. They cannot
be set on scripted modules, would be compiled into compiled ones, and miss a `KeyboardInterrupt`: those modules, and the
model itself, have their call replaced instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from .recorder import INDEX, MODULE_CALL, Open, Recorder

__all__ = ["CallSlot", "HookRegistry", "opaque"]

BETWEEN = frozenset({MODULE_CALL, __file__, str(Path(__file__).with_name("attach.py"))})
"""Files whose frames stand between the caller of a module and what is told of it here."""

OURS = str(Path(__file__).with_name("__init__.py"))
"""Where `trace` calls the model: no place in the user's code, and no variable of the user's."""

FUSIBLE = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
FUSED = "torch would run this in one fused kernel if nothing watched; watched, it runs step by step, equal to rounding"


class CallSlot:
    """Replaces the call of a module by `around(call, args, kwargs)`, from `__enter__` to `__exit__`.

    It stands where `Module.compile` puts a compiled call: torch leaves that out of copies and pickles of the module.
    """

    def __init__(self, module: nn.Module, around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]):
        self.module = module
        self.around = around
        self.inner: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.around(self.inner or self.module._call_impl, args, kwargs)

    def __enter__(self) -> CallSlot:
        self.inner = self.module.__dict__.get("_compiled_call_impl")
        self.module.__dict__["_compiled_call_impl"] = self
        return self

    def __exit__(self, *_: object) -> None:
        """Take this slot out; others may have been put around it since, and stay."""
        outer = self.module.__dict__["_compiled_call_impl"]
        if outer is not self:
            while outer.inner is not self:
                outer = outer.inner
            outer.inner = self.inner
        elif self.inner is None:
            del self.module.__dict__["_compiled_call_impl"]
        else:
            self.module.__dict__["_compiled_call_impl"] = self.inner


class Watched(msgspec.Struct, gc=False):
    """What is known of a module before it runs. `paths` are the dotted names it has; a shared module has several."""

    name: str
    paths: list[str]
    parameters: tuple[str, ...]
    opaque: str | None
    fusible: bool


class HookRegistry:
    """Tells `recorder` when each submodule of `model` begins and ends, from `__enter__` to `__exit__`.

    `aside` makes a context in which nothing is watched: opaque modules run in one.
    """

    def __init__(self, model: nn.Module, recorder: Recorder, aside: Callable[[], AbstractContextManager[object]]) -> None:
        self.model = model
        self.recorder = recorder
        self.aside = aside
        self.modules: dict[nn.Module, Watched] = {}
        self.find(model, "", ())
        self.handles: list[RemovableHandle] = []
        self.slots: list[CallSlot] = []

    def find(self, module: nn.Module, path: str, above: tuple[nn.Module, ...]) -> None:
        known = self.modules.get(module)
        if known is None:
            kind = type(module)
            known = Watched(kind.__name__, [], parameters(kind.forward), opaque(module), isinstance(module, FUSIBLE))
            self.modules[module] = known
        known.paths.append(path)
        if known.opaque is None:
            for name, child in module._modules.items():
                if child is not None and child not in above:
                    self.find(child, f"{path}.{name}" if path else name, (*above, module))

    def __enter__(self) -> HookRegistry:
        before, after = self._before, self._after
        for module, known in self.modules.items():
            if module is self.model:
                continue
            if known.opaque is not None:
                self.slots.append(CallSlot(module, partial(self.run, module)).__enter__())
            else:
                self.handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                self.handles.append(module.register_forward_hook(after, with_kwargs=True, always_call=True))
        return self

    def __exit__(self, *_: object) -> None:
        while self.handles:
            self.handles.pop().remove()
        while self.slots:
            self.slots.pop().__exit__()

    def run(self, module: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module whose call has been replaced: the model itself, or an opaque one."""
        if self.recorder.thread != get_ident():
            return call(*args, **kwargs)
        opened = self._enter(module, args, kwargs, sys._getframe(1))
        try:
            with self.aside() if self.modules[module].opaque is not None else nullcontext():
                result = call(*args, **kwargs)
        except BaseException as error:
            self._leave(opened, None, error)
            raise
        self._leave(opened, result, None)
        return result

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.recorder.thread == get_ident():
            opened = self._enter(module, args, kwargs, sys._getframe(1))
            opened.module, opened.handled = module, sys.exc_info()[1]

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> None:
        if self.recorder.thread == get_ident():
            opened = next((call for call in reversed(self.recorder.open) if call.module is module), None)
            if opened is not None:
                error = sys.exc_info()[1]
                self._leave(opened, result, None if error is opened.handled else error)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType | None) -> Open:
        known, recorder = self.modules[module], self.recorder
        path = known.paths[0] if len(known.paths) == 1 else self._path(known)
        while frame is not None and frame.f_code.co_filename in BETWEEN:
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename == OURS:
            frame = None
        with torch._C.DisableTorchFunction():
            given = recorder.take(known.parameters, args, kwargs)
            note = known.opaque or (FUSED if known.fusible and would_fuse(module) else None)
        opened = Open("module", path, known.name, recorder.depth, recorder.place(frame), *given, note)
        recorder.enter(opened)
        return opened

    def _leave(self, opened: Open, result: object, error: BaseException | None) -> None:
        opened.module = opened.handled = None
        with torch._C.DisableTorchFunction():
            self.recorder.leave(opened, result, error)

    def _path(self, known: Watched) -> str:
        """Of a module's names, the one inside the module that is running."""
        inside = f"{self.recorder.path}." if self.recorder.path else ""
        return next((path for path in known.paths if path.startswith(inside)), known.paths[0])


@lru_cache(maxsize=1024)
def parameters(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of what a `forward` takes by position, then numbers for what it takes beyond them."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    names = () if code is None else code.co_varnames[1 : code.co_argcount]
    return (*names, *INDEX[len(names) :])


def opaque(module: nn.Module) -> str | None:
    """Why what runs inside a module cannot be seen; None if it can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted: what runs inside is not seen"
    call = module._compiled_call_impl
    while isinstance(call, CallSlot):
        call = call.inner
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # importing it takes as long as torch itself
    if call is not None or (dynamo is not None and isinstance(module, dynamo.OptimizedModule)):
        return "compiled: what runs inside is not seen"
    return None


def would_fuse(module: nn.Module) -> bool:
    """Whether torch may run such a module in one fused kernel, which it leaves for a module that has hooks."""
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    return not (torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()))
