"""Which types of transformers run as `hf:TYPE`, with no options: `python -m tests.zoo.breadth [TYPE …] [--group G]`.

Each type has its default configuration, of whatever size. The table says in which way it ran, and of each that does not
run why not.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import torch

from shapetrace.capture.weightless import Weightless
from shapetrace.errors import ShapetraceError
from shapetrace.targets import Raised, Request, record

from .checks import first_line
from .rows import finished
from .species import GROUPS

SECONDS = 120.0
"""Of the processor: the most that a type may take."""


class Run(NamedTuple):
    """`way` is how a type ran, or "fails"; `text` says why, or what it took."""

    model_type: str
    way: str
    text: str


def run(model_type: str) -> Run:
    began = time.process_time()
    try:
        found = record(Request(f"hf:{model_type}"))
    except Raised as raised:
        return Run(model_type, "fails", first_line(raised.__cause__ or raised))
    except ShapetraceError as error:
        return Run(model_type, "refused", first_line(error))
    except Exception as error:
        return Run(model_type, "crashes", first_line(error))
    took = f"{len(found.calls)} calls, {time.process_time() - began:.1f} s"
    notes = [note for note in found.notes if "axes" in note or "small" in note]
    return Run(model_type, "weightless" if found.weightless else "small", "; ".join((took, *notes)))


def runs(types: list[str], jobs: int) -> Iterator[Run]:
    waiting = list(types)
    running: dict[int, tuple[str, str, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            model_type = waiting.pop(0)
            pid, pipe = begin(model_type)
            running[pid] = ("", model_type, pipe)
        pid, _, found = finished(running)
        _, model_type, _ = running.pop(pid)
        yield found or Run(model_type, "fails", "the process died, or took too long")


def begin(model_type: str) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with os.fdopen(write, "wb") as pipe:
        pickle.dump(run(model_type), pipe)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.breadth", description=__doc__)
    parser.add_argument("types", nargs="*", metavar="TYPE", help="all of the groups if there is none")
    parser.add_argument("--group", action="append", choices=GROUPS, help="may be repeated; causal if there is none")
    parser.add_argument("--jobs", type=int, default=2, help="how many types at once")
    options = parser.parse_args()
    Weightless()  # imports what each would import by itself
    types = options.types or sorted({name for group in options.group or ["causal"] for name in GROUPS[group]})
    count: Counter[str] = Counter()
    for done in runs(types, options.jobs):
        count[done.way] += 1
        print(f"{done.model_type:28s} {done.way:10s} {done.text}", flush=True)
    good = count["weightless"] + count["small"]
    print(
        f"\n{good} of {len(types)} run, {good / len(types):.1%}: {', '.join(f'{n} {way}' for way, n in count.items())}"
    )
    return int(good < len(types))


if __name__ == "__main__":
    sys.exit(main())
