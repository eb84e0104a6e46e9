"""Where the user's own code was when an exception was raised, and what it had there that was None."""

from __future__ import annotations

import dis
import sysconfig
from pathlib import Path
from traceback import walk_tb
from types import FrameType

import torch

from ..passes.failure import Statement
from .recorder import said

__all__ = ["statement"]

TORCH, OURS, STANDARD = Path(torch.__file__).parent, Path(__file__).parent.parent, Path(sysconfig.get_path("stdlib"))
"""Folders of code that only runs the user's."""


def statement(error: BaseException) -> Statement | None:
    """The innermost that is neither torch's nor the standard library's; None if there is none."""
    found = [(frame, line) for frame, line in walk_tb(error.__traceback__) if is_own(frame.f_code.co_filename)]
    if not found:
        return None
    frame, line = found[-1]
    missing = nothing_in(frame, line) if "NoneType" in said(error) else ()
    return Statement((frame.f_code.co_filename, line), missing)


def is_own(file: str) -> bool:
    folders = Path(file).parents
    if file.startswith("<frozen") or TORCH in folders or (OURS in folders and OURS / "models" not in folders):
        return False
    return STANDARD not in folders or "-packages" in file


def nothing_in(frame: FrameType, line: int) -> tuple[str, ...]:
    """The variables that are None and that this line reads; of an argument also whose it is."""
    code = frame.f_code
    spans = [(start, end) for start, end, at in code.co_lines() if at == line]
    read: dict[str, None] = {}
    for step in dis.get_instructions(code):
        if ("LOAD_FAST" in step.opname or step.opname == "LOAD_DEREF") and any(
            start <= step.offset < end for start, end in spans
        ):
            read |= dict.fromkeys(step.argval if isinstance(step.argval, tuple) else (step.argval,))
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    held = frame.f_locals
    return tuple(
        f"{name}, an argument of {code.co_name}," if name in arguments else name
        for name in read
        if name in held and held[name] is None
    )
