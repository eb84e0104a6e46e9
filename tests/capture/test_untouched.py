"""The watched model is never changed: outputs, random numbers, buffers, gradients, hooks, modes, memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import shapetrace
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer


class Noisy(nn.Module):
    """Dropout, a running mean, in-place steps and random numbers: whatever watching could disturb."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.norm(self.linear(x)))
        x = x + torch.randn_like(x)
        return x.mul_(2).add_(1)


Make = Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]
MODELS: dict[str, Make] = {
    "gpt": lambda: gpt(),
    "encoder": lambda: encoder(),
    "transformer": lambda: transformer(),
    "noisy": lambda: (Noisy(), (torch.randn(3, 4),), {}),
    "lstm": lambda: (nn.LSTM(4, 4, 2, dropout=0.5), (torch.randn(3, 2, 4),), {}),
    "nn.Transformer": lambda: (
        nn.Transformer(8, 2, 1, 1, 16, batch_first=True), (torch.randn(2, 3, 8), torch.randn(2, 4, 8)), {},
    ),
    "nn.MultiheadAttention": lambda: (nn.MultiheadAttention(8, 2, dropout=0.1), (torch.randn(4, 2, 8),) * 3, {}),
}  # fmt: skip


def run(make: Make, watch: Callable[[nn.Module], Any] | None) -> dict[str, Any]:
    """All that a forward and a backward leave behind, with or without watching."""
    torch.manual_seed(0)
    model, args, kwargs = make()
    if watch is None:
        result = model(*args, **kwargs)
    else:
        with watch(model):
            result = model(*args, **kwargs)
    outputs = [result] if isinstance(result, Tensor) else [out for out in flat(result) if isinstance(out, Tensor)]
    sum(out.float().sum() for out in outputs).backward()
    return {
        "outputs": [out.detach() for out in outputs],
        "gradients": [p.grad for p in model.parameters()],
        "state": list(model.state_dict().values()),
        "random": [torch.get_rng_state()],
        "training": [torch.tensor(module.training) for module in model.modules()],
        "attributes": [set(vars(module)) for module in model.modules()],
    }


def flat(value: Any) -> list[Any]:
    return [x for part in value for x in flat(part)] if isinstance(value, (tuple, list)) else [value]


def same(a: Any, b: Any) -> bool:
    return torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)


WATCHES: dict[str, Callable[[nn.Module], Any]] = {
    "functions": lambda model: shapetrace.attach(model),
    "modules": lambda model: shapetrace.attach(model, functions=False),
    "ops": lambda model: shapetrace.attach(model, ops=True),
    "stats": lambda model: shapetrace.attach(model, stats=True),
}


@pytest.mark.parametrize("watch", WATCHES.values(), ids=WATCHES)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_watched_and_bare_leave_the_same_to_the_bit(make: Make, watch: Callable[[nn.Module], Any]) -> None:
    bare, watched = run(make, None), run(make, watch)
    for what, values in bare.items():
        assert len(values) == len(watched[what]), what
        assert all(same(a, b) for a, b in zip(values, watched[what], strict=True)), what


def test_the_comparison_above_sees_a_changed_random_number() -> None:
    class Disturbing:
        def __init__(self, model: nn.Module) -> None:
            torch.rand(1)

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    bare, watched = run(MODELS["noisy"], None), run(MODELS["noisy"], Disturbing)
    assert not torch.equal(bare["random"][0], watched["random"][0])
    assert not torch.equal(bare["outputs"][0], watched["outputs"][0])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, StopIteration])
@pytest.mark.parametrize("where", ["module", "function", "root"])
def test_whatever_is_raised_passes_through_and_leaves_nothing(error: type[BaseException], where: str) -> None:
    def fail(*_: object) -> Tensor:
        raise error("no further")

    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return fail()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.ReLU(), Failing()) if where == "module" else nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            x = self.inner(x)
            return fail() if where == "root" else x.apply_(fail)

    model = Model()
    with pytest.raises(error, match="no further"):
        shapetrace.trace(model, torch.zeros(2))
    tap = shapetrace.attach(model)
    with pytest.raises(error):
        model(torch.zeros(2))
    tap.detach()
    tap.detach()
    assert tap.traces[-1].error == f"{error.__name__}: no further"


def test_taps_nest_and_end_in_any_order() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    first, second, third = (shapetrace.attach(model) for _ in range(3))
    with shapetrace.attach(model) as inside, shapetrace.attach(model) as innermost:
        model(torch.zeros(1, 2))
    second.detach()
    model(torch.zeros(3, 2))
    first.detach()
    third.detach()
    model(torch.zeros(5, 2))
    rows = [[trace.calls[0].inputs["input"].shape[0] for trace in tap.traces] for tap in (first, second, third)]
    assert rows == [[1, 3], [1], [1, 3]]
    names = [[call.name for call in tap.traces[0].calls if call.kind == "module"] for tap in (inside, innermost)]
    assert names == [["Sequential", "Linear", "ReLU"]] * 2


def test_no_tensor_is_kept_alive_by_a_trace_or_while_it_is_made() -> None:
    alive: list[int] = []
    made: list[weakref.ref[Tensor]] = []

    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(10):
                x = x + 1
                made.append(weakref.ref(x))
                alive.append(sum(ref() is not None for ref in made))
            return x

    x = torch.zeros(1000)
    trace = shapetrace.trace(Chain(), x)
    assert max(alive) <= 2
    del x
    assert not [ref for ref in made if ref() is not None]
    assert len(trace.calls) == 11


def test_storages_are_freed_as_they_would_be() -> None:
    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            storage = weakref.ref((x + 1).untyped_storage())
            assert storage() is None
            return x

    shapetrace.trace(Chain(), torch.zeros(4))


@pytest.mark.parametrize("way", ["outside", "by the callback", "in a block"])
def test_a_detached_tap_holds_no_model_once_its_traces_were_read(way: str) -> None:
    model = nn.Linear(2, 2)
    gone = weakref.ref(model)
    tap = shapetrace.attach(model, on_trace=lambda _: tap.detach() if way == "by the callback" else None)
    with tap if way == "in a block" else contextlib.nullcontext():
        model(torch.zeros(1, 2))
    tap.detach()
    assert len(tap.traces) == 1
    del model
    gc.collect()
    assert gone() is None
    assert repr(tap) == "<Tap detached from Linear, traces: 1>"


def test_a_detached_tap_and_its_model_can_be_collected() -> None:
    model = nn.Linear(2, 2)
    tap = shapetrace.attach(model)
    model(torch.zeros(1, 2))
    tap.detach()
    gone = weakref.ref(model)
    del model, tap
    gc.collect()
    assert gone() is None


def test_the_hooks_of_the_user_run_as_before_and_what_they_change_is_seen() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    seen: list[str] = []
    model[0].register_forward_pre_hook(lambda m, args: seen.append("pre") or (args[0] + 1,))
    model[0].register_forward_hook(lambda m, args, out: seen.append("post") or out.flatten())
    trace = shapetrace.trace(model, torch.zeros(1, 2))
    linear = next(call for call in trace.calls if call.name == "Linear")
    assert seen == ["pre", "post"]
    assert linear.outputs[""].shape == (2,)
    assert linear.inputs["input"].number != trace.calls[0].inputs["input"].number


def test_the_modes_of_the_user_see_what_the_model_calls_and_nothing_more() -> None:
    class Log(TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    model = nn.Linear(2, 2)
    x = torch.zeros(1, 2)
    with Log() as bare:
        model(x)
    with Log() as watched:
        shapetrace.trace(model, x)
    assert watched.names == bare.names

    with shapetrace.attach(model) as tap, Log() as above:
        model(x)
    assert above.names == bare.names
    assert [call.name for call in tap.traces[0].calls] == ["Linear", "linear"]


def test_a_tensor_subclass_is_asked_nothing_more_than_without_watching() -> None:
    class Loud(Tensor):
        asked: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x + 1)

    x = torch.zeros(2).as_subclass(Loud)
    Loud.asked.clear()
    Model()(x)
    bare = list(Loud.asked)
    Loud.asked.clear()
    trace = shapetrace.trace(Model(), x)
    assert Loud.asked == bare
    assert trace.calls[1].outputs[""].kind == "Loud"


def test_two_threads_that_watch_two_models_do_not_mix() -> None:
    barrier = threading.Barrier(2)
    traces: dict[int, list[str]] = {}

    def work(width: int) -> None:
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(width)))
        barrier.wait()
        for _ in range(20):
            trace = shapetrace.trace(model, torch.zeros(1, width))
            shapes = {tensor.shape for call in trace.calls for tensor in call.outputs.values()}
            traces.setdefault(width, []).append(f"{len(trace.calls)} {shapes}")

    threads = [threading.Thread(target=work, args=(width,)) for width in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {width: set(found) for width, found in traces.items()} == {3: {"7 {(1, 3)}"}, 5: {"11 {(1, 5)}"}}


def test_another_thread_that_runs_the_watched_model_is_not_in_the_trace() -> None:
    model, other, x = nn.Sequential(nn.Linear(2, 2)), torch.zeros(7, 2), torch.zeros(1, 2)
    with shapetrace.attach(model) as tap:
        thread = threading.Thread(target=model, args=(other,))
        thread.start()
        thread.join()
        model(x)
    assert [call.outputs[""].shape for call in tap.traces[0].calls] == [(1, 2)] * 3


def test_a_copy_and_a_pickle_of_a_watched_model_are_not_watched() -> None:
    model, x = nn.Sequential(nn.Linear(2, 2)), torch.zeros(1, 2)
    handle = shapetrace.attach(model)
    pickle.loads(pickle.dumps(model))(x)
    copy.deepcopy(model)(x)
    handle.detach()
    assert handle.traces == []

    with shapetrace.attach(model) as tap:
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        copied(x)
        pickled(x)
    assert [call.name for call in tap.traces[0].calls if call.kind == "module"] == []
    assert len(pickle.dumps(copied)) < 4000


def test_a_module_that_leaves_its_slot_to_the_pickle_is_not_watched_there() -> None:
    model = nn.Sequential(nn.LSTM(2, 2))  # its class has a __getstate__ of its own
    with shapetrace.attach(model) as tap:
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model[0])):
            copied(torch.zeros(1, 1, 2))
    assert [call.name for call in tap.traces[0].calls if call.kind == "module"] == []


def test_a_trace_that_nobody_has_read_keeps_a_weak_reference_to_a_parameter_only_to_find_it() -> None:
    model, x = nn.Sequential(nn.Linear(2, 2)), torch.zeros(1, 2)
    with shapetrace.attach(model) as tap:
        model(x)
    assert weakref.getweakrefcount(model[0].weight) == 1
    assert len(tap.traces[0].calls) == 3
    del tap
    assert weakref.getweakrefcount(model[0].weight) == 0


def test_a_model_is_freed_as_soon_as_it_would_be_and_no_weak_reference_to_its_parameters_is_left() -> None:
    gc.disable()
    try:
        for functions in (True, False):
            model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            shapetrace.trace(model, torch.zeros(1, 2), functions=functions)
            assert weakref.getweakrefcount(model[0].weight) == 0
            with contextlib.suppress(RuntimeError):
                shapetrace.trace(model, torch.zeros(1, 3))
            assert weakref.getweakrefcount(model[0].weight) == 0
            gone = weakref.ref(model)
            del model
            assert gone() is None
    finally:
        gc.enable()


def test_a_model_that_is_compiled_while_watched_and_hooks_that_are_cleared_do_not_stop_the_end() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with shapetrace.attach(model):
        model._compiled_call_impl = model._call_impl  # as Module.compile does, without the time it takes
        model[0]._forward_hooks.clear()
        model[0]._forward_pre_hooks.clear()
    assert "_compiled_call_impl" in vars(model)
    model._compiled_call_impl = None


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu")])
def test_watching_works_within_the_contexts_of_torch(context: Any) -> None:
    model, args, kwargs = gpt()
    with context():
        bare = model(*args, **kwargs)[0]
        with shapetrace.attach(model) as tap:
            watched = model(*args, **kwargs)[0]
    assert torch.equal(bare, watched)
    assert len(tap.traces[0].calls) > 50
