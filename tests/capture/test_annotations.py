# ruff: noqa: F722
"""Axes that an author has written down as annotations: their names are used, and checked against what runs."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

import shapetrace
from shapetrace.capture.annotations import annotated, fitting


class Net(nn.Module):
    def forward(
        self,
        x: Float[Tensor, "batch time 8"],
        y: Int[Tensor, " batch"] | None = None,
        z: Annotated[Tensor, "what else"] | None = None,
    ) -> Tensor:
        return x * 2 if y is None else x * y[:, None, None]


def first(trace: shapetrace.Trace) -> list[tuple[str | int, ...]]:
    """The axes of what the model was given, and of what it gave."""
    call = trace.calls[0]
    return [tensor.axes or tensor.shape for tensor in (*call.inputs.values(), *call.outputs.values())]


@pytest.mark.parametrize(
    ("annotation", "shape", "axes"),
    [
        (Float[Tensor, "B T C"], (2, 4, 8), ("B", "T", "C")),
        (Float[Tensor, "B T C"], (2, 4), (None, None)),
        (Float[Tensor, "B 3 T=4 #C _ T+1 _x"], (2, 3, 4, 8, 1, 5, 6), ("B", None, "T", "C", None, None, None)),
        (Float[Tensor, "B #T C"], (2, 1, 8), ("B", None, "C")),
        (Float[Tensor, "... T C"], (2, 3, 4, 8), (None, None, "T", "C")),
        (Float[Tensor, "B *rest C"], (2, 8), ("B", "C")),
        (Float[Tensor, "B *#rest C"], (2, 1, 8), ("B", None, "C")),
        (Float[Tensor, "B *rest C"], (2,), (None,)),
        (Float[Tensor, ""], (), ()),
        (Float[Tensor, "B T"] | None, (2, 4), ("B", "T")),
        (Annotated[Float[Tensor, "B T"], "ids"], (2, 4), ("B", "T")),
        (Float[Tensor, "B C"] | Float[Tensor, "B T C"], (2, 4, 8), ("B", "T", "C")),
        (Int[Tensor, "B T"] | Float[Tensor, "B C"], (2, 8), ("B", "C")),
    ],
)
def test_an_annotation_names_dims_of_the_rank_that_it_is_for(
    annotation: object, shape: tuple[int, ...], axes: tuple[str | None, ...]
) -> None:
    def forward(x: object) -> None: ...

    forward.__annotations__ = {"x": annotation}
    assert fitting(annotated(forward)["x"], shape, "float32")[0] == axes


def test_other_annotations_name_none_and_those_that_fail_neither() -> None:
    def forward(x: Tensor, y: int, z: "missing.name[" = 0) -> None: ...

    assert annotated(forward) == {}
    assert annotated(print) == {}
    assert annotated(3) == {}


def test_the_names_of_the_author_stand_on_every_tensor() -> None:
    assert first(shapetrace.trace(Net(), torch.zeros(2, 4, 8))) == [("batch", "time", 8)] * 2
    trace = shapetrace.trace(Net(), torch.zeros(2, 4, 8), torch.ones(2, dtype=torch.long))
    assert first(trace) == [("batch", "time", 8), ("batch",), ("batch", "time", 8)]
    assert (trace.sizes, trace.notes) == ({"batch": 2, "time": 4}, ())


class Speaking(nn.Module):
    """A model of two results, one of which may be left out."""

    def __init__(self, returned: object, *, single: bool = True) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

        def forward(ids: Tensor) -> Any:
            x = self.token(ids)
            return self.head(x) if single else (self.head(x), x)

        forward.__annotations__["return"] = returned
        self.forward = forward


IDS = torch.arange(12).view(3, 4)


def test_the_names_of_what_is_returned_are_used_as_those_of_what_is_given() -> None:
    trace = shapetrace.trace(Speaking(Float[Tensor, "batch time vocab"]), IDS)
    assert first(trace) == [("batch", "time"), ("batch", "time", "vocab")]
    assert [tensor.axes for tensor in trace.calls[-1].inputs.values()][1:] == [("vocab", "C"), ("vocab",)]
    assert (trace.sizes, trace.notes) == ({"batch": 3, "time": 4, "C": 8, "vocab": 20}, ())


def test_each_part_of_a_tuple_has_its_names() -> None:
    returned = tuple[Float[Tensor, "batch time vocab"], Float[Tensor, "batch time width"] | None]
    trace = shapetrace.trace(Speaking(returned, single=False), IDS)
    assert first(trace)[1:] == [("batch", "time", "vocab"), ("batch", "time", "width")]


@pytest.mark.parametrize(
    ("annotation", "note"),
    [
        (Int[Tensor, "B T V"], "return is declared as Int[Tensor, 'B T V'], but is float32[3, 4, 20]"),
        (Float[Tensor, "B T 8"], "return is declared as Float[Tensor, 'B T 8'], but is float32[3, 4, 20]"),
        (Float[Tensor, "B B V"], "return is declared with B=4, but B is 3 elsewhere"),
        (Float[Tensor, "B T C"], "return is declared with 'C' where another axis of the trace is 'C'"),
    ],
)
def test_what_is_returned_and_is_not_as_declared_is_said(annotation: object, note: str) -> None:
    trace = shapetrace.trace(Speaking(annotation), IDS)
    assert [said for said in trace.notes if "declared" in said][:1] == [f"axes: {note}"]


def test_what_runs_and_is_not_as_declared_is_said() -> None:
    trace = shapetrace.trace(Net(), torch.zeros(2, 4, 8), torch.ones(1, dtype=torch.long))
    assert "axes: y is declared with batch=1, but batch is 2 elsewhere" in trace.notes
    assert first(shapetrace.trace(Net(), torch.zeros(4, 8)))[0] == ("B", 8)


class Typed(nn.Module):
    """What it says of its inputs, one after the other."""

    def __init__(self, *annotations: object) -> None:
        super().__init__()

        def forward(x: Tensor, y: Tensor | None = None) -> Tensor:
            return x * 2

        forward.__annotations__ = dict(zip("xy", annotations, strict=False))
        self.forward = forward


X = torch.zeros(2, 4, 8)


@pytest.mark.parametrize(
    ("annotation", "x", "note"),
    [
        (Float[Tensor, "B T C"], X.long(), "Float[Tensor, 'B T C'], but is int64[2, 4, 8]"),
        (Float[Tensor, "B T C"], X[0], "Float[Tensor, 'B T C'], but is float32[4, 8]"),
        (Float[Tensor, "... T C D"], X[0], "Float[Tensor, '... T C D'], but is float32[4, 8]"),
        (Float[Tensor, "B 5 C"], X, "Float[Tensor, 'B 5 C'], but is float32[2, 4, 8]"),
        (Float[Tensor, "B T=5 C"], X, "Float[Tensor, 'B T=5 C'], but is float32[2, 4, 8]"),
        (
            Float[Tensor, "B C"] | Int[Tensor, "B T"],
            X,
            "Float[Tensor, 'B C'] | Int[Tensor, 'B T'], but is float32[2, 4, 8]",
        ),
    ],
)
def test_what_is_given_and_is_not_as_declared_is_said_once(annotation: object, x: Tensor, note: str) -> None:
    trace = shapetrace.trace(Typed(annotation), x)
    assert [said for said in trace.notes if "declared" in said] == [f"axes: x is declared as {note}"]
    assert trace.calls[0].outputs[""].shape == x.shape


@pytest.mark.parametrize(
    ("annotation", "x"),
    [
        (Float[Tensor, "B T C"], X.half()),
        (Shaped[Tensor, "B T C"], X.bool()),
        (Float[Tensor, "*batch C"], X),
        (Float[Tensor, "B 4 _"], X),
        (Float[Tensor, "B #5 C"], X[:, :1]),
        (Float[Tensor, "B T 2*T"], X),
        (Int[Tensor, "B T"] | Float[Tensor, "B T C"], X),
        ("Float[Tensor, 'B T C']", X),
    ],
)
def test_of_what_is_as_declared_nothing_is_said(annotation: object, x: Tensor) -> None:
    assert [note for note in shapetrace.trace(Typed(annotation), x).notes if "declared" in note] == []


def test_a_name_of_the_author_is_that_of_all_that_follows_from_it() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 24)

        def forward(self, x: Float[Tensor, "batch time dim"]) -> Tensor:
            q, k, v = self.linear(x).chunk(3, -1)
            return (q + k + v).flatten(0, 1)

    trace = shapetrace.trace(Net(), X)
    assert first(trace) == [("batch", "time", "dim"), ("batch·time", 8)]
    assert trace.calls[1].inputs["input"].axes == ("batch", "time", "dim")


def test_names_of_the_author_stand_where_the_model_runs_at_no_other_sizes() -> None:
    class Net(nn.Module):
        def forward(self, x: Float[Tensor, "batch time dim"]) -> Tensor:
            if x.shape != X.shape:
                raise ValueError("no other sizes")
            return x.flatten(0, 1) * 2

    trace = shapetrace.trace(Net(), X)
    assert first(trace) == [("batch", "time", "dim"), ("batch·time", "dim")]
    assert trace.notes == (
        "axes are named only as declared: the model does not run at other sizes (ValueError: no other sizes)",
    )  # fmt: skip
