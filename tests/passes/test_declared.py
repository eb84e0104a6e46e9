"""Axes that an author has declared for the inputs: their names are used, and a contradiction is said."""

from __future__ import annotations

import pytest

from shapetrace.passes.declared import as_declared
from shapetrace.schema import Call, TensorMeta, Trace


def net(*inputs: tuple[tuple[int, ...], tuple[str | int, ...] | None], **sizes: int) -> Trace:
    """A model that is given x and y, each with a shape and axes, and gives back the first."""
    tensors = [TensorMeta(shape, axes=axes, number=number) for number, (shape, axes) in enumerate(inputs)]
    given = dict(zip("xy", tensors, strict=False))
    return Trace("net", sizes=sizes, calls=(Call("module", "", "Net", 0, inputs=given, outputs={"": tensors[0]}),))


def test_the_names_of_the_author_replace_the_letters_everywhere() -> None:
    named = as_declared(net(((2, 4, 8), ("B", "T", 8)), B=2, T=4), {"x": ("batch", "time", "width")})
    assert named.calls[0].inputs["x"].axes == named.calls[0].outputs[""].axes == ("batch", "time", "width")
    assert named.sizes == {"batch": 2, "time": 4, "width": 8}
    assert named.notes == ()


def test_letters_can_be_declared_the_other_way_round() -> None:
    named = as_declared(net(((2, 4), ("B", "T")), B=2, T=4), {"x": ("T", "B")})
    assert named.calls[0].inputs["x"].axes == ("T", "B")
    assert named.sizes == {"T": 2, "B": 4}


def test_a_name_that_another_axis_has_is_not_given_to_a_second() -> None:
    named = as_declared(net(((2, 4), ("B", "T")), B=2, T=4), {"x": ("T", None)})
    assert named.calls[0].inputs["x"].axes == ("B", "T")
    assert named.notes == ("axes: x is declared with 'T' where another axis of the trace is 'T'",)


@pytest.mark.parametrize(
    ("declared", "note"),
    [
        ({"x": ("N", "N")}, "axes: x is declared with N=4, but N is 2 elsewhere"),
        ({"x": ("B", "T"), "y": ("B", "T")}, "axes: y is declared with T=5, but T is 4 elsewhere"),
        ({"x": ("B", "T"), "y": ("N", None)}, "axes: y is declared with 'N' where the same axis is 'B' elsewhere"),
    ],
)
def test_a_contradiction_is_said(declared: dict[str, tuple[str | None, ...]], note: str) -> None:
    trace = net(((2, 4), ("B", "T")), ((2, 5), ("B", "S")), B=2, T=4, S=5)
    assert as_declared(trace, declared).notes == (note,)


@pytest.mark.parametrize("declared", [{"z": ("B",)}, {"x": ("B", "T", "C")}, {"x": (None, None)}, {}])
def test_what_is_declared_of_something_else_changes_nothing(declared: dict[str, tuple[str | None, ...]]) -> None:
    trace = net(((2, 4), ("B", "T")), B=2, T=4)
    assert as_declared(trace, declared) == trace


def test_a_trace_of_no_calls_is_left_as_it_is() -> None:
    assert as_declared(Trace("net"), {"x": ("B",)}) == Trace("net")
