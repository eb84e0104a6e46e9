"""What a trace says of each call: names, shapes, strides, memory numbers, literals, structures."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Call, Trace


class Forward(nn.Module):
    """A model whose forward is a function."""

    def __init__(self, function: Any, **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def calls(function: Any, *args: Any, **kwargs: Any) -> list[Call]:
    """The calls inside a model that is `function`."""
    return list(shapetrace.trace(Forward(function), *args, **kwargs).calls[1:])


def only(function: Any, *args: Any) -> Call:
    (call,) = calls(function, *args)
    return call


def test_a_head_split_is_two_views_of_one_storage_with_other_strides() -> None:
    def split(model: nn.Module, x: Tensor) -> Tensor:
        q = x.view(2, 4, 2, 4).transpose(1, 2)
        return q

    view, transpose = calls(split, torch.zeros(2, 4, 8))
    assert (view.name, view.outputs[""].shape, view.outputs[""].stride) == ("view", (2, 4, 2, 4), (32, 8, 4, 1))
    q = transpose.outputs[""]
    assert (transpose.name, q.shape, q.stride, q.is_contiguous) == ("transpose", (2, 2, 4, 4), (32, 4, 8, 1), False)
    assert transpose.variables == {"": "q"}
    assert view.inputs["0"].storage == view.outputs[""].storage == q.storage
    assert len({view.inputs["0"].number, view.outputs[""].number, q.number}) == 3
    assert (view.literals, transpose.literals) == ({"1": "2", "2": "4", "3": "2", "4": "4"}, {"1": "1", "2": "2"})


def test_contiguous_of_a_transposed_tensor_is_new_memory_and_of_a_contiguous_one_the_same_tensor() -> None:
    def twice(model: nn.Module, x: Tensor) -> Tensor:
        a = x.transpose(0, 1).contiguous()
        b = a.contiguous()
        return b

    _, copy, nothing = calls(twice, torch.zeros(2, 3))
    assert copy.outputs[""].storage != copy.inputs["0"].storage
    assert nothing.outputs[""].number == nothing.inputs["0"].number


def test_dropout_in_eval_returns_its_input_and_writes_nothing() -> None:
    call = only(lambda m, x: F.dropout(x, 0.5, training=False), torch.zeros(3))
    assert call.outputs[""].number == call.inputs["0"].number
    assert call.written == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda m, x: x.add_(1),
        lambda m, x: F.relu(x, inplace=True),
        lambda m, x: x.__setitem__(0, 1.0),
        lambda m, x: torch.add(x, 1, out=x),
        lambda m, x: x.t_(),
        lambda m, x: x.copy_(torch.ones(2, 2)),
    ],
    ids=["add_", "relu inplace", "setitem", "out", "t_", "copy_"],
)
def test_what_is_changed_in_place_is_named(change: Any) -> None:
    found = calls(change, torch.zeros(2, 2))[-1]
    changed = next(iter(found.inputs.values()))
    assert found.written == (changed.number,)
    assert all(tensor.number == changed.number for tensor in found.outputs.values())


def test_an_in_place_change_is_seen_in_inference_mode_too() -> None:
    with torch.inference_mode():
        call = only(lambda m, x: x.mul_(2), torch.zeros(2))
        other = only(lambda m, x: x.mul(2), torch.zeros(2))
    assert call.written == (call.inputs["0"].number,)
    assert other.written == ()


def test_a_change_of_form_in_place_is_seen_by_the_next_call() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        x.t_()
        x.data = torch.zeros(5)
        return x + 1

    transpose, *_, add = calls(forward, torch.zeros(2, 3))
    assert (transpose.inputs["0"].shape, transpose.outputs[""].shape) == ((2, 3), (3, 2))
    assert add.inputs["0"].shape == (5,)
    assert add.inputs["0"].number == transpose.inputs["0"].number


def test_operators_and_functions_written_in_python_are_placed_where_the_user_calls_them() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        a = 1 - x
        b = F.softmax(a, dim=-1)
        c, d = b.split(2)
        e = torch.einsum("ij,kj->ik", c, d)
        return e

    found = calls(forward, torch.zeros(4, 3))
    assert [(call.name, call.variables) for call in found] == [
        ("__rsub__", {"": "a"}),
        ("softmax", {"": "b"}),
        ("split", {"0": "c", "1": "d"}),
        ("einsum", {"": "e"}),
    ]
    first = forward.__code__.co_firstlineno
    assert [call.source for call in found] == [(__file__, first + line) for line in (1, 2, 3, 4)]


def test_a_result_takes_its_name_from_where_it_is_returned_to() -> None:
    def scores(q: Tensor, k: Tensor) -> tuple[Tensor, None]:
        return q @ k.T, None

    def attention(q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k)[0].softmax(-1)

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        weights = attention(x, x)
        return weights

    *_, matmul, softmax = calls(forward, torch.zeros(2, 2))
    assert matmul.variables == {}
    assert softmax.variables == {"": "weights"}


def test_a_module_is_named_by_the_variable_its_caller_assigns() -> None:
    def forward(model: Any, x: Tensor) -> Tensor:
        hidden = model.up(x)
        return model.down(hidden)

    trace = shapetrace.trace(Forward(forward, up=nn.Linear(2, 3), down=nn.Linear(3, 2)), torch.zeros(1, 2))
    up, down = (call for call in trace.calls if call.name == "Linear")
    assert (up.path, up.variables, up.source and up.source[0]) == ("up", {"": "hidden"}, __file__)
    assert (down.path, down.variables) == ("down", {})
    assert trace[""]["hidden"].shape == (1, 3)


def test_parameters_and_buffers_carry_their_dotted_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    trace = shapetrace.trace(model, torch.zeros(3, 2))
    linear = next(call for call in trace.calls if call.name == "linear")
    norm = next(call for call in trace.calls if call.name == "batch_norm")
    assert [tensor.name for tensor in linear.inputs.values()] == [None, "0.weight", "0.bias"]
    assert {tensor.name for tensor in norm.inputs.values()} == {
        None, "1.weight", "1.bias", "1.running_mean", "1.running_var",
    }  # fmt: skip


Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    logits: Tensor
    hidden: tuple[Tensor, ...]
    nothing: None = None


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        (lambda x: x, [""]),
        (lambda x: (x, None, x + 1), ["0", "2"]),
        (lambda x: [x, [x, (x,)]], ["0", "1[0]", "1[1][0]"]),
        (lambda x: {"a": x, "b": {"c": x}}, ["a", "b.c"]),
        (lambda x: {0: x}, ["0"]),
        (lambda x: OrderedDict(logits=x), ["logits"]),
        (lambda x: Pair(x, x), ["left", "right"]),
        (lambda x: Output(x, (x, x)), ["logits", "hidden[0]", "hidden[1]"]),
        (lambda x: None, []),
        (lambda x: "text", []),
        (lambda x: torch.Size([2]), []),
    ],
    ids=[
        "tensor",
        "tuple",
        "list",
        "dict",
        "int key",
        "ordered dict",
        "named tuple",
        "dataclass",
        "none",
        "str",
        "size",
    ],
)
def test_every_tensor_of_a_result_has_its_key(make: Any, keys: list[str]) -> None:
    trace = shapetrace.trace(Forward(lambda m, x: make(x)), torch.zeros(2))
    assert list(trace.calls[0].outputs) == keys


def test_every_tensor_of_the_arguments_has_its_key_and_the_rest_is_written_as_python_does() -> None:
    class Model(nn.Module):
        def forward(self, x: Any, cache: Any = None, *rest: Any, scale: float = 1.0, **more: Any) -> Any:
            return None

    x = torch.zeros(1)
    trace = shapetrace.trace(Model(), x, (x, [None, x]), x, 7, scale=0.5, mask={"m": x}, mode="sum", dtype=torch.int8)
    call = trace.calls[0]
    assert list(call.inputs) == ["x", "cache[0]", "cache[1][1]", "2", "mask.m"]
    assert call.literals == {
        "cache[1][0]": "None", "3": "7", "scale": "0.5", "mode": "'sum'", "dtype": "torch.int8",
    }  # fmt: skip


def test_an_object_that_is_no_number_text_or_container_is_written_by_its_class_and_never_asked_for_its_repr() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("asked")

    trace = shapetrace.trace(Forward(lambda m, x: x), Loud())
    assert trace.calls[0].literals == {"0": "<Loud>"}


def test_a_structure_that_holds_itself_and_a_list_of_a_million_numbers_come_to_an_end() -> None:
    loop: list[Any] = [torch.zeros(1)]
    loop.append(loop)
    call = shapetrace.trace(Forward(lambda m, a, b: None), loop, list(range(1_000_000))).calls[0]
    assert "0[0]" in call.inputs
    assert call.literals["1"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …]"


def test_slices_ellipsis_and_none_in_an_index_read_as_they_were_written() -> None:
    assert only(lambda m, x: x[:, None, ..., 1:3], torch.zeros(2, 4)).literals == {"1": "(:, None, ..., 1:3)"}


def test_a_factory_is_recorded_and_a_question_is_not() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        assert x.shape[0] == 2
        assert x.dim() == 1
        assert x.sum().item() == 0
        mask = torch.ones(x.size(0), device=x.device)
        return mask

    assert [call.name for call in calls(forward, torch.zeros(2))] == ["sum", "ones"]


def test_a_module_list_without_a_forward_shows_its_children_where_they_ran() -> None:
    def forward(model: Any, x: Tensor) -> Tensor:
        for layer in model.layers:
            x = layer(x)
        return x

    trace = shapetrace.trace(Forward(forward, layers=nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])), torch.zeros(1, 2))
    assert modules(trace) == [("", 0), ("layers.0", 1), ("layers.1", 1)]


def test_a_module_called_twice_is_two_calls_in_order() -> None:
    trace = shapetrace.trace(Forward(lambda m, x: m.a(m.b(m.a(x))), a=nn.ReLU(), b=nn.Tanh()), torch.zeros(2))
    assert modules(trace) == [("", 0), ("a", 1), ("b", 1), ("a", 1)]


def test_a_shared_module_goes_by_the_name_it_has_where_it_runs() -> None:
    shared = nn.Linear(2, 2)
    one, two = nn.Sequential(shared), nn.Sequential(shared)
    trace = shapetrace.trace(Forward(lambda m, x: m.two(m.one(x)), one=one, two=two), torch.zeros(1, 2))
    assert modules(trace) == [("", 0), ("one", 1), ("one.0", 2), ("two", 1), ("two.0", 2)]


def test_a_module_that_calls_itself_is_recorded_inside_itself() -> None:
    class Countdown(nn.Module):
        def forward(self, x: Tensor, left: int) -> Tensor:
            return x if left == 0 else self(x + 1, left - 1)

    assert modules(shapetrace.trace(Countdown(), torch.zeros(1), 2)) == [("", 0), ("", 1), ("", 2)]
    nested = Forward(lambda m, x: m.inner(x, 2), inner=Countdown())
    assert modules(shapetrace.trace(nested, torch.zeros(1))) == [("", 0), ("inner", 1), ("inner", 2), ("inner", 3)]


def test_a_module_that_holds_itself_is_traced() -> None:
    model = Forward(lambda m, x: m.layer(x), layer=nn.ReLU())
    model.layer.parent = model
    model.me = model
    assert modules(shapetrace.trace(model, torch.zeros(1))) == [("", 0), ("layer", 1)]


def test_a_second_trace_of_a_model_is_not_a_stale_first() -> None:
    model = nn.Linear(2, 2)
    assert shapetrace.trace(model, torch.zeros(1, 2)).calls[0].outputs[""].shape == (1, 2)
    assert shapetrace.trace(model, torch.zeros(5, 2)).calls[0].outputs[""].shape == (5, 2)


def test_the_attention_of_torch_is_opened() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.zeros(2, 4, 8)
    trace = shapetrace.trace(attention, x, x, x)
    opened = next(i for i, call in enumerate(trace.calls) if call.name == "multi_head_attention_forward")
    inside = [call.name for call in trace.calls[opened + 1 :] if call.depth == trace.calls[opened].depth + 1]
    assert "softmax" in inside
    assert "baddbmm" in inside or "bmm" in inside
    weights = next(call for call in trace.calls if call.name == "softmax").outputs[""]
    assert weights.shape == (4, 4, 4)  # (B·H, T, T)


def test_aten_ops_are_nested_under_the_function_that_ran_them() -> None:
    trace = shapetrace.trace(Forward(lambda m, x: F.softmax(x @ x, -1)), torch.zeros(2, 2), ops=True)
    assert [(call.kind, call.name, call.depth) for call in trace.calls[1:]] == [
        ("function", "matmul", 1),
        ("op", "aten.mm", 2),
        ("function", "softmax", 1),
        ("op", "aten._softmax", 2),
    ]


def test_with_module_boundaries_only_no_function_is_recorded() -> None:
    trace = shapetrace.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.zeros(1, 2), functions=False)
    assert [(call.kind, call.path) for call in trace.calls] == [("module", ""), ("module", "0"), ("module", "1")]


def test_the_header_says_what_ran() -> None:
    trace = shapetrace.trace(nn.Linear(2, 2).to(torch.bfloat16), torch.zeros(1, 2, dtype=torch.bfloat16))
    assert (trace.target, trace.model, trace.dtype, trace.device) == ("Linear", "Linear", "bfloat16", "cpu")
    assert trace.torch == torch.__version__


def modules(trace: Trace) -> list[tuple[str, int]]:
    return [(call.path, call.depth) for call in trace.calls if call.kind == "module"]
