"""The stacks of modes, through which torch tells whoever asked for it what is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode
from torch.utils._python_dispatch import _push_mode as _push_dispatch_mode

from ..contexts import context

__all__ = ["without_modes"]


@context
def without_modes() -> Iterator[None]:
    """Modes that are not torch's own see nothing of it; those that are, a default device for one, it may need."""
    functions, ops = list(_get_current_function_mode_stack()), list(_get_current_dispatch_mode_stack())
    restack(functions, list(filter(is_of_torch, functions)), _pop_mode, _push_mode)
    restack(ops, list(filter(is_of_torch, ops)), _pop_dispatch_mode, _push_dispatch_mode)
    try:
        yield
    finally:
        restack(list(filter(is_of_torch, functions)), functions, _pop_mode, _push_mode)
        restack(list(filter(is_of_torch, ops)), ops, _pop_dispatch_mode, _push_dispatch_mode)


def restack(old: list[Any], new: list[Any], pop: Callable[[], Any], push: Callable[[Any], Any]) -> None:
    """Put the modes of `new` on a stack in the place of those of `old`."""
    if old != new:
        for _ in old:
            pop()
        for mode in new:
            push(mode)


def is_of_torch(mode: object) -> bool:
    return type(mode).__module__.partition(".")[0] == "torch"
