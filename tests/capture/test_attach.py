"""Attaching: around a block, in a training loop, and what an exception leaves."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import shapetrace
from shapetrace import ShapetraceError, Trace


def names(trace: Trace) -> list[str]:
    return [call.name for call in trace.calls if call.depth == 0]


def test_a_block_sees_the_loss_that_is_computed_outside_the_model() -> None:
    model, x, target = nn.Linear(2, 3), torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)
    with shapetrace.attach(model) as tap:
        logits = model(x)
        loss = F.cross_entropy(logits, target)
        loss.backward()
    (trace,) = tap.traces
    assert names(trace) == ["Linear", "cross_entropy"]
    assert trace[""]["logits"].shape == (4, 3)
    assert trace[""]["loss"].shape == ()


def test_a_block_with_two_forwards_gives_two_traces_and_what_follows_each_is_with_it() -> None:
    model = nn.Linear(2, 2)
    complete: list[Trace] = []
    with shapetrace.attach(model, on_trace=complete.append) as tap:
        x = torch.ones(1, 2)
        a = model(x).exp()
        assert [names(trace) for trace in tap.traces] == [["ones", "Linear", "exp"]]
        assert complete == []
        model(a).log()
        assert [names(trace) for trace in complete] == [["ones", "Linear", "exp"]]
    assert [names(trace) for trace in tap.traces] == [["ones", "Linear", "exp"], ["Linear", "log"]]
    assert [names(trace) for trace in complete] == [names(trace) for trace in tap.traces]


def test_a_block_in_which_the_model_is_not_called_shows_what_was() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(4, 2)

        def encode(self, ids: Tensor) -> Tensor:
            return self.embed(ids)

    model, ids = Model(), torch.zeros(1, dtype=torch.long)
    with shapetrace.attach(model) as tap:
        model.encode(ids)
    assert names(tap.traces[0]) == ["Embedding"]
    with shapetrace.attach(model) as tap:
        pass
    assert tap.traces == []


def test_in_a_training_loop_every_third_forward_is_traced_and_the_others_run_bare() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    complete: list[Trace] = []
    handle = shapetrace.attach(model, every=3, on_trace=complete.append, keep=2)
    for rows in range(1, 9):
        hooked: list[int] = []
        model[0].forward_hook = hooked
        model(torch.zeros(rows, 2))
    handle.detach()
    model(torch.zeros(99, 2))
    rows_traced = [trace.calls[0].inputs["input"].shape[0] for trace in complete]
    assert rows_traced == [1, 4, 7]
    assert handle.traces == complete[-2:]
    assert all(len(trace.calls) == 3 for trace in complete)


def test_every_counts_in_a_block_too() -> None:
    model = nn.Linear(2, 2)
    inputs = [torch.zeros(rows, 2) for rows in range(1, 6)]
    with shapetrace.attach(model, every=2) as tap:
        for x in inputs:
            model(x)
    assert [trace.calls[0].inputs["input"].shape[0] for trace in tap.traces] == [1, 3, 5]


def test_a_callback_may_run_the_model_itself_and_that_is_not_watched() -> None:
    model, x = nn.Linear(2, 2), torch.zeros(1, 2)
    runs: list[int] = []

    def again(trace: Trace) -> None:
        runs.append(len(trace.calls))
        model(x)

    handle = shapetrace.attach(model, on_trace=again)
    model(x)
    handle.detach()
    assert runs == [2]
    with shapetrace.attach(model, on_trace=again):
        model(x)
        model(x)
    assert runs == [2, 2, 2]


def test_a_callback_that_raises_does_not_take_the_place_of_the_models_own_exception() -> None:
    def fail(trace: Trace) -> None:
        raise OSError("disk")

    handle = shapetrace.attach(Broken(), on_trace=fail)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        handle._model(torch.zeros(3, 4))
    handle.detach()
    assert caught.value.__notes__[-1] == "shapetrace: on_trace raised OSError: disk"

    model, x = nn.ReLU(), torch.zeros(1)
    with pytest.raises(OSError, match="disk"), shapetrace.attach(model, on_trace=fail) as tap:
        model(x)
    assert len(tap.traces) == 1


def test_gradient_checkpointing_is_traced_with_the_forward_that_backward_runs_again() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = checkpoint(self.layer, x, use_reentrant=False)
            return out

    model, x = Model(), torch.ones(1, 2)
    with shapetrace.attach(model) as tap:
        model(x).sum().backward()
    assert model.layer.weight.grad is not None
    layers = [call.depth for call in tap.traces[0].calls if call.name == "Linear"]
    assert layers == [1, 1]


class Broken(nn.Module):
    """A model whose second layer takes another width than the first gives."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 6), nn.Linear(8, 2)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_an_exception_keeps_its_type_and_text_and_gains_a_note_that_says_where() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        shapetrace.trace(Broken(), torch.zeros(3, 4))
    (note,) = caught.value.__notes__
    first, place, way, *tensors, wrong, do = note.splitlines()
    assert first == "shapetrace: raised in blocks.1 (Linear), by linear(input, weight, bias)"
    path, line = place.strip().rsplit(":", 1)
    assert "F.linear" in linecache.getline(path, int(line))
    assert way.startswith("  in blocks.1(x) (test_attach.py:")
    assert [tensor.split()[0] for tensor in tensors] == ["input", "weight", "bias"]
    assert f"{wrong}{do[1:]}" == (
        "  linear takes 8 in the last dim, and input [B=3, 6] has 6 there: make it with in_features=6, "
        "or give it a tensor that is 8 wide"
    )


def test_the_trace_of_a_failed_forward_holds_all_before_the_failure_and_the_failing_call() -> None:
    with pytest.raises(RuntimeError) as caught:
        shapetrace.trace(Broken(), torch.zeros(3, 4))
    trace = shapetrace.trace_of(caught.value)
    assert trace is not None
    text = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x6 and 8x2)"
    assert [(call.path, call.name, call.error) for call in trace.calls] == [
        ("", "Broken", text),
        ("blocks.0", "Linear", None),
        ("blocks.0", "linear", None),
        ("blocks.1", "Linear", text),
        ("blocks.1", "linear", text),
    ]
    assert trace.error == text
    assert trace.calls[2].outputs[""].shape == (3, 6)
    assert shapetrace.trace_of(ValueError()) is None


def test_an_exception_that_the_model_catches_is_on_the_call_and_does_not_end_the_trace() -> None:
    class Careful(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            try:
                return x @ torch.zeros(7, 7)
            except RuntimeError:
                return x + 1

    trace = shapetrace.trace(Careful(), torch.zeros(2, 3))
    failed = next(call for call in trace.calls if call.name == "matmul")
    assert failed.error is not None
    assert trace.error is None
    assert trace.calls[0].error is None
    assert trace.calls[-1].name == "add"


def test_a_forward_that_runs_while_another_exception_is_handled_has_not_failed() -> None:
    model = nn.Sequential(nn.ReLU())
    try:
        raise ValueError("before")
    except ValueError:
        trace = shapetrace.trace(model, torch.zeros(1))
    assert [call.error for call in trace.calls] == [None, None, None]


def test_an_exception_of_the_users_code_in_a_block_is_in_the_header() -> None:
    model = nn.Linear(2, 2)
    x = torch.zeros(1, 2)
    tap = shapetrace.attach(model)
    with pytest.raises(KeyError) as caught, tap:  # noqa: PT012
        model(x)
        raise KeyError("mine")
    assert tap.traces[0].error == "KeyError: 'mine'"
    assert not hasattr(caught.value, "__notes__")


def test_the_traceback_of_a_failed_forward_ends_in_the_users_code() -> None:
    with pytest.raises(RuntimeError) as caught:
        shapetrace.trace(Broken(), torch.zeros(3, 4))
    last = traceback.extract_tb(caught.value.__traceback__)
    assert any(frame.name == "forward" and frame.filename == __file__ for frame in last)


@pytest.mark.parametrize(
    ("attach", "text"),
    [
        (lambda: shapetrace.attach(len), "a torch.nn.Module can be watched, not builtin_function_or_method"),
        (lambda: shapetrace.trace("gpt"), "a torch.nn.Module can be watched, not str"),
        (lambda: shapetrace.trace(nn.ReLU), "a torch.nn.Module can be watched, not the class ReLU: make one"),
        (lambda: shapetrace.attach(nn.ReLU), "a torch.nn.Module can be watched, not the class ReLU: make one"),
        (lambda: shapetrace.attach(nn.ReLU(), every=0), "every and keep count from 1; got every=0, keep=16"),
        (lambda: shapetrace.attach(nn.ReLU(), keep=0), "every and keep count from 1; got every=1, keep=0"),
    ],
)
def test_what_cannot_be_attached_is_refused(attach: Callable[[], object], text: str) -> None:
    with pytest.raises(ShapetraceError) as caught:
        attach()
    assert str(caught.value) == text


def test_a_tap_is_entered_once() -> None:
    model = nn.ReLU()
    with shapetrace.attach(model) as tap, pytest.raises(ShapetraceError, match="attach to the model again"):
        tap.__enter__()
    with pytest.raises(ShapetraceError, match="attach to the model again"):
        tap.__enter__()


def test_a_tap_says_what_it_is() -> None:
    tap = shapetrace.attach(nn.ReLU())
    assert repr(tap) == "<Tap attached to ReLU, traces: 0>"
    tap.detach()
    assert repr(tap) == "<Tap detached from ReLU, traces: 0>"
