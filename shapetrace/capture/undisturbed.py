"""Run a model again, without a trace of it: random numbers, warnings, logs and what it prints are as if it had not.

What a forward does outside of its model and its arguments, as to a list that is a global, no copy keeps from it.
"""

from __future__ import annotations

import io
import logging
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, cast

import torch

from ..contexts import context
from .compiled import Uncompiled
from .stacks import without_modes

__all__ = ["undisturbed"]

ONE_AT_A_TIME = threading.RLock()
"""All that is put aside here is the process's; two threads at once would put it back in the wrong order."""


@context
def undisturbed() -> Iterator[None]:
    """Nothing is printed or compiled; random numbers (Python's, NumPy's, torch's) go on as if none had been drawn."""
    with ONE_AT_A_TIME, without_modes():
        numpy: Any = sys.modules.get("numpy.random")  # numpy itself imports it when it is first asked for
        drawn = random.getstate(), numpy.get_state() if numpy is not None else None
        level = logging.root.manager.disable
        grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        logging.disable(logging.CRITICAL)
        try:
            with (
                torch.random.fork_rng(devices=cuda_devices()),
                warnings.catch_warnings(),
                redirect_stdout(cast(Any, Muted(sys.stdout))),
                redirect_stderr(cast(Any, Muted(sys.stderr))),
                Uncompiled(),
            ):
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.disable(level)
            torch.set_grad_enabled(grad)
            torch.set_default_dtype(dtype)
            random.setstate(drawn[0])
            if numpy is not None:
                numpy.set_state(drawn[1])


class Muted:
    """A stream to which this thread writes in vain, and all others as they do."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.thread = threading.get_ident()

    def write(self, text: str) -> int:
        is_own = self.stream is None or threading.get_ident() == self.thread
        return len(text) if is_own else self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer" and threading.get_ident() == self.thread:
            return io.BytesIO()
        return getattr(self.stream, name)


def cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
