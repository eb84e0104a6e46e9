"""`torch.jit.trace` in a forward: while it traces sizes are tensors, and nothing is as it is otherwise.

What it runs to see is no part of the forward, so nothing of that is watched; what it gives is one call, when it is
called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from threading import Lock, get_ident
from typing import Any

import torch

from .recorder import Recorder

__all__ = ["TracedFunctions"]

NOTE = "torch.jit.trace runs inside: what it runs to trace is not seen"

TRACING: Any = sys.modules[torch.jit.trace.__module__]
OWN: dict[str, Callable[..., Any]] = {
    name: getattr(TRACING, name) for name in ("_trace_impl", "trace_module") if hasattr(TRACING, name)
}
"""What all ways to trace come to."""

LOCK = Lock()
WATCHING: list[TracedFunctions] = []


class TracedFunctions(AbstractContextManager[None]):
    """While a thread traces, nothing is told to its `recorder`; `aside` makes a context in which nothing is watched."""

    def __init__(self, recorder: Recorder, aside: Callable[[], AbstractContextManager[object]]) -> None:
        self.recorder = recorder
        self.aside = aside

    def __enter__(self) -> None:
        with LOCK:
            WATCHING.append(self)
            for name, function in OWN.items():
                setattr(TRACING, name, partial(unwatched, function))

    def __exit__(self, *_: object) -> None:
        with LOCK:
            WATCHING.remove(self)
            if not WATCHING:
                for name, function in OWN.items():
                    setattr(TRACING, name, function)


def unwatched(trace: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with ExitStack() as stack:
        for each in [each for each in WATCHING if each.recorder.thread == get_ident()]:
            each.recorder.notes[NOTE] = None
            stack.enter_context(each.aside())
        return trace(*args, **kwargs)
