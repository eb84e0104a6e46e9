"""How much time and memory watching costs, measured side by side in one process: `python -m tests.benchmarks`.

Each round runs every way once, one after the other, so that a machine that slows down slows all of them; a ratio is the
median over the rounds of one way's time by the bare forward's in the same round. Time is that of the processor, so that
what else runs on the machine counts little. "watched" is a forward whose trace nobody has read yet, which is all that a
training loop waits for; "traced" is `shapetrace.trace(model, ids, axes=False)`, whose trace has been read. Other tools
(`peers.py`) are run in fewer rounds, for they take long.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import sys
import time
import tracemalloc
import warnings
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from transformers import GPT2Config, GPT2LMHeadModel

import shapetrace

from .peers import PEERS, Way, is_installed

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


class Hooks:
    """Forward hooks on each module that do nothing."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __enter__(self) -> None:
        self.handles = [
            handle
            for module in self.model.modules()
            for handle in (
                module.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True),
                module.register_forward_hook(lambda module, args, kwargs, result: None, with_kwargs=True),
            )
        ]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def ways(model: GPT2LMHeadModel, ids: torch.Tensor) -> dict[str, Way]:
    def nothing() -> None:
        with Nothing():
            model(ids)

    def nothing_and_hooks() -> None:
        with Hooks(model), Nothing():
            model(ids)

    def watched() -> None:
        with shapetrace.attach(model, axes=False):
            model(ids)

    return {
        "bare": lambda: model(ids),
        "no-op mode": nothing,
        "no-op mode and hooks": nothing_and_hooks,
        "watched": watched,
        "traced": lambda: shapetrace.trace(model, ids, axes=False),
        "and named": lambda: shapetrace.trace(model, ids),
        "modules only": lambda: shapetrace.trace(model, ids, functions=False, axes=False),
    }


def measure(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way, round by round; of one that fails, none."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    failed = set()
    for number in range(rounds + 1):
        for name, run in ways.items():
            if name in failed:
                continue
            begin = time.process_time()
            try:
                run()
            except Exception as error:
                failed.add(name)
                print(f"{name} fails: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            if number:  # the first round warms up
                times[name].append(time.process_time() - begin)
    return times


def ratios(times: dict[str, list[float]], by: str) -> dict[str, float | None]:
    return {
        way: statistics.median(one / other for one, other in zip(seconds, times[by], strict=True)) if seconds else None
        for way, seconds in times.items()
    }


def row(name: str, rounds: int, peers: bool) -> None:
    """Print a row of the table: the time of each way by that of the bare forward."""
    model, ids = gpt2(**MODELS[name])
    with torch.no_grad():
        calls = len(shapetrace.trace(model, ids, axes=False).calls)
        times = measure(ways(model, ids), rounds)
        others: dict[str, Way] = {}
        if peers:
            others |= {peer: make(model, ids) for peer, (module, make) in PEERS.items() if is_installed(module)}
        slow = {  # each beside bare forwards of its own: they are slower after what takes long
            peer: ratios(measure({"bare": lambda: model(ids), peer: way}, max(2, rounds // 8)), "bare")[peer]
            for peer, way in others.items()
        }
    found = ratios(times, "bare")
    milliseconds = statistics.median(times["bare"]) * 1e3
    each = ((found["traced"] or 0) - 1) * milliseconds * 1e3 / calls
    cells = [f"{name} ({milliseconds:.1f} ms, {calls} calls)"]
    cells += [f"{ratio:.2f}" for way, ratio in found.items() if way != "bare" and ratio is not None]
    cells += [f"{ratios(times, 'no-op mode and hooks')['traced']:.2f}", f"{each:.1f}"]
    for peer in PEERS if peers else ():
        ratio = slow.get(peer)
        cells.append("not installed" if peer not in slow else "fails" if ratio is None else f"{ratio:.1f}")
    print(f"| {' | '.join(cells)} |", flush=True)


def speed(names: list[str], rounds: int, peers: bool) -> None:
    """Print a table in Markdown, each row from a process of its own: torchlens patches torch, and leaves it so."""
    model, ids = gpt2(**MODELS["tiny"])
    head = [*list(ways(model, ids))[1:], "traced by no-op mode and hooks", "µs a call", *(PEERS if peers else ())]
    print(f"| GPT-2, times the bare forward | {' | '.join(head)} |\n|---|{'---:|' * len(head)}", flush=True)
    for name in names:
        pid = os.fork()
        if pid == 0:
            warnings.simplefilter("ignore")
            row(name, rounds, peers)
            os._exit(0)
        os.waitpid(pid, 0)


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
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    speed(options.models, options.rounds, not options.no_peers)
    memory()
