"""One row of the table for each type, made in a process of its own, so that no type ends the table."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from . import axes, checks
from .checks import Subject, Verdict, first_line, traced
from .sizes import Sizes
from .specimens import specimen

CHECKS: dict[str, Callable[[Subject], Verdict]] = {
    "output": checks.output,
    "attentions": checks.attentions,
    "sdpa": checks.sdpa,
    "roles": checks.roles,
    "axes": axes.law,
    "named": axes.named,
}

SECONDS = 180.0
"""Of the processor: the most that a type may take."""


class Row(NamedTuple):
    """`reason` is why the type does not run where nobody traces it; None if it does."""

    group: str
    model_type: str
    reason: str | None
    verdicts: dict[str, Verdict]


def row(group: str, model_type: str, names: list[str]) -> Row:
    try:
        bare = specimen(group, model_type, Sizes())
    except Exception as error:
        return Row(group, model_type, first_line(error), {})
    try:
        found = traced(group, model_type, bare)
    except Exception as error:
        return failed(group, model_type, names, f"raises where it is traced: {first_line(error)}")
    return Row(group, model_type, None, {name: verdict(name, found) for name in names})


def failed(group: str, model_type: str, names: list[str], text: str) -> Row:
    """Of what runs untraced, as far as is known."""
    return Row(group, model_type, None, {name: Verdict(False, text) for name in names})


def verdict(name: str, found: Subject) -> Verdict:
    try:
        return CHECKS[name](found)
    except Exception as error:  # a check that cannot go on does not hold
        return Verdict(False, f"crashed: {first_line(error)}")


def rows(types: list[tuple[str, str]], names: list[str], jobs: int) -> Iterator[Row]:
    """The rows in the order they are done. Forked: importing transformers anew takes longer than most types."""
    waiting = list(types)
    running: dict[int, tuple[str, str, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            group, model_type = waiting.pop(0)
            pid, pipe = begin(group, model_type, names)
            running[pid] = (group, model_type, pipe)
        pid, pipe, written = finished(running)
        group, model_type, _ = running.pop(pid)
        yield written or failed(group, model_type, names, "the process died, or took too long")


def begin(group: str, model_type: str, names: list[str]) -> tuple[int, int]:
    """A process that writes the row of a type, and where it does."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:  # some models print
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with os.fdopen(write, "wb") as pipe:
        pickle.dump(row(group, model_type, names), pipe)
    os._exit(0)


def finished(running: dict[int, tuple[str, str, int]]) -> tuple[int, int, Row | None]:
    pid, _ = os.wait()
    pipe = running[pid][2]
    with os.fdopen(pipe, "rb") as file:
        text = file.read()
    return pid, pipe, pickle.loads(text) if text else None
