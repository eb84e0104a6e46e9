"""How much time and memory watching costs, measured side by side in one process: `python -m tests.benchmarks`.

Each round runs every way once, one after the other, so that a machine that slows down slows all of them; a ratio is the
median over the rounds of one way's time by the bare forward's in the same round. "watched" is a forward whose trace
nobody has read yet, which is all that a training loop waits for; the trace of one that is "traced" has been read.
torchlens and torchinfo are measured where they are installed (`pip install torchlens torchinfo`), in fewer rounds, for
they take long.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import GPT2Config, GPT2LMHeadModel

import shapetrace

MODELS: dict[str, dict[str, Any]] = {
    "tiny": {"n_layer": 2},
    "12 layers": {"n_layer": 12},
    "48 layers": {"n_layer": 48},
    "96 layers": {"n_layer": 96},
    "small, eager": {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 128},
    "small, sdpa": {
        "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 128,
        "attn_implementation": "sdpa",
    },
}  # fmt: skip


class Nothing(TorchFunctionMode):
    """A function mode that does nothing: what any of them costs at the least."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def gpt2(**changes: Any) -> tuple[GPT2LMHeadModel, torch.Tensor]:
    config: dict[str, Any] = {
        "n_embd": 8, "n_head": 2, "vocab_size": 16, "n_positions": 16, "attn_implementation": "eager",
        "bos_token_id": 0, "eos_token_id": 0,
    } | changes  # fmt: skip
    shape = (1, 64) if config["n_embd"] == 768 else (2, 4)
    return GPT2LMHeadModel(GPT2Config(**config)).eval(), torch.randint(config["vocab_size"], shape)


def ways(model: GPT2LMHeadModel, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    def nothing() -> None:
        with Nothing():
            model(ids)

    def watched() -> None:
        with shapetrace.attach(model, axes=False):
            model(ids)

    found: dict[str, Callable[[], object]] = {
        "bare": lambda: model(ids),
        "no-op mode": nothing,
        "watched": watched,
        "traced": lambda: shapetrace.trace(model, ids, axes=False),
        "and named": lambda: shapetrace.trace(model, ids),
        "modules only": lambda: shapetrace.trace(model, ids, functions=False, axes=False),
    }
    if importlib.util.find_spec("torchinfo"):
        import torchinfo

        found["torchinfo"] = lambda: torchinfo.summary(model, input_data=ids, verbose=0)
    if importlib.util.find_spec("torchlens"):
        import torchlens

        found["torchlens"] = lambda: torchlens.trace(model, ids)
    return found


def measure(model: GPT2LMHeadModel, ids: torch.Tensor, rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, round by round."""
    times: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, run in ways(model, ids).items():
            if name == "torchlens" and number > max(1, rounds // 8):
                continue
            begin = time.perf_counter()
            run()
            if number:  # the first round warms up
                times.setdefault(name, []).append(time.perf_counter() - begin)
    return times


def speed(names: list[str], rounds: int) -> None:
    print(f"{'GPT-2':14s} {'calls':>6s} {'bare ms':>8s}   time by that of the bare forward")
    for name in names:
        model, ids = gpt2(**MODELS[name])
        with torch.no_grad():
            calls = len(shapetrace.trace(model, ids, axes=False).calls)
            times = measure(model, ids, rounds)
        bare = times.pop("bare")
        ratios = {
            way: statistics.median(t / b for t, b in zip(seconds, bare, strict=False)) for way, seconds in times.items()
        }
        milliseconds = statistics.median(bare) * 1e3
        each = (ratios["traced"] - 1) * milliseconds * 1e3 / calls
        print(f"{name:14s} {calls:6d} {milliseconds:8.2f}   ", end="")
        print("   ".join(f"{way} {ratio:.2f}x" for way, ratio in ratios.items()), f"  {each:.1f} µs a call")


def memory() -> None:
    model, ids = gpt2(n_layer=48)
    with torch.no_grad():
        shapetrace.trace(model, ids, axes=False)
        gc.collect()
        tracemalloc.start()
        trace = shapetrace.trace(model, ids, axes=False)
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    print(f"a trace holds {held / len(trace.calls):.0f} bytes a call ({len(trace.calls)} calls)")
    for traced in (False, True):
        pid = os.fork()
        if pid == 0:
            big = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(30)))
            x = torch.randn(4096, 2048)
            with torch.no_grad():
                shapetrace.trace(big, x, axes=False) if traced else big(x)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak of 30 layers of 32 MB activations, {'traced' if traced else 'bare'}: {peak:.0f} MB")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    speed(options.models, options.rounds)
    memory()
