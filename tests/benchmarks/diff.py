"""How long it takes to compare two traces: `python -m tests.benchmarks.diff`.

A trace of so many calls is made of the blocks of a GPT. It is compared with itself; with one in which every block has
changed; with one in which a block was inserted in the middle; and, as one list of functions without any module, with
one that has lost every fiftieth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import msgspec

from shapetrace.diff import compare
from shapetrace.renderers import Style, changes
from shapetrace.schema import Call, Trace
from shapetrace.targets import Request, record

SIZES = (10_000, 100_000)


def deep(trace: Trace, calls: int, change: Callable[[int, Call], Call | None] = lambda _, call: call) -> Trace:
    """`trace` with its first block again and again; `change` says what becomes of each call in a block."""
    first = [call for call in trace.calls if call.path.startswith("blocks.0")]
    start = next(index for index, call in enumerate(trace.calls) if call.path == "blocks.0")
    end = max(index for index, call in enumerate(trace.calls) if call.path.startswith("blocks.")) + 1
    made = [
        msgspec.structs.replace(changed, path=changed.path.replace("blocks.0", f"blocks.{layer}"))
        for layer in range(calls // len(first))
        for call in first
        if (changed := change(layer, call)) is not None
    ]
    return msgspec.structs.replace(trace, calls=(*trace.calls[:start], *made, *trace.calls[end:]))


def flat(trace: Trace, calls: int, without: int = 0) -> Trace:
    """The functions of `trace` again and again, none of them in a module."""
    functions = [call for call in trace.calls if call.kind == "function"]
    made = [msgspec.structs.replace(functions[index % len(functions)], depth=0, path="") for index in range(calls)]
    kept = [call for index, call in enumerate(made) if not without or index % without]
    return msgspec.structs.replace(trace, calls=tuple(kept))


def without_norm(_layer: int, call: Call) -> Call | None:
    return None if "norm_1" in call.path else call


def speed(calls: int) -> None:
    gpt = record(Request("gpt"))
    plain = deep(gpt, calls)
    middle = calls // 70
    inserted = deep(gpt, calls, lambda layer, call: None if layer == middle and "attention" in call.path else call)
    listed = flat(gpt, calls)
    for name, before, after in (
        ("itself", plain, deep(gpt, calls)),
        ("every block changed", plain, deep(gpt, calls, without_norm)),
        ("one block changed", plain, inserted),
        ("one list, every 50th gone", listed, flat(gpt, calls, 50)),
    ):
        start = time.perf_counter()
        found = compare(before, after)
        compared = time.perf_counter()
        changes(found, Style(width=100, color=False))
        seconds = compared - start, time.perf_counter() - compared
        print(f"{len(before.calls):7d} calls  {name:26s} {seconds[0]:6.2f} s, shown in {seconds[1]:5.2f} s")


if __name__ == "__main__":
    for size in [int(word) for word in sys.argv[1:]] or SIZES:
        speed(size)
