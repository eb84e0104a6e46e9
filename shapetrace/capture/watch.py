"""All that is put in place to watch a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from threading import get_ident

import msgspec
import torch
from torch import nn

from ..contexts import context
from ..errors import ShapetraceError
from ..schema import Trace
from .compiled import CompiledFunctions
from .hooks import HookRegistry
from .modes import FunctionCalls, OpCalls
from .rebuild import attribute, undisputed
from .recorder import Recorder, said
from .stats import StatsRecorder
from .traced import TracedFunctions
from .unpacking import cause, unpacking
from .unread import Unread
from .weightless import mode_of

__all__ = ["Detail", "Watch"]


class Detail(msgspec.Struct, frozen=True):
    """What is recorded beside modules, and how fused attention runs: as `shapetrace.trace` has it."""

    functions: bool = True
    ops: bool = False
    materialise: bool = False
    stats: bool = False

    def __post_init__(self) -> None:
        if self.materialise and not self.functions:
            raise ShapetraceError("materialise shows what functions make: it needs functions=True")


class Watch:
    """Watches a model, from `__enter__` to `__exit__`."""

    def __init__(self, model: nn.Module, detail: Detail, recorder: Recorder | None = None) -> None:
        self.model = model
        self.detail = detail
        self.recorder = recorder or (StatsRecorder() if detail.stats else Recorder())
        self.recorder.is_blind = not detail.functions
        self.hooks = HookRegistry(model, self.recorder, self.aside)
        self.functions: FunctionCalls | None = None
        if detail.functions:
            self.functions = FunctionCalls(self.recorder, materialise=detail.materialise, ops=detail.ops)
        self.ops = OpCalls(self.recorder) if detail.ops else None
        self.compiled = CompiledFunctions(self.recorder) if detail.functions else None
        self.traced = TracedFunctions(self.recorder, self.aside)
        self.lifetime = ExitStack()
        self.seen_forward = False

    @property
    def idle(self) -> bool:
        """Whether the thread that is watched asks, from outside of any call that is being recorded."""
        return self.recorder.thread == get_ident() and self.recorder.depth == 0

    def __enter__(self) -> Watch:
        with ExitStack() as lifetime:
            for part in (self.hooks, self.ops, self.functions, self.compiled, self.traced):
                if part is not None:
                    lifetime.enter_context(part)
            self.lifetime = lifetime.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.lifetime.close()
        self.hooks.aside = self.traced.aside = (
            nullcontext  # so that nothing here leads back here, and all of it is freed at once
        )

    @context
    def aside(self) -> Iterator[None]:
        """Watch nothing for a while."""
        thread, self.recorder.thread = self.recorder.thread, 0
        try:
            with (
                self.functions.aside() if self.functions else nullcontext(),
                self.ops.aside() if self.ops else nullcontext(),
                self.compiled.aside() if self.compiled else nullcontext(),
            ):
                yield
        finally:
            self.recorder.thread = thread

    def unread(self, error: BaseException | None) -> Unread:
        """What has been seen so far."""
        description = attribute(self.model, "description")
        header = Trace(
            target=type(self.model).__name__,
            model=type(self.model).__name__,
            description=description if isinstance(description, str) else "",
            sizes=undisputed(self.model),
            weightless=mode_of(self.model) is not None,
            torch=str(torch.__version__),
            error=None if error is None else said(error),
            cause=None if error is None else cause(error, self.recorder),
        )
        if error is not None:  # it may have come before any tensor that is no integer
            header = msgspec.structs.replace(header, **kept_in(self.model))
        if self.recorder.notes:
            header = msgspec.structs.replace(header, notes=tuple(self.recorder.notes))
        stats = self.recorder.stats if isinstance(self.recorder, StatsRecorder) else None
        last = unpacking(error, self.recorder) if error is not None and self.detail.functions else None
        calls = self.recorder.calls if last is None else [*self.recorder.calls, last]
        return Unread(header, calls, self.detail.materialise, stats)


def kept_in(model: nn.Module) -> dict[str, str]:
    """The dtype and device of what a model holds."""
    with torch._C.DisableTorchFunction():
        held = next((parameter for parameter in model.parameters() if parameter.is_floating_point()), None)
        return {} if held is None else {"dtype": str(held.dtype).removeprefix("torch."), "device": str(held.device)}
