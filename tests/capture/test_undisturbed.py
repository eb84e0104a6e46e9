"""To run a model again leaves nothing: not on the model, not in what it was given, not in the process."""

from __future__ import annotations

import gc
import logging
import random
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import shapetrace
from shapetrace.models.gpt import gpt


class Busy(nn.Module):
    """It changes all that a forward can: itself, its buffers, its arguments, random numbers, and what it prints."""

    def __init__(self, config: SimpleNamespace | None = None) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(9, config.C if config else 8)
        self.norm = nn.BatchNorm1d(config.C if config else 8)
        self.register_buffer("counts", torch.zeros(9, dtype=torch.long))
        self.cache: list[Tensor] = []
        self.kept: Tensor | None = None
        self.ran = 0

    def forward(self, ids: Tensor, log: list[str]) -> Tensor:
        self.ran += 1
        self.counts[ids] += 1
        x = self.norm(self.token(ids).mT).mT + torch.rand(1) + random.random()
        self.cache.append(x)
        self.kept = x
        log.append("ran")
        print("forward")
        print("forward", file=sys.stderr)
        logging.getLogger("model").warning("forward")
        warnings.warn("forward", stacklevel=1)
        return x


def state(model: Busy, ids: Tensor, log: list[str]) -> dict[str, Any]:
    return {
        "ran": (model.ran, len(model.cache), log),
        "tensors": [tensor.tolist() for tensor in (*model.state_dict().values(), *model.cache, ids)],
        "gradients": [parameter.grad for parameter in model.parameters()],
        "training": [module.training for module in model.modules()],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "kept": model.kept is not None and model.kept.grad_fn is not None,
        "random": (random.getstate(), torch.get_rng_state().tolist()),
        "process": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.are_deterministic_algorithms_enabled(),
            logging.root.manager.disable,
            sys.stdout,
            sys.stderr,
            list(warnings.filters),
        ),
    }


CONFIGS: dict[str, Callable[[], SimpleNamespace | None]] = {
    "copied": lambda: None,
    "rebuilt": lambda: SimpleNamespace(C=8),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_after_a_trace_all_is_as_after_a_forward(
    config: Callable[[], SimpleNamespace | None], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    ids, states, said = torch.arange(8).view(2, 4), [], []
    for axes in (None, False, True):
        torch.manual_seed(0)
        random.seed(0)
        model, log = Busy(config()), []
        model.norm.eval()
        caplog.clear()
        run = model if axes is None else partial(shapetrace.trace, model, axes=axes)
        with pytest.warns(UserWarning, match="forward") as warned:
            trace = run(ids, log)
        states.append(state(model, ids, log))
        said.append((capsys.readouterr(), caplog.messages, len(warned)))
    assert trace.calls[0].outputs[""].axes == ("B", "T", "C" if config() else 8)
    assert states[0] == states[1] == states[2]
    assert said[0] == said[1] == said[2]
    assert said[0] == (("forward\n", "forward\n"), ["forward"], 1)


@pytest.mark.parametrize(
    "context",
    [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.device("cpu")],
    ids=["no_grad", "inference_mode", "autocast", "device"],
)
def test_axes_are_named_within_the_contexts_of_torch(context: Callable[[], Any]) -> None:
    model, args, kwargs = gpt()
    with context():
        trace = shapetrace.trace(model, *args, **kwargs)
    assert trace["blocks.0.attention"]["q"].axes == ("B", "H", "T", "D")
    assert torch.is_grad_enabled()


def test_what_a_probe_switches_is_switched_back() -> None:
    def forward(x: Tensor) -> Tensor:
        if x.shape[0] != 2:
            torch.set_grad_enabled(False)
            torch.set_default_dtype(torch.float64)
            warnings.simplefilter("error")
            logging.disable(logging.INFO)
            sys.stdout = None
            torch.manual_seed(7)
        return x * 2

    model = Function(forward)
    before = (torch.get_rng_state().tolist(), list(warnings.filters), sys.stdout)
    assert shapetrace.trace(model, torch.zeros(2, 8)).calls[0].outputs[""].axes == ("B", 8)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32
    assert logging.root.manager.disable == logging.NOTSET
    assert (torch.get_rng_state().tolist(), list(warnings.filters), sys.stdout) == before


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *args: Any) -> Any:
        return self.function(*self.parts, *args)


def test_the_users_hooks_and_modes_see_one_forward() -> None:
    class Log(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    model = nn.Sequential(nn.Linear(8, 8))
    handles = [
        model[0].register_forward_pre_hook(lambda *_: names.append("pre")),
        model[0].register_forward_hook(lambda *_: names.append("post")),
    ]
    x = torch.zeros(2, 8)
    with Log():
        trace = shapetrace.trace(model, x)
    assert names == ["pre", "linear", "post"]
    assert trace.calls[0].outputs[""].axes == ("B", 8)
    for handle in handles:
        handle.remove()


class Watched(nn.Module):
    made: ClassVar[list[weakref.ref[Any]]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.made.extend(map(weakref.ref, (x, self)))
        return x * 2


def test_nothing_that_probes_make_stays_alive() -> None:
    made = Watched.made
    made.clear()
    model, x = Watched(), torch.zeros(2, 8)
    trace = shapetrace.trace(model, x)
    assert trace.calls[0].outputs[""].axes == ("B", 8)
    del x, model
    gc.collect()
    assert len(made) == 6  # of three forwards
    assert [ref() for ref in made if ref() is not None] == []


def test_a_list_that_a_function_holds_is_as_after_one_forward() -> None:
    seen: list[int] = []

    def forward(x: Tensor) -> Tensor:
        seen.append(len(x))
        return x * 2

    assert shapetrace.trace(Function(forward), torch.zeros(2, 8)).calls[0].outputs[""].axes == ("B", 8)
    assert seen == [2]


def test_gradients_flow_through_what_was_traced_and_are_the_same() -> None:
    gradients = []
    for axes in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        x = torch.ones(2, 8, requires_grad=True)
        with shapetrace.attach(model, axes=axes) as tap:
            loss = model(x).sum()
        assert tap.traces
        loss.backward()
        gradients.append([x.grad, *(parameter.grad for parameter in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_what_other_threads_print_while_a_model_is_run_again_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ready, done = threading.Event(), threading.Event()

    def forward(x: Tensor) -> Tensor:
        if x.shape[0] != 2:
            print("from a probe")
            ready.set()
            assert done.wait(10)
        return x * 2

    def other() -> None:
        assert ready.wait(10)
        print("from another thread")
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    trace = shapetrace.trace(Function(forward), torch.zeros(2, 8))
    thread.join()
    assert trace.calls[0].outputs[""].axes == ("B", 8)
    assert capsys.readouterr().out == "from another thread\n"


def test_two_threads_name_the_axes_of_two_models() -> None:
    barrier = threading.Barrier(2)
    found: dict[int, list[Any]] = {3: [], 5: []}

    def work(width: int) -> None:
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        barrier.wait()
        for _ in range(5):
            trace = shapetrace.trace(model, torch.zeros(2, width))
            found[width].append((trace.calls[0].outputs[""].axes, trace.notes))

    threads = [threading.Thread(target=work, args=(width,)) for width in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {width: [(("B", width), ())] * 5 for width in (3, 5)}
    assert torch.get_default_dtype() is torch.float32
    assert logging.root.manager.disable == logging.NOTSET


def test_modules_that_were_imported_are_the_same_and_dynamo_is_not_imported_for_it() -> None:
    code = (
        "import sys, torch, shapetrace\n"
        "model, x = torch.nn.Linear(8, 8), torch.zeros(2, 8)\n"
        "shapetrace.trace(model, x, axes=False)\n"
        "before = set(sys.modules)\n"
        "trace = shapetrace.trace(model, x)\n"
        "assert trace.calls[0].outputs[''].axes == ('B', 8)\n"
        "print(sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in eval(done.stdout) if not name.startswith("shapetrace.")] == []
