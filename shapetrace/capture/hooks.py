"""Forward hooks on every submodule, with one lifetime; and a slot around the call of a module that hooks do not do for.

Hooks are set module by module (global ones get no keyword arguments) and called also when the module raises. They
cannot be set on scripted modules, would be compiled into compiled ones, and miss a `KeyboardInterrupt`: those modules,
and the model itself, have their call replaced instead.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from .places import MODULE_CALL, NOWHERE
from .recorder import INDEX, Open, Recorder

__all__ = ["CallSlot", "HookRegistry", "opaque"]

BETWEEN = frozenset({MODULE_CALL, __file__, str(Path(__file__).with_name("attach.py"))})
"""Files whose frames stand between the caller of a module and what is told of it here."""

OURS = str(Path(__file__).with_name("__init__.py"))
"""Where `trace` calls the model: no place in the user's code, and no variable of the user's."""

FUSIBLE = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
FUSED = (
    "fused unless watched: step by step under a watch, it is equal to rounding, and may differ where there is padding"
)


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
        outer = self.module.__dict__.get("_compiled_call_impl")
        if outer is self and self.inner is None:
            del self.module.__dict__["_compiled_call_impl"]
        elif outer is self:
            self.module.__dict__["_compiled_call_impl"] = self.inner
        else:  # and if the module was compiled since, none of the chain is left
            while isinstance(outer, CallSlot) and outer.inner is not self:
                outer = outer.inner
            if isinstance(outer, CallSlot):
                outer.inner = self.inner
        self.around = bare  # what it led to leads back here


def bare(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return call(*args, **kwargs)


class Hook(partial[None]):
    """A hook that a copy or a pickle of its module does not take along: there, it does nothing."""

    def __deepcopy__(self, _: object) -> Callable[..., None]:
        return nothing

    def __reduce__(self) -> Any:
        return nothing_at_all, ()


def nothing(*_: object) -> None: ...


def nothing_at_all() -> Callable[..., None]:
    return nothing


class Form(msgspec.Struct, frozen=True, gc=False):
    """What the modules of a class have in common: its name, what `forward` takes by position, if torch may fuse it."""

    name: str
    parameters: tuple[str, ...]
    fusible: bool


class HookRegistry:
    """Tells `recorder` when each submodule of `model` begins and ends, from `__enter__` to `__exit__`.

    `aside` makes a context in which nothing is watched: opaque modules run in one.
    """

    def __init__(
        self, model: nn.Module, recorder: Recorder, aside: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self.model = model
        self.recorder = recorder
        self.aside = aside
        self.modules: dict[nn.Module, tuple[list[str], Form]] = {}
        self.forms: dict[type[nn.Module], Form] = {}
        self.opaque: dict[nn.Module, str] = {}
        self.slots: list[CallSlot] = []
        self.id = RemovableHandle(OrderedDict()).id  # torch counts them: no two hooks have the same
        self._find(model, "", ())

    def _find(self, module: nn.Module, path: str, above: tuple[nn.Module, ...]) -> None:
        """Note the paths of a module (a shared one has several) and of all in it, and the names of its tensors."""
        known = self.modules.get(module)
        if known is not None:
            known[0].append(path)
        else:
            self.modules[module] = [path], self._form(module)
        inside = f"{path}." if path else ""
        names = self.recorder.names
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and id(tensor) not in names:
                names[id(tensor)] = weakref.ref(tensor), inside + name
        if reason := opaque(module):
            self.opaque[module] = reason
            return
        for name, child in module._modules.items():
            if child is not None and child not in above:
                self._find(child, inside + name, (*above, module))

    def __enter__(self) -> HookRegistry:
        """Set the hooks as `register_forward_hook` does, but without its handles: they cost more than all the rest."""
        before, after = Hook(self._before), Hook(self._after)
        for module in self.modules:
            if module in self.opaque and module is not self.model:
                self.slots.append(CallSlot(module, partial(self.run, module)).__enter__())
            elif module is not self.model:
                module._forward_pre_hooks[self.id] = before
                module._forward_pre_hooks_with_kwargs[self.id] = True
                module._forward_hooks[self.id] = after
                module._forward_hooks_with_kwargs[self.id] = True
                module._forward_hooks_always_called[self.id] = True
        return self

    def __exit__(self, *_: object) -> None:
        while self.slots:
            self.slots.pop().__exit__()
        for module in self.modules:
            if module not in self.opaque and module is not self.model:
                module._forward_pre_hooks.pop(self.id, None)  # the user may have cleared them
                module._forward_pre_hooks_with_kwargs.pop(self.id, None)
                module._forward_hooks.pop(self.id, None)
                module._forward_hooks_with_kwargs.pop(self.id, None)
                module._forward_hooks_always_called.pop(self.id, None)
        self.modules, self.opaque = {}, {}

    def _form(self, module: nn.Module) -> Form:
        kind = type(module)
        if "forward" in module.__dict__:
            return form_of(kind, module.__dict__["forward"])
        if kind not in self.forms:
            self.forms[kind] = form_of(kind, getattr(module, "forward", None))
        return self.forms[kind]

    def run(self, module: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module whose call has been replaced: the model itself, or an opaque one."""
        if self.recorder.thread != get_ident():
            return call(*args, **kwargs)
        opened = self._enter(module, args, kwargs, sys._getframe(1))
        try:
            with self.aside() if module in self.opaque else nullcontext():
                result = call(*args, **kwargs)
        except BaseException as error:
            self._leave(opened, None, error)
            raise
        self._leave(opened, result, None)
        return result

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.recorder.thread == get_ident():
            self._enter(module, args, kwargs, sys._getframe(3))

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> None:
        if self.recorder.thread == get_ident():
            for opened in reversed(self.recorder.open):
                if opened.module is module:
                    error = sys.exc_info()[1]
                    self._leave(opened, result, None if error is opened.handled else error)
                    return

    def _enter(self, module: nn.Module, args: Any, kwargs: Any, frame: FrameType | None) -> Open:
        recorder = self.recorder
        paths, form = self.modules[module]
        while frame is not None and frame.f_code.co_filename in BETWEEN:
            frame = frame.f_back
        place = NOWHERE if frame is None or frame.f_code.co_filename == OURS else recorder.place(frame)
        with torch._C.DisableTorchFunction():
            inputs, literals, seen = recorder.take(form.parameters, args, kwargs)
        note = None
        if form.fusible or self.opaque:
            note = self.opaque.get(module) or (FUSED if form.fusible and would_fuse(module) else None)
        path = paths[0] if len(paths) == 1 else self._path(paths)
        depth, at = recorder.depth, len(recorder.calls)
        handled = sys.exc_info()[1]
        opened = Open(path, form.name, depth, place, inputs, literals, note, at, seen, module, handled)
        recorder.calls.append(opened)
        recorder.open.append(opened)
        recorder.path = path
        recorder.depth = depth + 1
        return opened

    def _leave(self, opened: Open, result: object, error: BaseException | None) -> None:
        opened.module = opened.handled = None
        with torch._C.DisableTorchFunction():
            self.recorder.leave(opened, result, error)

    def _path(self, paths: list[str]) -> str:
        """Of a shared module's names, the one inside the module that is running."""
        inside = f"{self.recorder.path}." if self.recorder.path else ""
        return next((path for path in paths if path.startswith(inside)), paths[0])


def form_of(kind: type[nn.Module], forward: Any) -> Form:
    function = inspect.unwrap(forward) if callable(forward) else None
    code = getattr(function, "__code__", None)
    bound = inspect.ismethod(forward) or inspect.ismethod(function)
    names = () if code is None else code.co_varnames[bound : code.co_argcount]
    return Form(kind.__name__, (*names, *INDEX[len(names) :]), issubclass(kind, FUSIBLE))


def opaque(module: nn.Module) -> str | None:
    """Why what runs inside a module cannot be seen; None if it can."""
    call = module.__dict__.get("_compiled_call_impl")
    while isinstance(call, CallSlot):
        call = call.inner
    if call is not None or is_compiled(type(module)):
        return "compiled: what runs inside is not seen"
    return "scripted: what runs inside is not seen" if isinstance(module, torch.jit.ScriptModule) else None


def is_compiled(kind: type[nn.Module]) -> bool:
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # importing it takes as long as torch itself
    return dynamo is not None and issubclass(kind, dynamo.OptimizedModule)


def would_fuse(module: nn.Module) -> bool:
    """Whether torch may run such a module in one fused kernel, which it leaves for a module that has hooks."""
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    return not (torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()))
