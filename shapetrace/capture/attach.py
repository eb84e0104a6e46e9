"""Watch a model: for a block of the user's code, or every so many forwards of a training loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from string import ascii_uppercase
from threading import get_ident
from typing import Any, cast

import torch
from torch import nn

from ..errors import ShapetraceError, TargetError
from ..schema import Trace
from .hooks import HookRegistry
from .modes import FunctionCalls, OpCalls
from .recorder import Recorder, said
from .slots import CallSlot
from .unread import Unread

__all__ = ["Tap", "attach", "trace_of"]


def attach(
    model: nn.Module,
    *,
    every: int = 1,
    on_trace: Callable[[Trace], object] | None = None,
    keep: int = 16,
    functions: bool = True,
    ops: bool = False,
) -> Tap:
    """Watch `model` from now on: until the end of a `with` block, or until `detach`.

    In a `with` block all that its thread calls is seen, so also a loss that is computed outside the model; what follows
    a forward belongs to its trace, until the next one begins. Without a block, only what runs inside a forward is seen.

    every       watch the first forward and then each `every`-th; the others run as if nothing were attached
    on_trace    called with each trace when it is complete; forwards that it runs are not watched
    keep        how many traces, the newest, `Tap.traces` holds
    functions, ops   as for `shapetrace.trace`
    """
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}: make one" if isinstance(model, type) else type(model).__name__
        raise TargetError(f"a torch.nn.Module can be watched, not {what}")
    if every < 1 or keep < 1:
        raise ShapetraceError(f"every and keep count from 1; got every={every}, keep={keep}")
    return Tap(model, every=every, on_trace=on_trace, keep=keep, functions=functions, ops=ops)


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
    ) -> None:
        self._model = model
        self._every = every
        self._on_trace = on_trace
        self._functions = functions
        self._ops = ops
        self._complete: deque[Trace | Unread] = deque(maxlen=keep)
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
        for at, trace in enumerate(self._complete):
            if isinstance(trace, Unread):
                self._complete[at] = trace.read()
        complete = cast("Iterable[Trace]", self._complete)
        return [*complete, *([watch.unread(None).read()] if watch is not None and watch.recorder.calls else [])]

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

    def _forward(self, _: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
        watch = Watch(self._model, functions=self._functions, ops=self._ops)
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
                self._keep(watch.unread(error), error)
            error = None  # it leads here through its traceback

    def _next(self, watch: Watch) -> Watch:
        """A forward begins. If one came before it in this block, what was seen since is complete."""
        if watch.seen_forward:
            complete = watch.unread(None)
            watch.recorder.restart()
            with watch.aside():
                self._keep(complete, None)
        watch.seen_forward = True
        return watch

    def _keep(self, unread: Unread, error: BaseException | None) -> None:
        if error is None and self._on_trace is None:
            self._complete.append(unread)
            return
        complete = unread.read()
        self._complete.append(complete)
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

    def __init__(self, model: nn.Module, *, functions: bool, ops: bool) -> None:
        self.model = model
        self.recorder = Recorder()
        self.hooks = HookRegistry(model, self.recorder, self.aside)
        self.functions = FunctionCalls(self.recorder) if functions else None
        self.ops = OpCalls(self.recorder) if ops else None
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

    def unread(self, error: BaseException | None) -> Unread:
        """What has been seen so far."""
        description = attribute(self.model, "description")
        header = Trace(
            target=type(self.model).__name__,
            model=type(self.model).__name__,
            description=description if isinstance(description, str) else "",
            sizes=sizes_of(self.model),
            torch=str(torch.__version__),
            error=None if error is None else said(error),
        )
        return Unread(header, self.recorder.calls)


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


def mark(error: BaseException, trace: Trace) -> None:
    """Leave with an exception the record of what it ended, and a note of where in the model it was raised."""
    with suppress(Exception):
        error.__dict__["__shapetrace__"] = trace
    failed = next((call for call in reversed(trace.calls) if call.error and call.error == trace.error), None)
    if failed is not None:
        given = ", ".join(f"{key}: {list(tensor.shape)} {tensor.dtype}" for key, tensor in failed.inputs.items())
        where = f"\n  {failed.source[0]}:{failed.source[1]}" if failed.source else ""
        note(error, f"shapetrace: raised in {failed.path or trace.model} by {failed.name}({given}){where}")


def note(error: BaseException, text: str) -> None:
    """As `add_note`, which Python 3.10 lacks; once, for an exception may be raised again."""
    with suppress(Exception):  # it is the user's, and may have slots, or notes of another kind
        notes = error.__dict__.setdefault("__notes__", [])
        if text not in notes:
            notes.append(text)
