"""What holds of every model: it runs as if nobody watched, leaves nothing, and its record is whole and true."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import shapetrace
from shapetrace.capture import trace_of
from shapetrace.renderers import FORMATS, Style, render
from shapetrace.schema import Trace
from tests.capture.programs import WIDTH, Program, Step, steps
from tests.capture.test_axes_confirmed import wrong

examples = settings(suppress_health_check=list(HealthCheck), deadline=None)
OPTIONS = st.sampled_from([{}, {}, {"functions": False}, {"ops": True}, {"materialise": True}, {"stats": True}])
Watch = Callable[[nn.Module, Tensor], object]


def made(program: tuple[Step, ...], *, train: bool) -> nn.Module:
    torch.manual_seed(1)
    return Program(program).double().train(train)


def ran(model: nn.Module, x: Tensor, watch: Watch) -> dict[str, Any]:
    """All that a forward and a backward come to."""
    torch.manual_seed(2)
    error = result = None
    try:
        result = watch(model, x)
    except BaseException as raised:
        error = (type(raised), str(raised))
        del raised
    state = torch.get_rng_state()
    if isinstance(result, Tensor) and result.requires_grad:
        result.sum().backward()
    return {
        "result": result,
        "error": error,
        "random": state,
        "state": [tensor.clone() for tensor in model.state_dict().values()],
        "gradients": [parameter.grad for parameter in model.parameters()],
        "given": [x, x.grad],
        "attributes": [set(vars(module)) for module in model.modules()],
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        both = one.detach(), other.detach()
        return one.requires_grad == other.requires_grad and torch.equal(*(each.nan_to_num(1e9) for each in both))
    return bool(one == other)


@settings(examples, max_examples=200)
@given(program=steps(), train=st.booleans(), grad=st.booleans(), options=OPTIONS)
def test_it_runs_to_the_bit_as_if_nobody_watched_and_what_is_left_is_a_record(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[Step, ...],
    train: bool,
    grad: bool,
    options: dict[str, bool],
) -> None:
    traces = []

    def watched(model: nn.Module, x: Tensor) -> object:
        tap = shapetrace.attach(model, axes=False, **options)
        try:
            with tap:
                return model(x)
        finally:
            traces.extend(tap.traces)

    x = torch.randn(2, 3, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=grad)
    bare = ran(made(program, train=train), x, lambda model, x: model(x))
    seen = ran(made(program, train=train), x.detach().clone().requires_grad_(grad), watched)
    if not options.get("materialise"):
        for what, value in bare.items():
            assert same(value, seen[what]), what
    (trace,) = traces
    assert (trace.error is not None) == (bare["error"] is not None)
    if isinstance(seen["result"], Tensor):
        assert trace[""]["output"].shape == tuple(seen["result"].shape)
    dead = [weakref.ref(each) for each in (*seen["given"], seen["result"]) if isinstance(each, Tensor)]
    del seen
    if any(ref() is not None for ref in dead):
        gc.collect()  # an exception and its traceback lead to each other
    assert [ref() for ref in dead if ref() is not None] == []
    file = tmp_path_factory.getbasetemp() / "random.jsonl"
    trace.save(file)
    assert shapetrace.load(file) == trace
    assert not shapetrace.compare(trace, trace.portable())
    for format in FORMATS:
        assert render(trace, Style(width=80, all=True), format=format)


def traced(model: nn.Module, options: dict[str, bool], sizes: tuple[int, int] = (2, 3)) -> Trace:
    """The record, named, also of one that raises."""
    torch.manual_seed(2)
    try:
        return shapetrace.trace(model, torch.randn(*sizes, WIDTH, dtype=torch.float64), **options)
    except BaseException as error:
        found = trace_of(error)
        assert found is not None
        return found


@settings(examples, max_examples=60)
@given(program=steps(ends=False), train=st.booleans(), sizes=st.tuples(st.integers(2, 9), st.integers(2, 9)))
def test_each_letter_holds_at_sizes_that_no_probe_has_seen(
    program: tuple[Step, ...], train: bool, sizes: tuple[int, int]
) -> None:
    model = made(program, train=train)
    before = copy.deepcopy(model.state_dict())
    trace = traced(model, {})
    assert same(list(before.values()), list(model.state_dict().values())) or train_writes(model)
    other = traced(made(program, train=train), {}, sizes)
    assert wrong(trace, other, {**trace.sizes, **other.sizes}) == []


def train_writes(model: nn.Module) -> bool:
    """Whether a forward writes to a buffer of its own."""
    return any("count" in name for name, _ in model.named_buffers())
