# ruff: noqa: F722
"""Axes that an author has written down as annotations: their names are used, and checked against what runs."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

import shapetrace
from shapetrace.capture.annotations import annotated_axes


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
    ("annotation", "rank", "axes"),
    [
        (Float[Tensor, "B T C"], 3, ("B", "T", "C")),
        (Float[Tensor, "B T C"], 2, (None, None)),
        (Float[Tensor, "B 3 T=4 #C _ T+1 _x"], 7, ("B", None, "T", "C", None, None, None)),
        (Float[Tensor, "... T C"], 4, (None, None, "T", "C")),
        (Float[Tensor, "B *rest C"], 2, ("B", "C")),
        (Float[Tensor, "B *rest C"], 1, (None,)),
        (Float[Tensor, ""], 0, ()),
        (Float[Tensor, "B T"] | None, 2, ("B", "T")),
        (Annotated[Float[Tensor, "B T"], "ids"], 2, ("B", "T")),
    ],
)
def test_an_annotation_names_dims_of_the_rank_that_it_is_for(
    annotation: object, rank: int, axes: tuple[str | None, ...]
) -> None:
    def forward(x: object) -> None: ...

    forward.__annotations__ = {"x": annotation}
    assert annotated_axes(forward)["x"](rank) == axes


def test_other_annotations_name_none_and_those_that_fail_neither() -> None:
    def forward(x: Tensor, y: int, z: "missing.name[" = 0) -> None: ...

    assert annotated_axes(forward) == {}
    assert annotated_axes(print) == {}
    assert annotated_axes(3) == {}


def test_the_names_of_the_author_stand_on_every_tensor() -> None:
    assert first(shapetrace.trace(Net(), torch.zeros(2, 4, 8))) == [("batch", "time", 8)] * 2
    trace = shapetrace.trace(Net(), torch.zeros(2, 4, 8), torch.ones(2, dtype=torch.long))
    assert first(trace) == [("batch", "time", 8), ("batch",), ("batch", "time", 8)]
    assert (trace.sizes, trace.notes) == ({"batch": 2, "time": 4}, ())


def test_what_runs_and_is_not_as_declared_is_said() -> None:
    trace = shapetrace.trace(Net(), torch.zeros(2, 4, 8), torch.ones(1, dtype=torch.long))
    assert "axes: y is declared with batch=1, but batch is 2 elsewhere" in trace.notes
    assert first(shapetrace.trace(Net(), torch.zeros(4, 8)))[0] == ("B", 8)
