"""What is this tensor? Asked of a live one, as in a debugger."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Record, ShapetraceError


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_q = nn.Linear(4, 4)
        self.w_k = nn.Linear(4, 4)
        self.w_v = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(()))
        self.kept: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        q = self.w_q(x)
        scores = q @ self.w_k(x).transpose(-2, -1) * self.scale
        weights = scores.softmax(-1)
        self.kept = {"q": q, "scores": scores, "weights": weights}
        return weights @ self.w_v(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.head = nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.attention(ids)
        hidden += 1
        self.hidden = hidden
        return self.head(hidden)


def place(record: Record | None) -> tuple[str, str, str] | None:
    return None if record is None else (record.path, record.name, record.call.name)


def test_a_live_tensor_is_told_by_the_call_that_made_it() -> None:
    model, x = Model(), torch.zeros(2, 5, 4)
    with shapetrace.attach(model) as tap:
        logits = model(x)
        loss = F.mse_loss(logits, torch.zeros(2, 5, 3))
        found = {name: place(tap.find(tensor)) for name, tensor in model.attention.kept.items()}
        assert found == {
            "q": ("attention", "q", "Linear"),
            "scores": ("attention", "scores", "mul"),
            "weights": ("attention", "weights", "softmax"),
        }
        assert place(tap.find(logits)) == ("", "head", "Linear")
        assert place(tap.find(loss)) == ("", "loss", "mse_loss")


def test_it_is_the_record_that_the_trace_has() -> None:
    model = Model().requires_grad_(False)  # a module that keeps what has a graph cannot be copied, nor run again
    x = torch.zeros(2, 5, 4)
    with shapetrace.attach(model) as tap:
        model(x)
        record = tap.find(model.attention.kept["scores"])
    assert record == tap.traces[0]["attention"]["scores"]
    assert (record.role, record.axes) == ("scores", ("B", "T", "T"))
    assert (record.shape, record.key, record.materialised, record.is_input) == ((2, 5, 5), "", True, False)


def test_one_that_was_written_in_place_is_told_by_what_made_it() -> None:
    model = Model()
    with shapetrace.attach(model) as tap:
        model(torch.zeros(2, 5, 4))
        assert place(tap.find(model.hidden)) == ("", "hidden", "Attention")


def test_what_no_call_made_is_an_input() -> None:
    model, x, table = Model(), torch.zeros(2, 5, 4), torch.zeros(3)
    with shapetrace.attach(model) as tap:
        model(x)
        table + 1
        found = [tap.find(tensor) for tensor in (x, model.head.weight, model.attention.scale, table)]
    assert [(place(record), record.key, record.is_input) for record in found if record is not None] == [
        (("", "ids", "Model"), "ids", True),
        (("head", "weight", "linear"), "1", True),  # of its own module, as the first function was given it
        (("attention", "scale", "mul"), "1", True),
        (("", "", "add"), "0", True),
    ]


def test_an_input_that_a_module_gives_back_is_still_the_input() -> None:
    class Same(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = F.dropout(x, training=False)
            return y

    x = torch.zeros(2)
    with shapetrace.attach(Same().eval()) as tap:
        tap._model(x)
        assert place(tap.find(x)) == ("", "x", "Same")


def test_what_was_not_seen_is_not_found() -> None:
    model = Model()
    with shapetrace.attach(model) as tap:
        logits = model(torch.zeros(2, 5, 4))
        assert tap.find(torch.zeros(2)) is not None  # made in the block
    outside = torch.zeros(2)
    view, alias = logits.view(30), logits.data
    assert [tap.find(tensor) for tensor in (outside, view, alias)] == [None, None, None]
    assert tap.find(logits) is not None


def test_a_view_that_was_taken_in_the_block_is_a_tensor_of_its_own() -> None:
    model = Model()
    with shapetrace.attach(model) as tap:
        logits = model(torch.zeros(2, 5, 4))
        flat = logits.view(30)
        assert place(tap.find(flat)) == ("", "flat", "view")


def test_another_tensor_at_the_same_place_is_not_taken_for_it() -> None:
    class Makes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.y = x * 2
            return x + 1

    model = Makes()
    with shapetrace.attach(model) as tap:
        model(torch.zeros(2))
    before = id(model.y)
    del model.y
    new = [torch.zeros(2) for _ in range(100)]
    reused = [tensor for tensor in new if id(tensor) == before]
    assert [tap.find(tensor) for tensor in reused or new] == [None] * len(reused or new)


def test_it_can_be_asked_in_the_middle_of_a_forward() -> None:
    model, found = Model(), []
    with shapetrace.attach(model) as tap:

        def stop(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            (hidden,) = args
            found.extend(map(tap.find, (hidden, model.attention.kept["q"], torch.Tensor.detach(hidden))))

        model.head.register_forward_pre_hook(stop)
        model(torch.zeros(2, 5, 4))
    assert [place(record) for record in found] == [
        ("", "hidden", "Attention"),
        ("attention", "q", "Linear"),
        ("", "", "detach"),  # what a pre-hook calls comes before its module
    ]


def test_one_that_has_no_version_or_no_storage_is_found_too_and_no_other_in_its_place() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sparse = x.to_sparse()
            frozen = x * 2  # in inference mode nothing counts what is written to it
            self.kept = sparse, frozen
            return frozen

    model = Odd()
    with shapetrace.attach(model) as tap, torch.inference_mode():
        model(torch.ones(2, 3))
        assert [place(tap.find(tensor)) for tensor in model.kept] == [
            ("", "sparse", "to_sparse"),
            ("", "frozen", "mul"),
        ]
    assert [place(tap.find(tensor)) for tensor in model.kept] == [("", "sparse", "to_sparse"), ("", "frozen", "mul")]
    before = {id(tensor) for tensor in model.kept}
    del model.kept
    new = [torch.zeros(2) for _ in range(100)]
    reused = [tensor for tensor in new if id(tensor) in before]
    assert [tap.find(tensor) for tensor in reused or new] == [None] * len(reused or new)


def test_to_look_for_what_was_not_seen_reads_no_trace_that_is_kept() -> None:
    model = Model()
    with shapetrace.attach(model) as tap:
        model(torch.zeros(2, 5, 4))
    assert tap.find(torch.zeros(2)) is None
    assert [type(kept.trace).__name__ for kept in tap._complete] == ["Unread"]


def test_it_can_be_asked_after_the_block_of_each_trace_that_is_kept() -> None:
    model = nn.Linear(4, 3)
    with shapetrace.attach(model, keep=2) as tap:
        results = [model(torch.zeros(size, 4)) for size in (1, 2, 3)]
    found = [tap.find(result) for result in results]
    assert found[0] is None
    assert [record.shape for record in found[1:] if record is not None] == [(2, 3), (3, 3)]
    newest = tap.find(model.weight)
    assert newest is not None
    assert newest.call in tap.traces[-1].calls


def test_it_works_without_a_block_and_from_within_a_callback() -> None:
    model, found = nn.Linear(4, 3), []
    results = []
    model.register_forward_hook(lambda module, args, result: results.append(result))
    tap = shapetrace.attach(model, on_trace=lambda trace: found.append(tap.find(results[-1])))
    model(torch.zeros(2, 4))
    tap.detach()
    assert [place(record) for record in found] == [("", "output", "Linear")]


def test_a_forward_that_raised_is_kept_too() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.y = x * 2
            return self.y.view(7)

    model = Fails()
    with pytest.raises(RuntimeError), shapetrace.attach(model) as tap:
        model(torch.zeros(2))
    assert place(tap.find(model.y)) == ("", "y", "mul")


def test_nothing_is_kept_alive_for_it() -> None:
    model = Model()
    with shapetrace.attach(model) as tap:
        model(torch.zeros(2, 5, 4))
        scores = weakref.ref(model.attention.kept["scores"])
        tap.find(model.attention.kept["scores"])
        model.attention.kept = {}
        gc.collect()
        assert scores() is None
    assert len(tap.traces) == 1


def test_only_a_tensor_can_be_asked_for() -> None:
    with shapetrace.attach(nn.Linear(1, 1)) as tap, pytest.raises(ShapetraceError) as error:
        tap.find([1])
    assert str(error.value) == "a tensor can be found, not list"


def test_without_functions_a_tensor_is_what_a_module_gave() -> None:
    model = Model()
    with shapetrace.attach(model, functions=False) as tap:
        logits = model(torch.zeros(2, 5, 4))
    assert place(tap.find(logits)) == ("", "head", "Linear")
    assert tap.find(model.attention.kept["scores"]) is None


def test_a_tensor_has_its_role_under_whichever_name_it_was_made() -> None:
    class Attends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            weights = (x @ x.transpose(1, 2)).softmax(-1)
            self.weights = dropped = nn.functional.dropout(weights, 0.1, training=False)
            return dropped @ x

    model = Attends()
    with shapetrace.attach(model) as tap:
        model(torch.zeros(2, 5, 4))
    found = tap.find(model.weights)
    assert found is not None
    assert (*place(found), found.role) == ("", "weights", "softmax", "weights")
