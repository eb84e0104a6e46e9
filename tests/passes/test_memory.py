from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shapetrace
from shapetrace.models.attention import MultiHeadAttention
from shapetrace.passes.memory import Account, layout, memory, nbytes
from shapetrace.schema import TensorMeta, Trace

Function = Callable[[Tensor], object]


class Runs(nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Function, **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def accounts(trace: Trace) -> dict[str, str]:
    """Each variable with what its statement accounts for; of one that is assigned again, the last."""
    return {
        call.variable(key) or "": str(account.statements[key])
        for call, account in zip(trace.calls, memory(trace), strict=True)
        for key in call.outputs
        if call.variable(key) is not None and key in account.statements
    }


def statements(function: Function, *, shape: tuple[int, ...] = (4, 4), **modules: nn.Module) -> dict[str, str]:
    return accounts(shapetrace.trace(Runs(function, **modules), torch.zeros(shape)))


def steps(function: Function, *, shape: tuple[int, ...] = (4, 4), ops: bool = False) -> list[tuple[str, str]]:
    """The name of each call with what it alone accounts for."""
    trace = shapetrace.trace(Runs(function), torch.zeros(shape), ops=ops)
    pairs = list(zip(trace.calls, memory(trace), strict=True))[1:]
    return [(call.name, str(step)) for call, account in pairs for step in account.steps.values()]


# New, view, copy


def test_what_is_computed_is_new() -> None:
    def forward(x: Tensor) -> None:
        y = x * 2

    assert statements(forward) == {"y": "new"}


def test_a_view_names_the_tensor_that_owns_the_memory_and_not_the_views_between() -> None:
    def forward(x: Tensor) -> None:
        base = x * 2
        flat = base.view(16)
        half = flat[8:]
        both = half.view(2, 4).transpose(0, 1)

    assert statements(forward) == {
        "base": "new",
        "flat": "view of base",
        "half": "view of base",
        "both": "view of base",
    }


def test_a_view_of_an_argument_names_the_argument() -> None:
    def forward(x: Tensor) -> None:
        row = x[0]

    assert statements(forward) == {"row": "view of x"}


def test_several_results_of_one_call_are_views_each() -> None:
    def forward(x: Tensor) -> None:
        qkv = x * 2
        q, k = qkv.split(2, dim=-1)
        q = q.view(4, 2, 1).transpose(0, 1)

    assert statements(forward) == {"qkv": "new", "q": "view of qkv", "k": "view of qkv"}


def test_reshape_is_a_view_where_it_can_and_a_copy_where_it_must() -> None:
    def forward(x: Tensor) -> None:
        view = x.reshape(16)
        copy = x.t().reshape(16)

    # 16 elements of 4 bytes
    assert statements(forward) == {"view": "view of x", "copy": "copy of x.t(), 64 B: x.t() was not contiguous"}


def test_contiguous_with_nothing_to_do_is_the_same_tensor() -> None:
    def forward(x: Tensor) -> None:
        y = x.contiguous()

    assert statements(forward) == {"y": "same as x"}


def test_dropout_is_the_same_tensor_in_eval_and_new_in_training() -> None:
    def forward(x: Tensor) -> None:
        kept = F.dropout(x, 0.5, training=False)
        dropped = F.dropout(x, 0.5, training=True)

    assert statements(forward) == {"kept": "same as x", "dropped": "new"}


def test_a_conversion_says_from_what_to_what() -> None:
    def forward(x: Tensor) -> None:
        half = x.half()
        integers = x.to(torch.int64)
        floats = x.to(torch.float32)

    assert statements(forward) == {
        "half": "copy of x, 32 B: float32 → float16",
        "integers": "copy of x, 128 B: float32 → int64",
        "floats": "same as x",
    }


def test_clone_repeat_and_cat_copy_for_no_reason_of_the_layout() -> None:
    def forward(x: Tensor) -> None:
        clone = x.t().clone()
        repeated = x.repeat(2, 1)
        joined = torch.cat([x.t(), x])

    assert statements(forward) == {
        "clone": "copy of x.t(), 64 B",
        "repeated": "copy of x, 128 B",
        "joined": "copy of x.t() and x, 128 B",
    }


def test_what_was_there_before_the_forward_is_a_view_of_nothing_that_has_a_name() -> None:
    table = torch.zeros(4, 4)

    def forward(x: Tensor) -> None:
        row = table[0]

    assert statements(forward) == {"row": "view of a tensor made before"}


def test_a_parameter_goes_by_its_dotted_name_as_seen_from_the_module_that_runs() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    inner = Runs(lambda x: None)
    inner.weight = nn.Parameter(torch.zeros(4, 4))

    def within(x: Tensor) -> Tensor:
        row = inner.weight[0]
        return row

    inner.function = within

    def forward(x: Tensor) -> None:
        made = inner(x)
        first = model[0].weight[0]

    assert statements(forward, inner=inner, model=model) == {
        "row": "view of weight",
        "made": "view of inner.weight",
        "first": "view of model.0.weight",
    }


# In place


def test_a_tensor_that_is_changed_and_given_back_is_written_in_place() -> None:
    def forward(x: Tensor) -> None:
        y = x * 2
        y += 1
        z = y.relu_()

    assert statements(forward) == {"y": "in place on y", "z": "in place on y"}


def test_what_a_module_changed_is_written_in_place() -> None:
    relu = nn.ReLU(inplace=True)

    def forward(x: Tensor) -> None:
        y = x * 2
        z = relu(y)

    assert statements(forward, relu=relu) == {"y": "new", "z": "in place on y"}


def test_an_assignment_to_elements_is_written_on_its_tensor() -> None:
    def forward(x: Tensor) -> None:
        y = x * 2
        y[0] = 1

    trace = shapetrace.trace(Runs(forward), torch.zeros(4, 4))
    assert [str(written) for written in memory(trace)[-1].written.values()] == ["in place on y"]


def test_a_view_after_a_change_in_place_is_a_view_still() -> None:
    def forward(x: Tensor) -> None:
        y = x * 2
        y.add_(1)
        z = y.view(16)

    assert statements(forward)["z"] == "view of y"


# Statements and their hidden steps


def test_the_copy_in_the_middle_of_a_statement_is_what_its_variable_costs() -> None:
    def forward(head_output: Tensor) -> Tensor:
        concat = head_output.transpose(1, 2).contiguous().view(2, 4, 8)
        return concat

    # 2 · 4 · 8 elements of 4 bytes
    copied = "copy of x.transpose(1, 2), 256 B: x.transpose(1, 2) was not contiguous"
    assert statements(forward, shape=(2, 2, 4, 4)) == {"concat": copied}
    assert steps(forward, shape=(2, 2, 4, 4)) == [
        ("transpose", "view of x"),
        ("contiguous", copied),
        ("view", "view of x.transpose(1, 2).contiguous()"),
    ]


def test_what_is_computed_and_turned_in_one_statement_is_new() -> None:
    def forward(x: Tensor) -> None:
        y = (x @ x).transpose(0, 1)
        z = (x * 2).to(torch.float32)

    assert statements(forward) == {"y": "new", "z": "new"}


def test_a_view_of_what_a_module_returned_unnamed_is_a_view_of_that() -> None:
    w_q = nn.Linear(4, 4)

    def forward(x: Tensor) -> None:
        q = w_q(x).view(4, 2, 2)

    assert statements(forward, w_q=w_q) == {"q": "view of w_q(x)"}


def test_a_step_of_an_earlier_statement_is_not_this_ones() -> None:
    kept = []

    def forward(x: Tensor) -> None:
        kept.append(x.clone())
        y = x * 2
        z = kept[0].view(16)

    assert statements(forward) == {"y": "new", "z": "view of x.clone()"}


def test_the_function_whose_doing_it_is_is_named() -> None:
    def forward(x: Tensor) -> None:
        y = x.t().reshape(16).contiguous()

    trace = shapetrace.trace(Runs(forward), torch.zeros(4, 4))
    assert memory(trace)[-1].statements[""].by == "reshape"  # contiguous had nothing to do


# Modules


def test_a_module_is_accounted_for_as_its_caller_sees_it() -> None:
    flatten, linear, drop = nn.Flatten(), nn.Linear(4, 4), nn.Dropout(0.5).eval()

    def forward(x: Tensor) -> None:
        y = linear(x)
        viewed = flatten(x.view(2, 2, 4))
        copied = flatten(x.view(2, 2, 4).transpose(1, 2))
        same = drop(x)

    assert statements(forward, flatten=flatten, linear=linear, drop=drop) == {
        "y": "new",
        "viewed": "view of x",
        "copied": "copy of x.view(2, 2, 4).transpose(1, 2), 64 B: x.view(2, 2, 4).transpose(1, 2) was not contiguous",
        "same": "same as x",
    }


def test_inputs_of_a_module_are_what_its_caller_calls_them() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
            return x

    inner = Inner()

    def forward(x: Tensor) -> object:
        normed = x * 2
        return inner(normed, x + normed, x)

    trace = shapetrace.trace(Runs(forward, inner=inner), torch.zeros(4, 4))
    account = next(a for call, a in zip(trace.calls, memory(trace), strict=True) if call.name == "Inner")
    assert {key: str(given) for key, given in account.inputs.items()} == {
        "x": "input = normed",
        "y": "input = x + normed",
        "z": "input = x",
    }


def test_without_function_calls_nothing_is_said_of_what_a_module_made() -> None:
    trace = shapetrace.trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout().eval()), torch.zeros(4, 4), functions=False)
    said = [str(account.statements.get("")) for account in memory(trace)]
    assert said == ["same as 0(input)", "None", "same as 0(input)"]  # the Linear may have made or found its result


@pytest.mark.filterwarnings("ignore:Guards may run slower")  # torch's, on Python 3.13.0
def test_a_compiled_module_may_have_made_or_found_its_result() -> None:
    compiled = torch.compile(nn.Linear(4, 4), backend="eager")

    def forward(x: Tensor) -> None:
        y = compiled(x)

    assert statements(forward, compiled=compiled) == {}


def test_attention_of_the_reference_models_pays_for_one_copy() -> None:
    trace = shapetrace.trace(MultiHeadAttention(8, 2, qkv="fused"), torch.zeros(2, 4, 8))
    assert accounts(trace) == {
        "qkv": "new",
        "q": "view of qkv",
        "k": "view of qkv",
        "v": "view of qkv",
        "scores": "new",
        "weights": "new",
        "head_output": "new",
        "concat": "copy of head_output.transpose(1, 2), 256 B: head_output.transpose(1, 2) was not contiguous",
        "out": "new",
    }


# Ops


def test_with_ops_the_copy_hidden_in_a_product_comes_to_light() -> None:
    def forward(x: Tensor) -> None:
        q = x.transpose(1, 2)
        scores = q @ x.transpose(-2, -1)

    def copies(ops: bool) -> list[str]:
        return [step for _, step in steps(forward, shape=(2, 3, 3, 4), ops=ops) if step.startswith("copy")]

    assert copies(ops=False) == []
    assert copies(ops=True) == [  # 2 · 3 · 3 · 4 · 4 bytes
        "copy of q.expand([2, 3, 3, 4]), 288 B: q.expand([2, 3, 3, 4]) was not contiguous"
    ]


# What cannot be known


def test_a_portable_trace_says_nothing_of_memory() -> None:
    trace = shapetrace.trace(MultiHeadAttention(8, 2, qkv="fused"), torch.zeros(2, 4, 8)).portable()
    assert accounts(trace) == {}
    assert all(not account.steps and not account.written for account in memory(trace))


def test_a_sparse_tensor_has_no_storage_to_account_for() -> None:
    def forward(x: Tensor) -> None:
        y = x.to_sparse()

    assert statements(forward) == {}


def test_an_empty_trace_has_no_accounts() -> None:
    assert memory(Trace("nothing")) == []


def test_a_call_without_tensors_has_an_empty_account() -> None:
    trace = shapetrace.trace(Runs(lambda x: None), torch.zeros(1))
    assert memory(trace) == [Account(inputs=memory(trace)[0].inputs)]


# Layout and bytes


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (TensorMeta((2, 3), (3, 1)), ""),
        (TensorMeta((3, 2), (1, 3), is_contiguous=False), "not contiguous"),
        (TensorMeta((2, 3), (0, 1), is_contiguous=False), "broadcast (stride 0)"),
        (TensorMeta((1, 3), (0, 1)), ""),  # one element is not repeated
        (TensorMeta((2, 3), None, layout="sparse_coo"), "sparse_coo"),
        (TensorMeta((2, 3)), ""),
    ],
)
def test_layout_says_what_is_unusual(tensor: TensorMeta, said: str) -> None:
    assert layout(tensor) == said


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (256, "256 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1536, "1.54 kB"),
        (999_600, "1 MB"),
        (2**40, "1.1 TB"),
    ],
)
def test_bytes_are_written_with_three_digits(count: int, text: str) -> None:
    assert nbytes(count) == text


def test_what_a_forward_returns_without_a_name_is_accounted_for_as_its_own_statements_do() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            h = self.inner(x)
            return h.mT, self.inner(h).transpose(0, 1), h.relu_(), x, h.mT.contiguous()

    trace = shapetrace.trace(Turned(), torch.zeros(2, 3, 4), axes=False)
    inside = memory(trace)[0].inside
    assert {key: made.said for key, made in inside.items()} == {
        "0": "view of h",
        "1": "view of inner(h)",
        "2": "in place on h",
        "3": "same as x",
        "4": "copy of h.mT, 96 B",
    }


def test_a_portable_trace_tells_no_memory_even_of_what_is_handed_back() -> None:
    class Back(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x.transpose(0, 1)

    trace = shapetrace.trace(nn.Sequential(Back()), torch.zeros(2, 4), axes=False).portable()
    assert [account for account in memory(trace) if account.inside or account.returned] == []
