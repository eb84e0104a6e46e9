"""Functions that are scripted or compiled, of which no mode is told.

A scripted one is one call, and what runs inside is not seen. A compiled one runs as it is written while it is watched:
else it would be compiled anew, with all that watches in its graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from importlib import import_module
from threading import Lock, get_ident
from types import FrameType
from typing import Any, cast

import torch

from .noted import Function
from .recorder import Recorder
from .stacks import without_modes

__all__ = ["CompiledFunctions", "Uncompiled"]

SCRIPTED = "scripted: what runs inside is not seen"
COMPILED = "compiled: while it is watched it runs as it is written, which is equal to rounding"

STANCE = "_callback_from_stance"
"""What a compiled function asks of torch, each time, how it is to run."""

COMPILER = "torch._dynamo.eval_frame"
"""Which torch does not import before it is asked to compile."""

SCRIPT: Any = torch.jit.ScriptFunction
RUN_SCRIPT = SCRIPT.__call__

LOCK = Lock()


class Uncompiled(AbstractContextManager[None]):
    """While it is active what is compiled runs as it was written.

    To import torch's compiler takes as long as torch itself: it is left to who first compiles anything.
    """

    def __init__(self) -> None:
        self.stance: Any = None

    def __enter__(self) -> None:
        with LOCK:
            ACTIVE.append(self)
            if COMPILER not in sys.modules and torch.compile is not compile_first:
                COMPILING[:] = [torch.compile]
                torch.compile = compile_first
        self.begin()

    def begin(self) -> None:
        """Once there is a compiler; a second time does nothing."""
        if self.stance is None and COMPILER in sys.modules:
            self.stance = torch.compiler.set_stance("force_eager")
            self.stance.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stance is not None:
            self.stance.__exit__(*error)
        with LOCK:
            ACTIVE.remove(self)
            if not ACTIVE and torch.compile is compile_first:
                torch.compile = COMPILING[0]


class CompiledFunctions(Uncompiled):
    """Tells `recorder` of the scripted functions that its thread calls, and of the names of compiled ones."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.before: Any = None

    def __enter__(self) -> None:
        with LOCK:
            WATCHING.append(self)
            SCRIPT.__call__ = run_script
        super().__enter__()

    def begin(self) -> None:
        frames: Any = sys.modules.get(COMPILER)
        if self.stance is None:
            self.before = getattr(frames, "_stance", None)
        with LOCK:
            if hasattr(frames, STANCE) and hasattr(frames, "skip_code"):
                ASKED.setdefault(STANCE, getattr(frames, STANCE))
                frames.skip_code(ask.__code__)
                setattr(frames, STANCE, ask)
        super().begin()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        with LOCK:
            WATCHING.remove(self)
            if not WATCHING:
                SCRIPT.__call__ = RUN_SCRIPT
                for name, function in ASKED.items():
                    setattr(sys.modules[COMPILER], name, function)

    def aside(self) -> AbstractContextManager[object]:
        """For a while what is compiled runs so, as it did before."""
        if self.before is None:
            return nullcontext()
        before = self.before
        stance: Any = torch.compiler.set_stance(
            before.stance, skip_guard_eval_unsafe=before.skip_guard_eval_unsafe, force_backend=before.backend
        )
        return cast(AbstractContextManager[object], stance)


ACTIVE: list[Uncompiled] = []

WATCHING: list[CompiledFunctions] = []

ASKED: dict[str, Callable[..., Any]] = {}
"""What `ask` stands in the place of; kept, for another thread may still be in it when nothing is watched any more."""


COMPILING: list[Callable[..., Any]] = [torch.compile]
"""What `compile_first` stands in the place of; kept, as those are."""


def compile_first(*args: Any, **kwargs: Any) -> Any:
    """In the place of `torch.compile` while anything is active that began before torch had a compiler."""
    with without_modes():  # what it does when it is imported is no part of the forward
        import_module(COMPILER)
    for each in list(ACTIVE):
        each.begin()
    return COMPILING[0](*args, **kwargs)


def recorders() -> list[Recorder]:
    return [each.recorder for each in WATCHING if each.recorder.thread == get_ident()]


def run_script(function: Any, *args: Any, **kwargs: Any) -> Any:
    """In the place of a scripted function's own `__call__` while anything is watched."""
    run: Callable[..., Any] = partial(RUN_SCRIPT, function)
    for recorder in recorders():
        run = partial(watched, recorder, function_of(function.name), run, sys._getframe(1))
    return run(*args, **kwargs)


def watched(
    recorder: Recorder, what: Function, run: Callable[..., Any], frame: FrameType, /, *args: Any, **kwargs: Any
) -> Any:
    return recorder.run(what, run, args, kwargs, frame)


@lru_cache(maxsize=1024)
def function_of(name: str) -> Function:
    return Function("function", name, note=SCRIPTED)


def ask(callback: Any) -> Any:
    """In the place of what a compiled function asks while anything is watched; torch's own that are not to be compiled
    ask it, too, with no compiler for a callback."""
    if callable(callback):
        name = getattr(sys._getframe(1).f_locals.get("fn"), "__name__", "a function")
        for each in WATCHING:  # written out, for each frame of Python here may be one that torch wants to compile
            if each.recorder.thread == get_ident():
                each.recorder.notes[f"{name}: {COMPILED}"] = None
    return ASKED[STANCE](callback)
