"""Watch a model: for a block of the user's code, or every so many forwards of a training loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from string import ascii_uppercase
from threading import get_ident
from typing import Any

import torch
from torch import nn

from ..errors import ShapetraceError, TargetError
from ..records import Record, record_of
from ..schema import Trace
from .hooks import CallSlot, HookRegistry
from .materialised import was_written_out
from .modes import FunctionCalls, OpCalls
from .notes import mark, note, notes_of
from .recorder import Recorder, said
from .tensors import Numbers

__all__ = ["Tap", "attach", "trace_of"]


def attach(
    model: nn.Module,
    *,
    every: int = 1,
    on_trace: Callable[[Trace], object] | None = None,
    keep: int = 16,
    functions: bool = True,
    ops: bool = False,
    materialise: bool = False,
) -> Tap:
    """Watch `model` from now on: until the end of a `with` block, or until `detach`.

    In a `with` block all that its thread calls is seen, so also a loss that is computed outside the model; what follows
    a forward belongs to its trace, until the next one begins. Without a block, only what runs inside a forward is seen.

    every       watch the first forward and then each `every`-th; the others run as if nothing were attached
    on_trace    called with each trace when it is complete; forwards that it runs are not watched
    keep        how many traces, the newest, `Tap.traces` holds
    functions, ops, materialise   as for `shapetrace.trace`
    """
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}: make one" if isinstance(model, type) else type(model).__name__
        raise TargetError(f"a torch.nn.Module can be watched, not {what}")
    if every < 1 or keep < 1:
        raise ShapetraceError(f"every and keep count from 1; got every={every}, keep={keep}")
    if materialise and not functions:
        raise ShapetraceError("materialise shows what functions make: it needs functions=True")
    return Tap(model, every=every, on_trace=on_trace, keep=keep, functions=functions, ops=ops, materialise=materialise)


def trace_of(error: BaseException) -> Trace | None:
    """The record of the forward that `error` ended, up to the call that failed; None if no watched forward did."""
    found = getattr(error, "__shapetrace__", None)
    return found if isinstance(found, Trace) else None


class Tap:
    """What `attach` gives: the traces so far, and the way to end it."""

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int,
        on_trace: Callable[[Trace], object] | None,
        keep: int,
        functions: bool,
        ops: bool,
        materialise: bool,
    ) -> None:
        self._model = model
        self._every = every
        self._on_trace = on_trace
        self._functions = functions
        self._ops = ops
        self._materialise = materialise
        self._complete: deque[tuple[Trace, Numbers]] = deque(maxlen=keep)
        self._forwards = 0
        self._watch: Watch | None = None
        self._block = ExitStack()
        self._in_block = False
        self._in_callback = False
        self._slot = CallSlot(model, self._forward)
        self._slot.__enter__()
        self._attached = True

    @property
    def traces(self) -> list[Trace]:
        """The newest traces, oldest first; inside a `with` block the last of them is what has been seen so far."""
        watch = self._watch
        latest = [watch.trace(None)] if watch is not None and watch.recorder.calls else []
        return [*(trace for trace, _ in self._complete), *latest]

    def find(self, tensor: torch.Tensor) -> Record | None:
        """What this very tensor is: which call made it, in which module, under which name, in the newest trace kept.

        To be asked at any time, also in the middle of a forward; nothing is kept alive for it. What was not made by a
        call, as inputs and parameters are not, is an input. None if it was not seen: it is of no trace that is kept, or
        an alias (a view, `.data`) that was taken where nothing was watched.
        """
        if not isinstance(tensor, torch.Tensor):
            raise ShapetraceError(f"a tensor can be found, not {type(tensor).__name__}")
        watch = self._watch
        if watch is not None and (number := watch.recorder.table.number_of(tensor)) is not None:
            return record_of(watch.trace(None), number)
        for trace, numbers in reversed(self._complete):
            if (number := numbers.number_of(tensor)) is not None:
                return record_of(trace, number)
        return None

    def detach(self) -> None:
        """Leave the model as it was. A second time does nothing."""
        if self._attached:
            self._attached = False
            self._slot.__exit__()

    def __enter__(self) -> Tap:
        if not self._attached or self._in_block:
            raise ShapetraceError("this tap has been entered or detached before; attach to the model again")
        self._in_block = True
        try:
            self._block.enter_context(self._watching())
        except BaseException:
            self.detach()
            raise
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        try:
            self._block.__exit__(kind, error, where)
        finally:
            self.detach()

    def __repr__(self) -> str:
        state = "attached to" if self._attached else "detached from"
        return f"<Tap {state} {type(self._model).__name__}, traces: {len(self.traces)}>"

    def _forward(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A forward of the model, which is called through here while attached."""
        watch = self._watch
        if self._in_callback:
            return call(*args, **kwargs)
        if watch is not None and not (self._in_block and watch.idle):
            return watch.hooks.run(self._model, call, args, kwargs)  # from another thread, or from itself
        self._forwards += 1
        if (self._forwards - 1) % self._every:
            with watch.aside() if watch is not None else nullcontext():
                return call(*args, **kwargs)
        if watch is not None:
            return self._next(watch).hooks.run(self._model, call, args, kwargs)
        with self._watching() as watch:
            return watch.hooks.run(self._model, call, args, kwargs)

    @contextmanager
    def _watching(self) -> Iterator[Watch]:
        watch = Watch(self._model, functions=self._functions, ops=self._ops, materialise=self._materialise)
        error: BaseException | None = None
        try:
            with watch:
                self._watch = watch
                yield watch
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._watch = None
            if watch.recorder.calls:
                self._keep(watch.trace(error), watch.recorder.table.living(), error)
            error = None  # it leads here through its traceback

    def _next(self, watch: Watch) -> Watch:
        """A forward begins. If one came before it in this block, what was seen since is complete."""
        if watch.seen_forward:
            complete, numbers = watch.trace(None), watch.recorder.table.living()
            watch.recorder.restart()
            with watch.aside():
                self._keep(complete, numbers, None)
        watch.seen_forward = True
        return watch

    def _keep(self, complete: Trace, numbers: Numbers, error: BaseException | None) -> None:
        self._complete.append((complete, numbers))
        if error is not None:
            mark(error, complete)
        if self._on_trace is None:
            return
        self._in_callback = True
        try:
            self._on_trace(complete)
        except Exception as raised:
            if error is None:
                raise
            note(error, f"shapetrace: on_trace raised {said(raised)}")  # the user's own exception goes on
        finally:
            self._in_callback = False


class Watch:
    """All that is put in place to watch a model, from `__enter__` to `__exit__`."""

    def __init__(self, model: nn.Module, *, functions: bool, ops: bool, materialise: bool) -> None:
        self.model = model
        self.recorder = Recorder()
        self.hooks = HookRegistry(model, self.recorder, self.aside)
        self.functions = FunctionCalls(self.recorder, materialise=materialise) if functions else None
        self.ops = OpCalls(self.recorder) if ops else None
        self.materialise = materialise
        self.lifetime = ExitStack()
        self.seen_forward = False

    @property
    def idle(self) -> bool:
        """Whether the thread that is watched asks, from outside of any call that is being recorded."""
        return self.recorder.thread == get_ident() and self.recorder.depth == 0

    def __enter__(self) -> Watch:
        with ExitStack() as lifetime:
            for part in (self.hooks, self.ops, self.functions):
                if part is not None:
                    lifetime.enter_context(part)
            self.lifetime = lifetime.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.lifetime.close()
        self.hooks.aside = nullcontext  # so that nothing here leads back here, and all of it is freed at once

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Watch nothing for a while."""
        thread, self.recorder.thread = self.recorder.thread, 0
        try:
            with (
                self.functions.aside() if self.functions else nullcontext(),
                self.ops.aside() if self.ops else nullcontext(),
            ):
                yield
        finally:
            self.recorder.thread = thread

    def trace(self, error: BaseException | None) -> Trace:
        """What has been seen so far."""
        calls = self.recorder.finish()
        tensors = (tensor for call in calls for tensor in (*call.inputs.values(), *call.outputs.values()))
        first = next((t for t in tensors if t.dtype.startswith(("float", "bfloat", "complex"))), None)
        description = attribute(self.model, "description")
        return Trace(
            target=type(self.model).__name__,
            model=type(self.model).__name__,
            description=description if isinstance(description, str) else "",
            sizes=sizes_of(self.model),
            dtype=first.dtype if first else "",
            device=first.device if first else "",
            torch=str(torch.__version__),
            notes=notes_of(calls, materialised=self.materialise and was_written_out(calls)),
            error=None if error is None else said(error),
            calls=calls,
        )


def sizes_of(model: nn.Module) -> dict[str, int]:
    """The axes that the model's configuration gives a size to: its attributes of one capital letter."""
    config = attribute(model, "config")
    there = {*attribute_names(config)}
    sizes = {letter: attribute(config, letter) for letter in ascii_uppercase if letter in there}
    return {letter: size for letter, size in sizes.items() if type(size) is int}


def attribute_names(thing: object) -> Iterator[str]:
    """Of the thing itself and of its classes, without asking a `__getattr__` of the user's for each letter."""
    for place in (thing, *type(thing).__mro__):
        yield from getattr(place, "__dict__", ())


def attribute(thing: object, name: str) -> Any:
    """An attribute of the user's, or None: it may be a property, and raise."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None
