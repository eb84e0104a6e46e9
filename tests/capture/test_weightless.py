"""Models whose weights have a shape and no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import shapetrace
from shapetrace.capture.weightless import Weightless, building, mode_of, within


class Looks(nn.Module):
    """Looks at its ids, and at a mask that it makes of them."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table = nn.Embedding(11, width)
        self.register_buffer("places", torch.arange(64), persistent=False)
        self.rates = [rate.item() for rate in torch.linspace(0, 1, 3)]

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        if (ids > 0).all():
            x = x * self.places[: ids.shape[1]].max().item()
        return x.softmax(-1)


IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def weightless(width: int = 8) -> Looks:
    with Weightless():
        return Looks(width)


def shown(trace: shapetrace.Trace) -> list[tuple[str, tuple[str | int, ...]]]:
    return [(call.name, next(iter(call.outputs.values())).axes or ()) for call in trace.calls]


def test_it_goes_where_a_model_with_weights_goes() -> None:
    fake, real = shapetrace.trace(weightless(), IDS), shapetrace.trace(Looks(), IDS)
    assert fake.weightless
    assert not real.weightless
    assert fake.portable() == real.portable()


def test_floats_have_no_memory_and_integers_are_what_they_are() -> None:
    model = weightless(1 << 40)
    assert isinstance(model.table.weight, FakeTensor)
    assert not isinstance(model.places, FakeTensor)
    assert shapetrace.trace(model, IDS).calls[0].outputs[""].shape == (2, 3, 1 << 40)


def test_where_weights_are_drawn_until_they_fit_nothing_is_drawn() -> None:
    def drawn() -> torch.Tensor:
        return nn.init.trunc_normal_(nn.Linear(100, 100).weight, std=1.0, a=-0.5, b=0.5)

    with building(Weightless()):
        assert isinstance(drawn(), FakeTensor)
    with building(None):
        assert -0.5 <= drawn().min() < drawn().max() <= 0.5


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.float, lambda model: model.to(torch.bfloat16)])
def test_a_module_can_be_converted_where_it_is_built(convert: Callable[[nn.Module], nn.Module]) -> None:
    with Weightless():
        model = convert(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)))
    real = convert(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)))
    assert [(p.dtype, type(p), p.requires_grad) for p in model.parameters()] == [
        (p.dtype, FakeTensor, True) for p in real.parameters()
    ]


def test_a_parameter_is_called_one_and_its_results_are_tensors() -> None:
    embedding = next(call for call in shapetrace.trace(weightless(), IDS).calls if call.name == "embedding")
    assert (embedding.inputs["1"].kind, embedding.inputs["1"].name) == ("Parameter", "table.weight")
    assert embedding.outputs[""].kind is None


def test_a_model_on_meta_takes_real_inputs() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 16))
    found = shapetrace.trace(model, IDS)
    assert (found.weightless, found.device) == (True, "cpu")
    assert shown(found) == [
        ("Sequential", ("B", "T", 16)),
        ("Embedding", ("B", "T", 8)),
        ("embedding", ("B", "T", 8)),
        ("Linear", ("B", "T", 16)),
        ("linear", ("B", "T", 16)),
    ]
    assert model[0].weight.is_meta


def test_a_model_on_meta_that_is_given_what_is_on_meta_runs_as_it_is() -> None:
    found = shapetrace.trace(nn.Linear(8, 16, device="meta"), torch.empty(2, 8, device="meta"))
    assert (found.weightless, found.device) == (False, "meta")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_model_on_fake_tensors_of_any_mode_takes_real_and_fake_inputs(allowed: bool) -> None:
    with FakeTensorMode(allow_non_fake_inputs=allowed) as mode:
        model, x = nn.Linear(8, 16), torch.empty(2, 8)
    for given in (x, torch.zeros(2, 8)):
        found = shapetrace.trace(model, given)
        assert found.weightless
        assert [call.outputs[""].shape for call in found.calls] == [(2, 16), (2, 16)]
        assert found.calls[0].outputs[""].axes == ("B", 16)
    assert mode.allow_non_fake_inputs == allowed


def test_a_model_on_fake_tensors_is_watched_as_any() -> None:
    with FakeTensorMode() as mode:
        model, x = nn.Linear(8, 16), torch.empty(2, 8)
    with mode, shapetrace.attach(model) as tap:
        y = model(x)
    record = tap.find(y)
    assert record is not None
    assert record.shape == (2, 16)


def test_torch_does_not_write_what_it_raises_beside_raising_it(caplog: pytest.LogCaptureFixture) -> None:
    with FakeTensorMode() as mode:
        model, x = nn.Linear(8, 16), torch.empty(2, 9)
    with pytest.raises(RuntimeError, match="must have same reduction dim"):
        shapetrace.trace(model, x)
    assert caplog.records == []
    with mode, pytest.raises(RuntimeError):
        model(x)
    assert len(caplog.records) == 1


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="torch multiplies experts in one call since 2.8")
def test_experts_of_any_float_are_multiplied() -> None:
    with Weightless():
        found = torch._grouped_mm(torch.zeros(6, 16), torch.zeros(2, 16, 32), offs=torch.tensor([2, 6]).int())
    assert (found.shape, found.dtype) == ((6, 32), torch.float32)


def test_what_is_large_is_fake_even_of_integers() -> None:
    with Weightless():
        assert isinstance(torch.zeros(1 << 40, dtype=torch.int64), FakeTensor)
        long = torch.arange(1 << 16)
        assert not isinstance(long, FakeTensor)
        assert isinstance(long[:, None] >= long, FakeTensor)


def test_the_mode_of_a_model_is_that_of_its_weights() -> None:
    assert mode_of(nn.Linear(2, 2)) is None
    assert isinstance(mode_of(weightless()), Weightless)


class Placed(nn.Module):
    """Adds a table of positions to one of ids."""

    def __init__(self, look: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.look = look
        self.token, self.places = nn.Embedding(11, 8), nn.Embedding(4, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.token(ids) + self.look(self.places.weight, ids)


LOOKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "embedding": lambda table, ids: nn.functional.embedding(torch.arange(ids.shape[1]).unsqueeze(0), table),
    "counted": lambda table, ids: nn.functional.embedding(torch.ones_like(ids).cumsum(1) - 1, table),
    "indexed": lambda table, ids: table[torch.arange(ids.shape[1])],
    "chosen": lambda table, ids: table.index_select(0, torch.arange(ids.shape[1])),
    "taken along": lambda table, ids: table.gather(0, torch.arange(ids.shape[1])[:, None].expand(-1, 8)),
    "bags": lambda table, ids: nn.functional.embedding_bag(torch.arange(ids.shape[1]).expand_as(ids), table)[:, None],
    "from the end": lambda table, ids: table[-1 - torch.arange(ids.shape[1])],
}
"""Ways to look rows up."""


@pytest.mark.parametrize("name", LOOKS)
def test_a_row_that_no_table_has_is_met_without_weights_as_with_them(name: str) -> None:
    def outcome(mode: Weightless | None, length: int) -> str:
        with building(mode):
            model = Placed(LOOKS[name])
        try:
            return str(shapetrace.trace(model, torch.ones(2, length, dtype=torch.long)).calls[0].outputs[""].shape)
        except (IndexError, RuntimeError) as error:
            return f"{type(error).__name__}: {str(error).partition(' in self')[0].partition(' out')[0]}"

    assert outcome(None, 4) == outcome(Weightless(), 4) == "(2, 4, 8)"
    assert "Error: " in outcome(None, 5)
    assert outcome(Weightless(), 5) == outcome(None, 5)


def test_an_id_that_no_table_has_is_met_without_weights() -> None:
    with building(Weightless()):
        model = nn.Sequential(nn.Embedding(11, 8))
    with pytest.raises(IndexError, match="index out of range in self"):
        shapetrace.trace(model, IDS * 5)


def test_a_mask_that_is_known_picks_as_many_as_it_says() -> None:
    with building(Weightless()):
        model = nn.Embedding(11, 8)
    with within(model):
        x = model(IDS)
        assert x[IDS > 2].shape == (4, 8)
        assert x[:, IDS[0] > 2].shape == (2, 1, 8)
        assert torch.zeros_like(x).index_put((IDS > 2,), x[IDS > 2]).shape == x.shape
        with pytest.raises(IndexError, match="shape of the mask"):
            x[IDS.mT > 2]


def test_a_forward_that_fails_at_once_has_the_dtype_and_device_of_its_model() -> None:
    class Fails(Looks):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return ids.view(7)

    with Weightless():
        model = Fails().half()
    with pytest.raises(RuntimeError) as caught:
        shapetrace.trace(model, IDS)
    trace = shapetrace.trace_of(caught.value)
    assert trace is not None
    assert (trace.dtype, trace.device, trace.weightless) == ("float16", "cpu", True)


def test_what_is_compiled_runs_as_it_was_written() -> None:
    """It would read memory that is not there."""
    compiled: list[object] = []

    def backend(graph: Any, _: object) -> Any:
        compiled.append(graph)
        return graph.forward

    class Compiles(Looks):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.compile(torch.relu, backend=backend)(self.table(ids))

    with Weightless():
        model = Compiles()
    with within(model):
        assert model(IDS).shape == (2, 3, 8)
    assert shapetrace.trace(model, IDS).calls[0].outputs[""].shape == (2, 3, 8)
    assert compiled == []
