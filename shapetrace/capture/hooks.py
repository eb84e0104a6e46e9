"""A slot around the call of every submodule, with one lifetime; and hooks where a slot does not do.

A slot costs a third of what forward hooks do, and sees a `KeyboardInterrupt` too; it can be put around modules that are
scripted or compiled. Hooks are for what runs otherwise because of them, and for a module whose own pre-hooks may change
what it is given. They are set module by module (global ones get no keyword arguments) and called also when it raises.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
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

from ..contexts import context
from .forms import FUSED, Form, form_of, opaque, would_fuse
from .noted import NotedModule
from .places import MODULE_CALL, NOWHERE, PLACES, Place
from .recorder import Recorder
from .slots import Around, CallSlot

__all__ = ["HookRegistry"]

BETWEEN = frozenset(
    {MODULE_CALL, *(str(Path(__file__).with_name(name)) for name in ("hooks.py", "slots.py", "attach.py"))}
)
"""Files whose frames stand between the caller of a module and what is told of it here."""

OURS = str(Path(__file__).with_name("__init__.py"))
"""Where `trace` calls the model: no place in the user's code, and no variable of the user's."""

CALLING = nn.Module.__call__.__code__
"""The commonest of these frames."""

NOTHING = nullcontext()

SITES = PLACES.known

GLOBAL_PRE_HOOKS = torch.nn.modules.module._global_forward_pre_hooks


def nothing(*_: object) -> None: ...


class Hook(partial[None]):
    """A hook that a copy or a pickle of its module does not take along: there, it does nothing."""

    def __deepcopy__(self, _: object) -> Callable[..., None]:
        return nothing

    def __reduce__(self) -> Any:
        return nothing_at_all, ()


def nothing_at_all() -> Callable[..., None]:
    return nothing


class ModuleSlot(CallSlot):
    """The slot of a submodule: tells `recorder` of its call, if that can be done the short way; else `around` does.

    is_plain   whether the module has one path, and no note may be due
    """

    __slots__ = ("form", "is_plain", "path", "recorder")

    def __init__(
        self, module: nn.Module, around: Around, recorder: Recorder, form: Form, path: str, *, is_plain: bool
    ) -> None:
        self.module = module
        self.around = around
        self.inner = None
        self.recorder = recorder
        self.form = form
        self.path = path
        self.is_plain = is_plain

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The short way of `Recorder`."""
        module, recorder = self.module, self.recorder
        frame = sys._getframe(2)
        sites = SITES.get(id(frame.f_code))
        place: Any = None if sites is None else sites.get(frame.f_lasti)
        if (
            type(place) is not Place
            or not self.is_plain
            or self.inner is not None
            or module._forward_pre_hooks
            or GLOBAL_PRE_HOOKS
            or recorder.thread != get_ident()
        ):
            return self.around(module, self.inner or module._call_impl, args, kwargs)
        form = self.form
        noted = recorder.enter(form.name, self.path, place, form.parameters, args, kwargs, None)
        try:
            result = module._call_impl(*args, **kwargs)
        except BaseException as error:
            recorder.leave(noted, None, error)
            raise
        recorder.leave(noted, result, None)
        return result


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
        self.modules: dict[nn.Module, tuple[tuple[str, ...], Form]] = {}
        self.forms: dict[type[nn.Module], Form] = {}
        self.opaque: dict[nn.Module, str] = {}
        self.to_hook: set[nn.Module] = set()
        self.slots: list[CallSlot] = []
        self.running: list[Hooked] = []
        self.id = RemovableHandle(OrderedDict()).id  # torch counts them: no two hooks have the same
        self._find(model, "", (), False)

    def _find(self, module: nn.Module, path: str, above: tuple[int, ...], inside_hooked: bool) -> None:
        """Note the paths of a module (a shared one has several) and of all in it, and the names of its tensors."""
        known = self.modules.get(module)
        if known is not None:
            form = known[1]
            self.modules[module] = (*known[0], path), form
        else:
            form = self._form(module)
            self.modules[module] = (path,), form
            if (form.is_opaque or "_compiled_call_impl" in module.__dict__) and (reason := opaque(module)):
                self.opaque[module] = reason
            names, inside = self.recorder.names, f"{path}." if path else ""
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items() if tensors else ():
                    if tensor is not None and id(tensor) not in names:
                        names[id(tensor)] = weakref.ref(tensor), inside + name
        if module in self.opaque:
            return
        to_hook = inside_hooked or form.is_hooked
        if to_hook:
            self.to_hook.add(module)
        children = module._modules
        if children:
            above = (*above, id(module))
            for name, child in children.items():
                if child is not None and id(child) not in above:
                    self._find(child, f"{path}.{name}" if path else name, above, to_hook)

    def __enter__(self) -> HookRegistry:
        run = self.run  # once, for a garbage collector counts what it has to look at
        for module, (paths, form) in self.modules.items():
            if module is self.model:
                continue
            if module in self.to_hook:
                self._hook(module)
                continue
            is_plain = len(paths) == 1 and not form.fusible and not self.opaque
            self.slots.append(ModuleSlot(module, run, self.recorder, form, paths[0], is_plain=is_plain).__enter__())
        return self

    def __exit__(self, *_: object) -> None:
        while self.slots:
            self.slots.pop().__exit__()
        for module in self.to_hook:
            self._unhook(module)
        self.modules, self.opaque = {}, {}
        self.to_hook.clear()

    def _hook(self, module: nn.Module) -> None:
        """Set hooks as `register_forward_hook` does, but without its handles: they cost more than all the rest."""
        module._forward_pre_hooks[self.id] = Hook(self._before)
        module._forward_pre_hooks_with_kwargs[self.id] = True
        module._forward_hooks[self.id] = Hook(self._after)
        module._forward_hooks_with_kwargs[self.id] = True
        module._forward_hooks_always_called[self.id] = True

    def _unhook(self, module: nn.Module) -> None:
        module._forward_pre_hooks.pop(self.id, None)  # the user may have cleared them
        module._forward_pre_hooks_with_kwargs.pop(self.id, None)
        module._forward_hooks.pop(self.id, None)
        module._forward_hooks_with_kwargs.pop(self.id, None)
        module._forward_hooks_always_called.pop(self.id, None)

    @context
    def hooked(self, module: nn.Module) -> Iterator[None]:
        """Hooks on a module for one call of it, or for those that it makes of itself."""
        if self.id in module._forward_pre_hooks:
            yield
            return
        self._hook(module)
        try:
            yield
        finally:
            self._unhook(module)

    def _form(self, module: nn.Module) -> Form:
        kind = type(module)
        if "forward" in module.__dict__:
            return form_of(kind, module.__dict__["forward"])
        if kind not in self.forms:
            self.forms[kind] = form_of(kind, getattr(module, "forward", None))
        return self.forms[kind]

    def run(self, module: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module that has a slot."""
        if self.recorder.thread != get_ident():
            return call(*args, **kwargs)
        if (module._forward_pre_hooks or GLOBAL_PRE_HOOKS) and module is not self.model and module not in self.opaque:
            with self.hooked(module):  # for its own hooks may change what it is given
                return call(*args, **kwargs)
        noted = self.begin(module, args, kwargs, sys._getframe(2))
        try:
            with self.aside() if module in self.opaque else NOTHING:
                result = call(*args, **kwargs)
        except BaseException as error:
            self.recorder.leave(noted, None, error)
            raise
        self.recorder.leave(noted, result, None)
        return result

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.recorder.thread == get_ident():
            noted = self.begin(module, args, kwargs, sys._getframe(3))
            self.running.append(Hooked(module, noted, sys.exc_info()[1]))

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> None:
        if self.recorder.thread == get_ident():
            while self.running:
                call = self.running.pop()
                if call.module is module and any(call.noted is noted for noted, *_ in self.recorder.open):
                    error = sys.exc_info()[1]
                    self.recorder.leave(call.noted, result, None if error is call.handled else error)
                    return

    def begin(self, module: nn.Module, args: Any, kwargs: Any, frame: FrameType | None) -> NotedModule:
        paths, form = self.modules[module]
        if frame is not None and frame.f_code is CALLING:
            frame = frame.f_back
        while frame is not None and frame.f_code.co_filename in BETWEEN:
            frame = frame.f_back
        place = NOWHERE if frame is None or frame.f_code.co_filename == OURS else PLACES.place(frame)
        note = None
        if form.fusible or self.opaque:
            note = self.opaque.get(module) or (FUSED if form.fusible and would_fuse(module) else None)
        path = paths[0] if len(paths) == 1 else self._path(paths)
        return self.recorder.enter(form.name, path, place, form.parameters, args, kwargs, note)

    def _path(self, paths: tuple[str, ...]) -> str:
        """Of a shared module's names, the one inside the module that is running."""
        inside = f"{self.recorder.path}." if self.recorder.path else ""
        return next((path for path in paths if path.startswith(inside)), paths[0])


class Hooked(msgspec.Struct, eq=False):
    """A call of a module with hooks, while it runs. `handled` is the exception that was being handled when it began."""

    module: nn.Module
    noted: NotedModule
    handled: BaseException | None
