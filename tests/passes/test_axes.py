"""An axis is what changes when you change it: traces of one call, as runs at other sizes would give them."""

from __future__ import annotations

import pytest

from shapetrace.passes.axes import is_varying, name_axes, rename_axes, without
from shapetrace.schema import Call, TensorMeta, Trace


def run(shape: tuple[int, ...], **sizes: int) -> Trace:
    """One call that gives a tensor of this shape, where letters have these sizes."""
    call = Call("function", "", "f", 0, inputs={"0": TensorMeta(())}, outputs={"": TensorMeta(shape, number=1)})
    return Trace("net", sizes=sizes, calls=(call,))


def axes(*runs: Trace) -> tuple[str | int, ...] | None:
    return name_axes(runs[0], runs[1:]).calls[0].outputs[""].axes


def test_the_seed_example_is_told_apart_where_batch_and_heads_are_two_and_length_and_width_four() -> None:
    plain = run((2, 2, 4, 4), B=2, H=2, T=4, D=4)
    probes = run((3, 5, 7, 38), B=3, H=5, T=7, D=38), run((5, 3, 11, 26), B=5, H=3, T=11, D=26)
    assert axes(plain, *probes) == ("B", "H", "T", "D")


def test_a_dim_that_did_not_change_or_that_no_letter_explains_stays_a_number() -> None:
    plain, probes = run((2, 6, 9), B=2), (run((3, 6, 1), B=3), run((5, 6, 4), B=5))
    assert axes(plain, *probes) == ("B", 6, 9)


def test_dims_that_change_and_are_nothing_known_are_no_constants_where_that_is_asked_for() -> None:
    plain, probes = run((4, 4, 9), B=2), (run((4, 9, 5), B=3), run((4, 6, 7), B=5))
    named = name_axes(plain, probes, varying=True)
    assert named.calls[0].outputs[""].axes == (4, "~0", "~1")
    assert without(named, is_varying) == name_axes(plain, probes)


@pytest.mark.parametrize("other", [(3,), (3, 8, 1), ()])
def test_a_tensor_of_another_rank_elsewhere_has_no_axes(other: tuple[int, ...]) -> None:
    assert axes(run((2, 8), B=2), run(other, B=3), run((5, 8), B=5)) is None


def test_a_tensor_that_is_missing_in_one_of_the_runs_has_no_axes() -> None:
    without = Trace("net", sizes={"B": 5}, calls=(Call("function", "", "g", 0),))
    assert axes(run((2, 8), B=2), run((3, 8), B=3), without) is None


def test_without_runs_nothing_is_named() -> None:
    plain = run((2, 8), B=2)
    assert name_axes(plain, []) == plain


def test_an_axis_of_the_input_that_nothing_tells_stays_a_number_wherever_it_is_part_of_one() -> None:
    plain = run((2, 4, 8), **{"?0": 2, "T": 4})
    probes = run((3, 7, 21), **{"?0": 3, "T": 7}), run((5, 11, 55), **{"?0": 5, "T": 11})
    named = name_axes(plain, probes)
    assert named.calls[0].outputs[""].axes == (2, "T", 8)
    assert named.sizes == {"T": 4}


def test_an_axis_of_the_input_is_the_letter_that_is_declared_with_its_size() -> None:
    plain, probes = run((2, 8), **{"?0": 2}), (run((3, 8), **{"?0": 3}), run((5, 8), **{"?0": 5}))
    assert name_axes(plain, probes, {"N": 2}).calls[0].outputs[""].axes == ("N", 8)
    assert name_axes(plain, probes, {"N": 3}).calls[0].outputs[""].axes is None
    assert name_axes(plain, probes, {"N": 2, "M": 2}).calls[0].outputs[""].axes is None


def test_an_axis_of_the_input_is_no_width_of_the_model_if_another_dim_of_that_size_never_changes() -> None:
    plain, probes = run((8, 8), **{"?0": 8}), (run((3, 8), **{"?0": 3}), run((5, 8), **{"?0": 5}))
    assert name_axes(plain, probes, {"C": 8}).calls[0].outputs[""].axes is None
    plain, probes = run((8, 4), **{"?0": 8}), (run((3, 4), **{"?0": 3}), run((5, 4), **{"?0": 5}))
    assert name_axes(plain, probes, {"C": 8}).calls[0].outputs[""].axes == ("C", 4)


def test_a_tensor_that_many_calls_take_is_one_object_still() -> None:
    shared = TensorMeta((2, 8))
    call = Call("function", "", "f", 0, inputs={"0": shared}, outputs={"": shared})
    plain = Trace("net", sizes={"B": 2}, calls=(call, call))
    probes = [
        Trace("net", sizes={"B": size}, calls=(Call("function", "", "f", 0, inputs={"0": t}, outputs={"": t}),) * 2)
        for size, t in ((3, TensorMeta((3, 8))), (5, TensorMeta((5, 8))))
    ]
    first, second = name_axes(plain, probes).calls
    assert first.inputs["0"] is first.outputs[""] is second.inputs["0"]
    assert first.inputs["0"].axes == ("B", 8)


def test_axes_are_renamed_also_within_a_formula() -> None:
    plain, probes = run((6, 16), T=3, C=8), (run((14, 76), T=7, C=38), run((22, 52), T=11, C=26))
    renamed = rename_axes(name_axes(plain, probes), {"T": "time", "C": "C"})
    assert renamed.calls[0].outputs[""].axes == ("2·time", "2·C")
    assert renamed.sizes == {"time": 3, "C": 8}
