import msgspec
import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.models.gpt import gpt
from shapetrace.passes.fold import fold
from shapetrace.schema import Call, TensorMeta, Trace
from tests.work import lines_run


def runs(trace: Trace, path: str = "") -> list[str]:
    return [run.said(path) for run in fold(trace).values()]


def test_two_blocks_of_equal_form_are_a_run() -> None:
    model, args, kwargs = gpt(L=2)
    assert runs(shapetrace.trace(model, *args, **kwargs)) == ["blocks.1 is identical"]


def test_twelve_blocks_are_a_run_from_the_first_to_the_last() -> None:
    model, args, kwargs = gpt(L=12)
    assert runs(shapetrace.trace(model, *args, **kwargs)) == ["×12: blocks.0 … blocks.11 are identical"]


def test_paths_are_said_as_seen_from_the_module_around_them() -> None:
    model, args, kwargs = gpt(L=3)
    trace = shapetrace.trace(model, *args, **kwargs)
    assert runs(trace, "blocks") == ["×3: 0 … 2 are identical"]


def test_a_module_that_is_called_again_and_again_is_a_run_of_its_own() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                x = self.block(x)
            return x

    assert "called 3 times, each identical" in runs(shapetrace.trace(Shared(), torch.zeros(2, 4)))


class Blocks(nn.Module):
    """Calls its blocks one after the other."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Scaled(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return y * self.scale


class Residual(Scaled):
    """As Scaled, but for where the last product takes its input from."""

    def __init__(self, from_input: bool) -> None:
        super().__init__(2.0)
        self.from_input = from_input

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        return (x if self.from_input else y) * self.scale


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param((nn.Linear(4, 4), nn.Linear(4, 4, bias=False)), id="a parameter less"),
        pytest.param((nn.Linear(4, 4), nn.Identity()), id="another class"),
        pytest.param(
            (nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))), id="a module more"
        ),
        pytest.param((nn.Linear(4, 8), nn.Linear(8, 4)), id="other shapes"),
        pytest.param((Scaled(1.0), Scaled(2.0)), id="another literal"),
        pytest.param((Residual(False), Residual(True)), id="another way of the tensors"),
        pytest.param((nn.Dropout(0.5).eval(), nn.Dropout(0.5)), id="the same tensor or a new one"),
    ],
)
def test_what_differs_in_anything_is_no_run(blocks: tuple[nn.Module, ...]) -> None:
    assert runs(shapetrace.trace(Blocks(*blocks), torch.zeros(2, 4))) == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"axes": ("B", "T")}, id="other axes"),
        pytest.param({"axes": None}, id="no axes"),
        pytest.param({"role": "k"}, id="another role"),
    ],
)
@pytest.mark.parametrize("place", ["inputs", "outputs", "unmade"])
def test_blocks_whose_axes_or_roles_differ_are_no_run(changes: dict[str, object], place: str) -> None:
    tensor = TensorMeta((2, 4), (4, 1), axes=("B", "C"), role="q")
    other = msgspec.structs.replace(tensor, **changes)
    assert len(fold(blocks(Call("function", "", "mul", 2, **{place: {"x": tensor}})))) == 1
    assert fold(blocks(*(Call("function", "", "mul", 2, **{place: {"x": t}}) for t in (tensor, other)))) == {}


class Keeps(nn.Module):
    """Has a place of its own in a state."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, state: Tensor) -> Tensor:
        state[:, self.place] = state[:, self.place] + 1
        return state


def test_blocks_with_places_of_their_own_in_a_state_are_a_run() -> None:
    trace = shapetrace.trace(Blocks(Keeps(0), Keeps(1), Keeps(2)), torch.zeros(2, 4))
    assert runs(trace) == ["×3: blocks.0 … blocks.2 are identical"]


def test_blocks_that_do_something_else_are_no_run() -> None:
    calls = [
        Call("module", f"blocks.{layer}", "Block", 1, role=role) for layer, role in enumerate(["pre-LN block", None])
    ]
    assert fold(Trace("m", calls=(Call("module", "", "M", 0), *calls))) == {}


def blocks(*inside: Call) -> Trace:
    """As many blocks as calls, each with one of them inside; two with the same call if there is one."""
    calls = inside * 2 if len(inside) == 1 else inside
    modules = [Call("module", f"blocks.{layer}", "Block", 1) for layer in range(len(calls))]
    paired = [call for pair in zip(modules, calls, strict=True) for call in pair]
    return Trace("m", calls=(Call("module", "", "M", 0), *paired))


def test_a_run_ends_where_a_block_differs() -> None:
    blocks = Scaled(1.0), Scaled(1.0), Scaled(2.0), Scaled(2.0), Scaled(2.0), Scaled(1.0)
    assert runs(shapetrace.trace(Blocks(*blocks), torch.zeros(2, 4))) == [
        "blocks.1 is identical",
        "×3: blocks.2 … blocks.4 are identical",
    ]


def test_siblings_of_other_names_are_no_run_though_their_form_is_equal() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w_q, self.w_k = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.w_q(x) + self.w_k(x)

    assert runs(shapetrace.trace(Pair(), torch.zeros(2, 4))) == []


def test_a_run_may_lie_within_a_run() -> None:
    blocks = [Blocks(Scaled(1.0), Scaled(1.0)) for _ in range(3)]
    trace = shapetrace.trace(Blocks(*blocks), torch.zeros(2, 4))
    assert runs(trace) == [
        "×3: blocks.0 … blocks.2 are identical",
        "blocks.0.blocks.1 is identical",
        "blocks.1.blocks.1 is identical",
        "blocks.2.blocks.1 is identical",
    ]


def test_a_portable_trace_folds_too() -> None:
    model, args, kwargs = gpt(L=4)
    assert runs(shapetrace.trace(model, *args, **kwargs).portable()) == ["×4: blocks.0 … blocks.3 are identical"]


def test_the_work_grows_with_the_calls_and_not_faster() -> None:
    def work(layers: int) -> int:
        tensor = TensorMeta((2, 4), (4, 1), number=0, storage=0)
        inside = [Call("function", "", "mul", 2, inputs={"0": tensor}, outputs={"": tensor})] * 9
        calls = [call for layer in range(layers) for call in (Call("module", f"blocks.{layer}", "Block", 1), *inside)]
        trace = Trace("blocks", calls=(Call("module", "", "Blocks", 0), *calls))
        assert len(fold(trace)) == 1
        return lines_run(lambda: fold(trace))

    assert work(400) < 12 * work(40)  # 10 times the calls
