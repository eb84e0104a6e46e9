"""Watch a model: for a block of the user's code, or every so many forwards of a training loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import msgspec
import torch
from torch import nn

from ..contexts import context
from ..errors import ShapetraceError, TargetError
from ..records import Record, record_of
from ..schema import Trace
from .held import HeldElements
from .kept import Kept, explain, leave, left
from .naming import Naming, declared
from .notes import note
from .recorder import said
from .slots import CallSlot
from .tensors import Numbers, TensorTable
from .unread import Unread
from .watch import Detail, Watch

__all__ = ["Tap", "attach", "recorded", "trace_of", "watchable"]

NOTHING = "nothing was seen: the model's class has a __call__ of its own"


def watchable(model: object) -> None:
    """`TargetError` of what is no module."""
    if not isinstance(model, nn.Module):
        what = f"the class {model.__name__}: make one" if isinstance(model, type) else type(model).__name__
        raise TargetError(f"a torch.nn.Module can be watched, not {what}")


def attach(
    model: nn.Module,
    *,
    every: int = 1,
    on_trace: Callable[[Trace], object] | None = None,
    keep: int = 16,
    functions: bool = True,
    ops: bool = False,
    materialise: bool = False,
    stats: bool = False,
    axes: bool | str | None = None,
) -> Tap:
    """Watch `model` from now on: until the end of a `with` block, or until `detach`.

    In a `with` block all that its thread calls is seen, so also a loss that is computed outside the model; what follows
    a forward belongs to its trace, until the next one begins. Without a block, only what runs inside a forward is seen.

    every       watch the first forward and then each `every`-th; the others run as if nothing were attached
    on_trace    called with each trace when it is complete; forwards that it runs are not watched
    keep        how many traces, the newest, `Tap.traces` holds
    functions, ops, materialise, stats   as for `shapetrace.trace`
    axes        as for `shapetrace.trace`. None: roles, and in a `with` block axes, for which the model is run again
                when `Tap.traces` is read, or an exception leaves the block, and not before
    """
    watchable(model)
    if every < 1 or keep < 1:
        raise ShapetraceError(f"every and keep count from 1; got every={every}, keep={keep}")
    detail = Detail(functions, ops, materialise, stats)
    return Tap(model, detail, every=every, on_trace=on_trace, keep=keep, axes=axes)


def recorded(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, detail: Detail) -> Trace:
    """The trace of one forward, without axes and roles. What the forward raises takes it along, and no note."""
    with Tap(model, detail, axes=False, explains=False) as tap:
        model(*args, **kwargs)
    return tap.traces[-1] if tap.traces else Trace(type(model).__name__, type(model).__name__, notes=(NOTHING,))


def trace_of(error: BaseException) -> Trace | None:
    """The record of the forward that `error` ended, up to the call that failed; None if no watched forward did.

    It has axes where a complete record would have them, as far as runs at other sizes come as far as this one did.
    """
    kept = left(error)
    return None if kept is None else kept.named()


class Tap:
    """What `attach` gives: the traces so far, and the way to end it."""

    def __init__(
        self,
        model: nn.Module,
        detail: Detail,
        *,
        every: int = 1,
        on_trace: Callable[[Trace], object] | None = None,
        keep: int = 1,
        axes: bool | str | None,
        explains: bool = True,
    ) -> None:
        self._model = model
        self._every = every
        self._on_trace = on_trace
        self._detail = detail
        self._axes = axes
        self._explains = explains
        self._sizes = declared(axes)
        self._complete: deque[Kept] = deque(maxlen=keep)
        self._naming: Naming | None = None
        self._forwards = 0
        self._watch: Watch | None = None
        self._what = type(model).__name__
        self._block = ExitStack()
        self._in_block = False
        self._in_callback = False
        self._slot = CallSlot(model, self._forward)
        self._slot.__enter__()
        self._attached = True

    @property
    def traces(self) -> list[Trace]:
        """The newest traces, oldest first; inside a `with` block the last of them is what has been seen so far."""
        with self._aside():
            return [kept.named() for kept in (*self._complete, *self._running())]

    def _running(self) -> list[Kept]:
        """What has been seen since the last complete trace."""
        watch = self._watch
        if watch is None or not watch.recorder.calls:
            return []
        return [self._kept(watch.unread(None), watch.recorder.table)]

    def find(self, tensor: torch.Tensor) -> Record | None:
        """What this very tensor is: which call made it, in which module, with name, role and axes.

        To be asked at any time, also in the middle of a forward; nothing is kept alive for it. What was not made by a
        call, as inputs and parameters are not, is an input. None if it was not seen: it is of no trace that is kept, or
        an alias (a view, `.data`) that was taken where nothing was watched.
        """
        if not isinstance(tensor, torch.Tensor):
            raise ShapetraceError(f"a tensor can be found, not {type(tensor).__name__}")
        with self._aside():
            for kept in reversed([*self._complete, *self._running()]):
                if kept.numbers is not None and (number := kept.numbers.number_of(tensor)) is not None:
                    return record_of(kept.named(), number)
        return None

    def _kept(self, unread: Unread, numbers: Numbers | TensorTable) -> Kept:
        given = self._naming.given if self._naming else None
        held = None if self._axes is False else HeldElements(self._model, given)
        return Kept(unread, self._naming, numbers, held)

    def _aside(self) -> AbstractContextManager[object]:
        return self._watch.aside() if self._watch is not None else nullcontext()

    def detach(self) -> None:
        """Leave the model as it was. A second time does nothing."""
        if self._attached:
            self._attached = False
            self._slot.__exit__()
            self._let_go()

    def _let_go(self) -> None:
        """Of the model, if it is not watched any more: what has no axes yet holds it until it has."""
        if not self._attached and self._watch is None:
            for held in ("_model", "_slot"):
                self.__dict__.pop(held, None)

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
        return f"<Tap {state} {self._what}, traces: {len(self._complete) + len(self._running())}>"

    def _forward(self, _: nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A forward of the model, which is called through here while attached."""
        watch = self._watch
        if self._in_callback:
            return call(*args, **kwargs)
        if watch is not None and not (self._in_block and watch.idle):
            return watch.hooks.run(self._model, call, args, kwargs)  # from another thread, or from itself
        self._forwards += 1
        if (self._forwards - 1) % self._every:
            with self._aside():
                return call(*args, **kwargs)
        if watch is not None:
            with watch.aside():
                self._next(watch)
                self._naming = self._name(args, kwargs)
            return watch.hooks.run(self._model, call, args, kwargs)
        self._naming = self._name(args, kwargs)
        with self._watching() as watch:
            return watch.hooks.run(self._model, call, args, kwargs)

    def _name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Naming | None:
        """What it takes to say later what the tensors of this forward are, if that is wanted."""
        wanted = self._in_block if self._axes is None else self._axes
        return Naming(self._model, args, kwargs, self._again, self._sizes) if wanted else None

    def _again(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
        return recorded(model, args, kwargs, detail=msgspec.structs.replace(self._detail, stats=False))

    @context
    def _watching(self) -> Iterator[Watch]:
        watch = Watch(self._model, self._detail)
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
                self._keep(watch.unread(error), watch.recorder.table.living(), error)
            self._let_go()
            error = None  # it leads here through its traceback

    def _next(self, watch: Watch) -> None:
        """A forward begins. If one came before it in this block, what was seen since is complete."""
        if watch.seen_forward:
            complete, numbers = watch.unread(None), watch.recorder.table.living()
            watch.recorder.restart()
            self._keep(complete, numbers, None)
        watch.seen_forward = True

    def _keep(self, complete: Unread, numbers: Numbers, error: BaseException | None) -> None:
        kept = self._kept(complete, numbers)
        self._complete.append(kept)
        self._naming = None
        if error is not None:
            leave(error, kept)
            if self._explains:
                explain(error, kept)
        if self._on_trace is None:
            return
        self._in_callback = True
        try:
            self._on_trace(kept.named() if self._axes else kept.plain())
        except Exception as raised:
            if error is None:
                raise
            note(error, f"shapetrace: on_trace raised {said(raised)}")  # the user's own exception goes on
        finally:
            self._in_callback = False
