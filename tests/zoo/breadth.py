"""Which models run by their name alone, with no options: `python -m tests.zoo.breadth [TARGET …] [--group G]`.

A target is a type of transformers, as `llama` or `hf:llama`, or a model of another library, `timm:resnet18`. Each has
its default size, whatever that is. The table says in which way it ran, and of each that does not whose the reason is.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

import torch

from shapetrace.capture.weightless import Weightless
from shapetrace.errors import ShapetraceError
from shapetrace.targets import Request, find, record
from shapetrace.targets.ready import load, make

from .checks import first_line
from .species import GROUPS

SECONDS = 240.0
"""Of the processor: the most that a target may take."""

WAYS = ("weightless", "in earnest", "theirs", "ours")
"""How a target ran, "in earnest" being with weights, and of transformers small; or whose reason it is that it did not.

It is theirs if a model that nobody traces, with weights, raises the same.
"""


class Run(NamedTuple):
    """`text` is what it took, or why it did not run."""

    target: str
    way: str
    text: str


def run(target: str) -> Run:
    began = time.process_time()
    try:
        found = record(Request(target))
    except Exception as error:
        reason = cause(error)
        return Run(target, "theirs" if same(reason, untraced(target)) else "ours", first_line(reason))
    took = f"{len(found.calls)} calls, {time.process_time() - began:.1f} s"
    return Run(target, "weightless" if found.weightless else "in earnest", "; ".join((took, *found.notes)))


def untraced(target: str) -> BaseException | None:
    """What a model raises that has its weights and that nobody traces."""
    try:
        place = find(target)
        while place.instead is not None:
            place = place.instead()
        loaded, _ = load(place, 0)
        ready = make(place, loaded, (), (), seed=0, others=())
        with torch.no_grad():
            ready.model(*ready.args, **ready.kwargs)
    except Exception as error:
        return cause(error)
    return None


def cause(error: BaseException) -> BaseException:
    return error.__cause__ or error if isinstance(error, ShapetraceError) else error


def same(error: BaseException, other: BaseException | None) -> bool:
    return type(error) is type(other) and first_line(error) == first_line(other)


def runs(targets: Sequence[str], jobs: int) -> Iterator[Run]:
    """Each in a process of its own, in the order in which they are done."""
    waiting = list(targets)
    running: dict[int, tuple[str, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            target = waiting.pop(0)
            pid, pipe = begin(target)
            running[pid] = target, pipe
        pid, _ = os.wait()
        target, pipe = running.pop(pid)
        with os.fdopen(pipe, "rb") as file:
            text = file.read()
        yield pickle.loads(text) if text else Run(target, "ours", "the process died, or took too long")


def begin(target: str) -> tuple[int, int]:
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
        pickle.dump(run(target), pipe)
    os._exit(0)


LIBRARIES = ("timm", "timm-all", "torchvision")


def targets_of(group: str) -> list[str]:
    """All of a group; of timm one model of each of its modules, by the shortest of their names."""
    if group in GROUPS:
        return [f"hf:{name}" for name in sorted(GROUPS[group])]
    if group == "torchvision":
        models = import_module("torchvision.models")
        return [f"torchvision:{name}" for name in models.list_models(module=models)]
    timm = import_module("timm")
    if group == "timm-all":
        return [f"timm:{name}" for name in timm.list_models()]
    names = [timm.list_models(module=module) for module in timm.list_modules()]
    return [f"timm:{min(own, key=lambda name: (len(name), name))}" for own in names if own]


def table(groups: Mapping[str, Sequence[str]], done: Mapping[str, Run]) -> str:
    """A line for each group, that a README can hold."""
    lines = [
        "| models | all | run weightless | run with weights | raise untraced, too | ours | run |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for group, targets in groups.items():
        count = Counter(done[target].way for target in targets)
        good = count["weightless"] + count["in earnest"]
        cells = [group, len(targets), *(count[way] for way in WAYS), f"{good / len(targets):.1%}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.breadth", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of the groups if there is none")
    parser.add_argument(
        "--group", action="append", choices=[*GROUPS, *LIBRARIES], help="may be repeated; causal if there is none"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    Weightless()  # imports what each would import by itself
    named = [target if ":" in target else f"hf:{target}" for target in options.targets]
    groups = {"named": named} if named else {group: targets_of(group) for group in options.group or ["causal"]}
    done = {}
    for found in runs(list(dict.fromkeys(target for group in groups.values() for target in group)), options.jobs):
        done[found.target] = found
        print(f"{found.target:40s} {found.way:10s} {found.text}", flush=True)
    print(f"\n{table(groups, done)}")
    return int(any(found.way == "ours" for found in done.values()))


if __name__ == "__main__":
    sys.exit(main())
