"""What a trace says of each call: names, shapes, strides, memory numbers, literals, structures."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import shapetrace
from shapetrace import Call, Trace
from shapetrace.capture.tensors import Known, TensorTable


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
        (lambda x: Pair(x, x), ["0", "1"]),
        (lambda x: {"a": {"b": x}, "a.b": x, 1: x, "1": x}, ["a.b", "'a.b'", "1", "'1'"]),
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
        "odd keys",
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


def test_a_tensor_that_takes_the_place_of_a_buffer_does_not_take_its_name() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(20):
                self.mean = self.mean * 0.9 + x.mean(0)
                x = x * 2
            return x

    found = shapetrace.trace(Mean(), torch.zeros(2, 4)).calls[1:]
    names = [tensor.name for call in found for tensor in (*call.inputs.values(), *call.outputs.values())]
    assert names.count("mean") == 1


def test_names_are_those_of_the_models_code_under_two_taps_and_under_modes_of_the_user() -> None:
    class Passing(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            wrong = func(*args, **(kwargs or {}))
            return wrong

    def forward(model: Any, x: Tensor) -> Tensor:
        a = x + 1
        with Passing():
            b = F.softmax(a, -1)
        c = model.act(b)
        return c

    model = Forward(forward, act=nn.ReLU())
    x = torch.zeros(2)
    with shapetrace.attach(model) as outer, shapetrace.attach(model) as inner:
        model(x)
    for tap in (outer, inner):
        named = [(call.name, call.variables) for call in tap.traces[0].calls if call.variables]
        assert named == [("add", {"": "a"}), ("softmax", {"": "b"}), ("ReLU", {"": "c"})]


def test_of_views_that_share_a_version_only_the_one_written_to_is_named() -> None:
    def forward(model: nn.Module, h: Tensor) -> Tensor:
        last = h[1]
        h[0] = last
        a, b = h.chunk(2)
        a.add_(b)
        return h

    found = calls(forward, torch.zeros(2, 3))
    put = next(call for call in found if call.name == "__setitem__")
    add = next(call for call in found if call.name == "add_")
    assert put.written == (put.inputs["0"].number,)
    assert add.written == (add.inputs["0"].number,)


@pytest.mark.parametrize("change", [lambda x: x[0].add_(1), lambda x: x.data.add_(1), lambda x: x.relu_()])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_a_module_that_writes_to_what_it_was_given_by_whatever_way_has_written_to_it(change: Any, context: Any) -> None:
    def inner(model: nn.Module, x: Tensor) -> Tensor:
        change(x)
        return x

    model = Forward(lambda m, x: m.inner(x), inner=Forward(inner))
    with context():
        trace = shapetrace.trace(model, torch.zeros(2, 2))
    part = next(call for call in trace.calls if call.path == "inner")
    assert part.written == (part.inputs["0"].number,)
    assert part.outputs[""].number == part.inputs["0"].number


def test_in_inference_mode_questions_write_nothing_and_inplace_and_out_do() -> None:
    def forward(model: nn.Module, x: Tensor, i: Tensor) -> Tensor:
        int(i)
        y = ~i
        F.relu(x, inplace=True)
        torch.add(x, 1, out=x)
        return x

    with torch.inference_mode():
        found = calls(forward, torch.zeros(2), torch.tensor(1))
    assert [(call.name, len(call.written)) for call in found] == [("__invert__", 0), ("relu", 1), ("add", 1)]


def test_an_aten_op_that_writes_says_so() -> None:
    trace = shapetrace.trace(Forward(lambda m, x: x.add_(1)), torch.zeros(2), ops=True)
    op = trace.calls[-1]
    assert (op.name, op.written) == ("aten.add_", (op.inputs["0"].number,))


def test_arguments_go_by_the_names_of_the_forward_that_runs() -> None:
    class Static(nn.Module):
        @staticmethod
        def forward(x: Tensor, mask: Tensor) -> Tensor:
            return x

    replaced = nn.ReLU()
    replaced.forward = lambda mask, x: x
    model = Forward(lambda m, a, b: m.static(a, b) + m.replaced(a, b), static=Static(), replaced=replaced)
    trace = shapetrace.trace(model, torch.zeros(1), torch.ones(1))
    assert [list(call.inputs) for call in trace.calls if call.path][:2] == [["x", "mask"], ["mask", "x"]]


def test_a_mapping_that_fails_when_it_is_looked_into_is_an_argument_like_any_other() -> None:
    class Fragile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("not now")

    assert shapetrace.trace(Forward(lambda m, x: None), Fragile(a=1)).calls[0].literals == {"0": "<Fragile>"}


def test_what_a_model_says_of_itself_may_fail() -> None:
    class Model(nn.Module):
        @property
        def config(self) -> Any:
            raise RuntimeError("none yet")

        @property
        def description(self) -> str:
            raise RuntimeError("none yet")

        def forward(self, x: Tensor) -> Tensor:
            return x

    trace = shapetrace.trace(Model(), torch.zeros(1))
    assert (trace.sizes, trace.description) == ({}, "")


def test_a_model_whose_class_replaces_call_gives_a_trace_that_says_nothing_was_seen() -> None:
    class Own(nn.Module):
        def __call__(self, x: Tensor) -> Tensor:
            return x

    trace = shapetrace.trace(Own(), torch.zeros(1), functions=False, axes=False)
    assert (trace.calls, trace.notes) == ((), ("nothing was seen: the model's class has a __call__ of its own",))


def test_what_is_given_in_a_list_may_be_gone_when_the_module_ends() -> None:
    def inner(model: nn.Module, parts: list[Tensor]) -> Tensor:
        x = parts.pop() + 1
        return x

    model = Forward(lambda m, x: m.inner([x + 1, x + 2]), inner=Forward(inner))
    trace = shapetrace.trace(model, torch.zeros(2))
    part = next(call for call in trace.calls if call.path == "inner")
    assert (list(part.inputs), part.written) == (["0[0]", "0[1]"], ())


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda m, x: F.dropout(x, 0.5, True, inplace=True), "0"),
        (lambda m, x: F.silu(x, inplace=True), "0"),
        (lambda m, x: torch.mul(torch.ones(2, 3), 2, out=x), "out"),
        (lambda m, x: F.embedding(torch.tensor([0]), x, max_norm=0.1), "1"),
        (lambda m, x: torch._foreach_add_([x], 1), "0[0]"),
    ],
    ids=["dropout", "silu", "out", "embedding", "foreach"],
)
def test_a_function_that_writes_is_seen_to_whatever_it_is_called(change: Any, key: str) -> None:
    found = next(call for call in calls(change, torch.ones(2, 3)) if call.written)
    assert found.written == (found.inputs[key].number,)


@pytest.mark.parametrize("change", [lambda y: y.resize_(5), lambda y: y.set_(torch.zeros(5))], ids=["resize_", "set_"])
def test_a_change_of_form_is_seen_by_the_next_function_also_if_torch_does_not_tell_of_it(change: Any) -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        y = x * 1
        change(y)  # set_ is a function that no mode is told of
        return y + 1

    *_, add = calls(forward, torch.zeros(2, 3))
    assert add.inputs["0"].shape == (5,)


def test_what_lies_where_something_lay_before_is_in_memory_of_its_own() -> None:
    table = TensorTable({})
    gone, moved, there, new = (torch.zeros(3) for _ in range(4))
    gone_at, moved_at, there_at = (tensor.untyped_storage()._cdata for tensor in (gone, moved, there))
    numbers = [table.describe(tensor).storage for tensor in (gone, moved, there)]
    view = table.describe(there[1:]).storage
    del gone
    moved.set_(torch.zeros(5))  # which lives on, elsewhere
    assert (numbers, view) == ([0, 1, 2], 2)
    assert [table.storage_at(address) for address in (gone_at, moved_at, there_at)] == [None, None, 2]
    assert [table.place(Known(new), address) for address in (gone_at, moved_at, there_at)] == [3, 4, 2]


def test_a_hook_that_changes_what_a_module_is_given_is_seen_also_if_it_is_set_while_watched() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with shapetrace.attach(model) as tap:
        model[0].register_forward_pre_hook(lambda module, args: (args[0][:1],))
        model(torch.zeros(3, 2))
    linear = next(call for call in tap.traces[0].calls if call.name == "Linear")
    assert linear.inputs["input"].shape == (1, 2)
