"""A tensor is looked up by the path of its module and by its name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace import Call, LookupFailed, TensorMeta, Trace
from shapetrace.records import records


class Attention(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = x @ x.transpose(-2, -1)
        scores = scores / 2
        weights = scores.softmax(-1)
        return weights @ x, weights


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.attention = Attention()

    def forward(self, x: Tensor) -> Tensor:
        out = self.attention(self.norm(x))
        return x + out[0]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x.mean()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return shapetrace.trace(Net(), torch.zeros(2, 3, 4))


def shapes(trace: Trace, path: str) -> dict[str, tuple[int, ...]]:
    return {name: record.shape for name, record in trace[path].items()}


def test_a_module_has_what_it_was_given_what_it_assigned_and_what_it_returned(trace: Trace) -> None:
    assert shapes(trace, "blocks.0.attention") == {
        "x": (2, 3, 4),
        "scores": (2, 3, 3),
        "weights": (2, 3, 3),
        "output[0]": (2, 3, 4),
        "output[1]": (2, 3, 3),
    }


def test_what_a_submodule_returns_is_a_part_of_its_variable_or_has_the_name_of_the_submodule(trace: Trace) -> None:
    assert shapes(trace, "blocks.0") == {
        "x": (2, 3, 4),
        "norm": (2, 3, 4),
        "out[0]": (2, 3, 4),
        "out[1]": (2, 3, 3),
        "output": (2, 3, 4),
    }


def test_the_path_of_the_model_is_empty(trace: Trace) -> None:
    assert shapes(trace, "") == {"x": (2, 3, 4), "output": ()}


def test_a_name_that_is_assigned_again_has_the_last(trace: Trace) -> None:
    assert trace["blocks.0.attention"]["scores"].call.name == "div"  # after the matmul
    assert trace[""]["x"].call.path == "blocks.1"


def test_a_record_says_what_its_tensor_is(trace: Trace) -> None:
    weights = trace["blocks.1.attention"]["weights"]
    assert (weights.shape, weights.stride, weights.dtype, weights.device, weights.is_contiguous) == (
        (2, 3, 3),
        (9, 3, 1),
        "float32",
        "cpu",
        True,
    )
    assert repr(weights) == "<blocks.1.attention.weights [B, T, T] (2, 3, 3) float32, stride (9, 3, 1)>"
    assert repr(trace[""]["output"]) == "<output () float32, stride ()>"


def test_a_record_knows_whether_its_module_was_given_it_or_made_it(trace: Trace) -> None:
    scope = trace["blocks.0.attention"]
    assert [name for name, record in scope.items() if record.is_input] == ["x"]


# --- a module that runs more than once, or under several names --------------------------------------------------------


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        first = self.inner(x[:1])
        return self.inner(x) + first


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * 2


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Around(nn.Linear(4, 4))
        self.decoder = Around(self.encoder.inner)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


def test_a_module_that_runs_twice_has_what_it_had_last() -> None:
    trace = shapetrace.trace(Twice(), torch.zeros(3, 4))
    assert shapes(trace, "inner") == {"input": (3, 4), "output": (3, 4)}
    assert shapes(trace, "") == {"x": (3, 4), "first": (1, 4), "inner": (3, 4), "output": (3, 4)}


def test_a_shared_module_is_found_under_each_of_its_paths() -> None:
    trace = shapetrace.trace(Shared(), torch.zeros(3, 4))
    assert list(trace["encoder"]) == list(trace["decoder"]) == ["x", "inner", "output"]
    assert trace["encoder.inner"]["output"] == trace["encoder"]["inner"]
    assert trace["decoder.inner"]["output"] == trace["decoder"]["inner"]
    assert trace["encoder"]["inner"].tensor.number != trace["decoder"]["inner"].tensor.number


# --- traces that no model gives whole ---------------------------------------------------------------------------------


def made(number: int) -> dict[str, TensorMeta]:
    return {"": TensorMeta((2,), number=number)}


def test_a_trace_without_a_module_has_what_was_assigned_outside_of_all() -> None:
    calls = (
        Call("function", "", "cross_entropy", 0, {"": "loss"}, outputs=made(0)),
        Call("op", "", "aten.mean", 1, {"": "inside"}, outputs=made(1)),
    )
    assert {name: record.tensor.number for name, record in Trace("net", calls=calls)[""].items()} == {
        "inside": 1,
        "loss": 0,
    }


def test_a_trace_without_calls_has_no_tensors() -> None:
    assert list(records(Trace("net"))) == []
    assert dict(Trace("net")[""]) == {}


def test_records_come_in_the_order_of_the_code_and_a_result_after_what_ran_inside() -> None:
    calls = (
        Call("module", "", "Net", 0, inputs={"x": TensorMeta((2,), number=0)}, outputs=made(5)),
        Call("module", "a", "A", 1, inputs={"x": TensorMeta((2,), number=0)}, outputs=made(2)),
        Call("function", "a", "f", 2, outputs=made(1)),
        Call("op", "a", "aten.f", 3, outputs=made(1)),
        Call("function", "", "g", 1, outputs=made(3)),
        Call("function", "", "loss", 0, outputs=made(6)),
    )
    found = [(record.path, record.call.name, record.tensor.number) for record in records(Trace("net", calls=calls))]
    assert found == [
        ("", "Net", 0),
        ("a", "A", 0),
        ("a", "aten.f", 1),
        ("a", "f", 1),
        ("", "A", 2),
        ("", "g", 3),
        ("", "Net", 5),
        ("", "loss", 6),
    ]


def test_calls_can_be_nested_deeper_than_python_can_recurse() -> None:
    calls = tuple(Call("module", f"m{depth}", "M", depth, outputs=made(depth)) for depth in range(5_000))
    trace = Trace("net", calls=calls)
    assert [record.tensor.number for record in records(trace)] == list(reversed(range(5_000)))
    assert trace["m4999"]["output"].tensor.number == 4_999


def test_a_module_from_elsewhere_in_the_model_has_its_whole_path_for_a_name() -> None:
    calls = (
        Call("module", "decoder", "Decoder", 0),
        Call("module", "shared.embedding", "Embedding", 1, outputs=made(0)),
    )
    assert list(Trace("net", calls=calls)["decoder"]) == ["shared.embedding"]


# --- what is not there ------------------------------------------------------------------------------------------------


def refusal(look: Callable[[], Any]) -> str:
    with pytest.raises(LookupFailed) as error:
        look()
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "blocks.0.attn",
            "no module 'blocks.0.attn' ran in this trace: "
            "did you mean blocks.0.attention, blocks.1.attention, blocks.0.norm?",
        ),
        (
            "lm_head",
            "no module 'lm_head' ran in this trace: there is blocks.0, blocks.0.norm, blocks.0.attention, "
            "blocks.1, blocks.1.norm, blocks.1.attention",
        ),
        ("Attention", "no module 'Attention' ran in this trace: did you mean blocks.0.attention, blocks.1.attention?"),
        (
            0,
            "no module 0 ran in this trace: there is blocks.0, blocks.0.norm, blocks.0.attention, "
            "blocks.1, blocks.1.norm, blocks.1.attention",
        ),
    ],
)
def test_a_path_that_is_not_there_is_refused_with_what_is_near(trace: Trace, path: str, message: str) -> None:
    assert refusal(lambda: trace[path]) == message


def test_of_many_paths_the_first_are_named() -> None:
    calls = tuple(Call("module", f"layer_{index}", "Linear", 0) for index in range(12))
    assert refusal(lambda: Trace("net", calls=calls)["x"]) == (
        "no module 'x' ran in this trace: there is "
        "layer_0, layer_1, layer_2, layer_3, layer_4, layer_5, layer_6, layer_7 and 4 more"
    )


def test_where_no_submodule_ran_there_is_only_the_model() -> None:
    assert refusal(lambda: Trace("net")["blocks.0"]) == (
        "no module 'blocks.0' ran in this trace: there is only the model itself, \"\""
    )


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("blocks.0.attention", "weight", "'blocks.0.attention' has no tensor 'weight': did you mean weights?"),
        ("blocks.0.attention", "X", "'blocks.0.attention' has no tensor 'X': did you mean x?"),
        ("blocks.0", "out", "'blocks.0' has no tensor 'out': did you mean out[0], out[1], output?"),
        (
            "blocks.0",
            "weights",
            "'blocks.0' has no tensor 'weights': it is in 'blocks.0.attention', 'blocks.1.attention'",
        ),
        ("", "qkv", "the model has no tensor 'qkv': there is x, output"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_where_it_is_or_what_is_near(
    trace: Trace, path: str, name: str, message: str
) -> None:
    assert refusal(lambda: trace[path][name]) == message


def test_a_name_that_is_in_many_modules_is_said_to_be_in_the_first() -> None:
    calls = tuple(Call("function", f"layer_{index}", "f", 1, {"": "q"}, outputs=made(index)) for index in range(12))
    modules = (Call("module", call.path, "Linear", 0) for call in calls)
    trace = Trace("net", calls=tuple(call for pair in zip(modules, calls, strict=True) for call in pair))
    assert refusal(lambda: trace[""]["q"]) == (
        "the model has no tensor 'q': it is in 'layer_0', 'layer_1', 'layer_2' and 9 more"
    )


def test_where_there_are_no_tensors_that_is_said() -> None:
    assert refusal(lambda: Trace("net")[""]["q"]) == "the model has no tensor 'q': there is none"


def test_asking_whether_a_name_is_there_raises_nothing(trace: Trace) -> None:
    scope = trace["blocks.0.attention"]
    assert "weights" in scope
    assert "weight" not in scope
    assert scope.get("weight") is None


def test_a_role_that_no_tensor_has_is_of_none_and_one_that_is_no_role_is_refused(trace: Trace) -> None:
    assert trace.roles("logits") == []
    with pytest.raises(LookupFailed) as error:
        trace.roles("weight")
    assert str(error.value) == "there is no role 'weight': did you mean weights?"
