"""What is kept of the values of tensors: a few numbers each, and no tensor."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.errors import ShapetraceError
from shapetrace.models.gpt import gpt
from shapetrace.schema import Stats, Trace


class Steps(nn.Module):
    """Each step leaves its tensor under a name, and one writes to what another made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        kept = y.clone()
        scores = y.masked_fill_(torch.tensor([True, False, False]), -torch.inf)
        both = torch.cat([scores, kept])
        ratio = both - both
        return ratio


def stats_in(trace: Trace, path: str = "") -> dict[str, Stats | None]:
    return {name: record.stats for name, record in trace[path].items()}


def of(tensor: Tensor) -> Stats:
    """The same by other means."""
    values = [float(value) for value in tensor.detach().flatten().tolist()]
    finite = [value for value in values if math.isfinite(value)]
    nan = sum(math.isnan(value) for value in values)
    mean = math.fsum(finite) / len(finite)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in finite) / len(finite))
    return Stats(mean, std, min(finite), max(finite), nan, len(values) - len(finite) - nan)


def near(found: Stats | None, wanted: Stats) -> bool:
    assert found is not None
    assert (found.nan, found.inf) == (wanted.nan, wanted.inf)
    ours, theirs = ((each.mean, each.std, each.min, each.max) for each in (found, wanted))
    return bool(ours == pytest.approx(theirs, rel=1e-5, abs=1e-6))


@pytest.fixture
def steps() -> tuple[Steps, Tensor]:
    torch.manual_seed(0)
    return Steps(), torch.randn(2, 4)


def test_each_tensor_has_the_values_it_had_when_it_was_made(steps: tuple[Steps, Tensor]) -> None:
    model, x = steps
    y = model.linear(x)
    masked = y.masked_fill(torch.tensor([True, False, False]), -torch.inf)
    found = stats_in(shapetrace.trace(model, x, stats=True))
    assert near(found["x"], of(x))
    assert near(found["y"], of(y))
    assert near(found["kept"], of(y))
    assert near(found["scores"], of(masked))
    assert near(found["both"], of(torch.cat([masked, y])))
    assert found["ratio"] == Stats(0.0, 0.0, 0.0, 0.0, nan=2)


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (torch.tensor([1, 2, 6]), Stats(3.0, math.sqrt(14 / 3), 1.0, 6.0)),
        (torch.tensor([True, False]), Stats(0.5, 0.5, 0.0, 1.0)),
        (torch.tensor(5.0), Stats(5.0, 0.0, 5.0, 5.0)),
        (torch.tensor([65504.0, 65504.0], dtype=torch.float16), Stats(65504.0, 0.0, 65504.0, 65504.0)),
        (torch.tensor([2.0, math.nan], dtype=torch.bfloat16), Stats(2.0, 0.0, 2.0, 2.0, nan=1)),
        (torch.tensor([math.inf, -math.inf, math.nan]), Stats(nan=1, inf=2)),
        (torch.tensor([2.0**120, -(2.0**120)]), Stats(0.0, 2.0**120, -(2.0**120), 2.0**120)),
        (torch.tensor([2.0**1023, 2.0**1023], dtype=torch.float64), Stats(2.0**1023, 0.0, 2.0**1023, 2.0**1023)),
        (torch.zeros(0, 3), Stats()),
        (torch.tensor([2**53], dtype=torch.int64), Stats(float(2**53), 0.0, float(2**53), float(2**53))),
        (torch.zeros(2, dtype=torch.complex64), None),
        (torch.zeros(2, 2).to_sparse(), None),
        (torch.zeros(2, device="meta"), None),
        (torch.zeros(3).to(torch.float8_e4m3fn), Stats(0.0, 0.0, 0.0, 0.0)),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, Tensor) else "",
)
def test_of_every_kind_of_tensor(tensor: Tensor, wanted: Stats | None) -> None:
    class Same(nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            return [x]

    found = shapetrace.trace(Same(), tensor, stats=True, axes=False)
    assert found[""]["x"].stats == wanted
    assert found[""]["output[0]"].stats == wanted


@pytest.mark.parametrize("options", [{}, {"ops": True}, {"functions": False}, {"materialise": True}], ids=str)
@pytest.mark.parametrize("model", [gpt, lambda: (nn.MultiheadAttention(8, 2), (torch.randn(4, 2, 8),) * 3, {})])
def test_it_says_nothing_else_than_without_and_changes_nothing(model: Any, options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    built, args, kwargs = model()
    plain = shapetrace.trace(built, *args, **kwargs, **options)
    state = torch.get_rng_state()
    found = shapetrace.trace(built, *args, **kwargs, **options, stats=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert str(found.portable()) == str(plain.portable())
    assert found.portable() == plain.portable()
    assert all(record.stats is not None for record in found[""].values())


def test_it_is_kept_in_files_and_not_in_portable_traces(steps: tuple[Steps, Tensor], tmp_path: Any) -> None:
    found = shapetrace.trace(*steps, stats=True)
    found.save(tmp_path / "it.jsonl")
    assert shapetrace.load(tmp_path / "it.jsonl") == found
    assert {record.stats for record in found.portable()[""].values()} == {None}
    assert not shapetrace.compare(found, shapetrace.trace(*steps))


def test_a_tap_keeps_it_of_each_forward_and_of_what_follows(steps: tuple[Steps, Tensor]) -> None:
    model, x = steps
    with shapetrace.attach(model, stats=True) as tap:
        for scale in (1.0, 2.0):
            loss = F.mse_loss(model(x * scale)[..., 1:], torch.ones(4, 2))
    first, second = tap.traces
    assert near(first[""]["x"].stats, of(x))
    assert near(second[""]["x"].stats, of(x * 2))
    assert near(second[""]["loss"].stats, of(loss))


def test_up_to_the_call_that_raised(steps: tuple[Steps, Tensor]) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(4, 3))
    with pytest.raises(RuntimeError) as raised:
        shapetrace.trace(model, steps[1], stats=True)
    partial = shapetrace.trace_of(raised.value)
    assert partial is not None
    assert near(partial[""]["0"].stats, of(model[0](steps[1])))


def put(y: Tensor, value: float) -> None:
    y[0] = value


def put_all(y: Tensor, value: float) -> None:
    torch._foreach_add_([y], value)


def put_in_data(y: Tensor, value: float) -> None:
    y.data[0] = value


def put_in_view(y: Tensor, value: float) -> None:
    y[0].fill_(value)


WRITES = [
    (put, "__setitem__", [3]),
    (put_all, "_foreach_add_", [6]),
    (put_in_data, "__setitem__", [3]),
    (put_in_view, "fill_", [3]),
]


@pytest.mark.parametrize("options", [{}, {"ops": True}], ids=str)
@pytest.mark.parametrize(("write", "name", "counts"), WRITES, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_written_into_a_tensor_is_summed_up_at_this_call(
    write: Any, name: str, counts: list[int], options: dict[str, bool]
) -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            write(y, torch.nan)
            return y + 1

    trace = shapetrace.trace(Writes(), torch.ones(2, 3), stats=True, **options)
    (call,) = (call for call in trace.calls if call.kind == "function" and call.name == name)
    tensors = (*call.inputs.values(), *call.outputs.values())
    assert [tensor.stats.nan for tensor in tensors if tensor.stats is not None] == counts


def test_a_row_of_the_tree_has_what_was_written() -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y[0, 1:] = torch.nan
            return y

    rows = str(shapetrace.trace(Writes(), torch.ones(2, 3), stats=True, axes=False)).splitlines()
    assert [row for row in rows if "NaN" in row] == ["└─ y  […] =  (2,3)  (3,1)   in place on y · 2 NaN · 2 ± 0 in 2…2"]


def test_inside_of_a_transform_no_value_can_be_read() -> None:
    class Mapped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = torch.vmap(lambda row: row * 2)(x)
            return y

    x = torch.randn(2, 3)
    assert near(shapetrace.trace(Mapped(), x, stats=True)[""]["output"].stats, of(x * 2))


def test_blocks_of_which_one_has_nan_are_not_identical() -> None:
    model, args, kwargs = gpt(L=3)
    with torch.no_grad():
        model.blocks[2].feed_forward.w_down.bias.fill_(torch.nan)
    text = str(shapetrace.trace(model, *args, **kwargs, stats=True))
    assert "blocks.1 is identical" in text
    assert "64 NaN" in text
    assert "NaN" not in str(shapetrace.trace(model, *args, **kwargs))


def test_a_weightless_model_is_refused() -> None:
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    with pytest.raises(ShapetraceError, match=r"stats are of values, and a model that is weightless computes none"):
        shapetrace.trace(model, torch.randn(1, 2), stats=True)
