"""What a comparison says of small traces, in full."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

import shapetrace
from shapetrace.diff import compare, pairs
from shapetrace.errors import ShapetraceError
from shapetrace.schema import Call, TensorMeta, Trace
from tests.diff.nodes import Node, linear, module, told, trace_of

Golden = Callable[[str], Trace]


# --- structure --------------------------------------------------------------------------------------------------------


def test_a_wider_layer_changes_shapes_and_nothing_else() -> None:
    before, after = (trace_of(linear("0", (2, width)), linear("1")) for width in (8, 16))
    assert told(compare(before, after)) == ["changed 0 shape (2, 8) → (2, 16)"]


def test_the_parameter_that_a_change_of_shape_implies_is_not_told_beside_it_but_alone_it_is() -> None:
    def net(rows: int, width: int) -> Trace:
        out, table = TensorMeta((2, width)), TensorMeta((rows, width), name="table.weight", kind="Parameter")
        return Trace(
            "net",
            calls=(
                Call("module", "", "Net", 0),
                Call("module", "table", "Embedding", 1, outputs={"": out}),
                Call("function", "table", "embedding", 2, inputs={"1": table}, outputs={"": out}),
            ),
        )

    assert told(compare(net(10, 8), net(10, 16))) == ["changed table shape (2, 8) → (2, 16)"]
    assert told(compare(net(10, 8), net(12, 8))) == ["changed table.weight shape (10, 8) → (12, 8)"]


def test_modules_that_change_places_have_moved() -> None:
    before = trace_of(linear("norm"), linear("attention"), linear("feed_forward"))
    after = trace_of(linear("attention"), linear("feed_forward"), linear("norm"))
    assert told(compare(before, after)) == ["moved norm order before attention → after feed_forward"]
    assert told(compare(after, before)) == ["moved norm order after feed_forward → before attention"]


def test_another_class_speaks_for_what_is_inside() -> None:
    before, after = trace_of(linear("w")), trace_of(module("w", Node("addmm"), Node("view"), cls="Conv1D"))
    assert told(compare(before, after)) == ["changed w class Linear → Conv1D"]


def test_tensors_of_no_elements_are_compared_like_any_other() -> None:
    before, after = (trace_of(Node("cat", (0, size), "cache")) for size in (4, 5))
    assert not compare(before, before)
    assert told(compare(before, after)) == ["changed cache shape (0, 4) → (0, 5)"]


def test_a_trace_without_calls_can_be_compared() -> None:
    assert not compare(Trace("nothing"), Trace("nothing"))
    assert [change.kind for change in compare(Trace("nothing"), trace_of(Node("add"))).changes] == ["added"]


def test_modules_may_be_nested_deeper_than_python_lets_functions_call_each_other() -> None:
    def deep(width: int) -> Trace:
        modules = [Call("module", f"m.{depth}", "Sequential", depth) for depth in range(2000)]
        return Trace(
            "deep", calls=(*modules, Call("function", "m.1999", "relu", 2000, outputs={"": TensorMeta((width,))}))
        )

    assert told(compare(deep(1), deep(2))) == ["changed m.1999.relu shape (1,) → (2,)"]


# --- sizes and axes ---------------------------------------------------------------------------------------------------


def test_a_letter_of_another_size_is_told_once_with_the_shapes_that_it_explains(golden: Golden) -> None:
    gpt = golden("gpt")
    larger = shapetrace.diff.compare(gpt, resized(gpt, "B", 3))
    assert (larger.changes, bool(larger)) == ((), True)
    (size,) = larger.sizes
    assert (size.letter, size.before, size.after) == ("B", 2, 3)
    assert size.shapes > 40


def resized(trace: Trace, letter: str, size: int) -> Trace:
    """`trace` as it would be with another size of a letter."""

    def tensor(t: TensorMeta) -> TensorMeta:
        shape = tuple(size if axis == letter else old for axis, old in zip(t.axes or t.shape, t.shape, strict=True))
        return msgspec.structs.replace(t, shape=shape)

    calls = [
        msgspec.structs.replace(
            call,
            inputs={key: tensor(t) for key, t in call.inputs.items()},
            outputs={key: tensor(t) for key, t in call.outputs.items()},
        )
        for call in trace.calls
    ]
    return msgspec.structs.replace(trace, calls=tuple(calls), sizes={**trace.sizes, letter: size})


def with_axes(shape: tuple[int, ...], axes: tuple[str | int, ...] | None, **sizes: int) -> Trace:
    call = Call("function", "", "add", 0, {"": "y"}, outputs={"": TensorMeta(shape, axes=axes)})
    return Trace("net", sizes=sizes, calls=(call,))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (with_axes((2, 24), ("B", "3·C"), B=2, C=8), with_axes((2, 48), ("B", "3·C"), B=2, C=16), []),
        (with_axes((2, 24), ("B", "3·C"), B=2, C=8), with_axes((2, 32), ("B", "3·C"), B=2, C=16),
         ["changed y shape (2, 24) → (2, 32)"]),
        (with_axes((2, 8), ("B", "C"), B=2, C=8), with_axes((2, 8), ("T", "C"), T=2, C=8),
         ["changed y axes ('B', 'C') → ('T', 'C')"]),
        (with_axes((2, 8), ("B", "C"), B=2, C=8), with_axes((2, 8), ("B", 8), B=2, C=8),
         []),
        (with_axes((2, 8), ("B", "C"), B=2, C=8), with_axes((2, 9), ("B", 9), B=2, C=8),
         ["changed y axes ('B', 'C') → ('B', 9), shape (2, 8) → (2, 9)"]),
        (with_axes((2, 8), ("B", "C"), B=2, C=8), with_axes((2, 8), None), []),
        (with_axes((2, 8), ("B", "C"), B=2, C=8), with_axes((2, 9), None), ["changed y shape (2, 8) → (2, 9)"]),
        (with_axes((2, 8), ("B", 8), B=2), with_axes((2, 9), ("B", 9), B=2), ["changed y shape (2, 8) → (2, 9)"]),
    ],
)  # fmt: skip
def test_a_shape_is_explained_by_letters_or_told_and_axes_count_where_both_sides_have_them(
    before: Trace, after: Trace, said: list[str]
) -> None:
    assert told(compare(before, after)) == said


def test_names_that_could_not_be_told_on_one_side_are_a_difference_that_is_said_once() -> None:
    def net(*axes: tuple[str | int, ...]) -> Trace:
        calls = [Call("function", "", "add", 0, outputs={"": TensorMeta((2, 8), axes=each)}) for each in axes]
        return Trace("net", sizes={"B": 2, "C": 8}, calls=tuple(calls))

    named, unnamed = net(("B", "C"), ("B", "C"), ("B", "C")), net(("B", "C"), ("B", 8), ("B", 8))
    for before, after, forms in ((named, unnamed, "[B,C] → [B,8]"), (unnamed, named, "[B,8] → [B,C]")):
        found = compare(before, after)
        assert bool(found)
        assert found.changes == ()
        assert str(found).splitlines()[-2:] == [
            f"~   2 tensors with a name of an axis on one side only: first add {forms}",
            "names of axes differ, nothing else · 3 same",
        ]
    assert not compare(named, unnamed, ignore=["axes"])


# --- what is compared -------------------------------------------------------------------------------------------------

LAID_OUT = TensorMeta((2, 8), (8, 1), number=0, storage=0)


def one(tensor: TensorMeta, name: str = "add", **header: str) -> Trace:
    return Trace("net", calls=(Call("function", "", name, 0, {"": "y"}, outputs={"": tensor}),), **header)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"dtype": "float64"}, "dtype float32 → float64"),
        ({"role": "q"}, "role None → q"),
        ({"layout": "sparse_coo"}, "layout strided → sparse_coo"),
    ],
)
def test_a_field_that_differs_is_told(other: dict[str, str], said: str) -> None:
    before, after = one(LAID_OUT), one(msgspec.structs.replace(LAID_OUT, **other))
    assert told(compare(before, after)) == [f"changed y {said}"]
    name = said.partition(" ")[0]
    assert not compare(before, after, ignore=[name])
    assert not compare(before, after, only=["shape"])
    assert compare(before, after, only=["shape", name])


def test_a_tensor_that_is_not_where_its_model_is_differs_and_a_model_that_is_elsewhere_does_not() -> None:
    here, there, apart = (TensorMeta((2, 8), device=device) for device in ("cpu", "cuda:0", "cpu"))
    before, after = one(here, torch="2.13.0", device="cpu"), one(there, torch="2.13.0", device="cuda:0")
    assert told(compare(before, after)) == []
    assert told(compare(after, one(apart, torch="2.13.0", device="cuda:0"))) == ["changed y device None → cpu"]
    assert told(compare(after.portable(), one(apart, torch="2.13.0", device="cuda:0"))) == []


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(ShapetraceError, match=r"traces are compared, not str; shapetrace\.load reads one"):
        compare(one(LAID_OUT), "gpt.jsonl")


def test_strides_memory_and_devices_are_compared_exactly_and_not_otherwise() -> None:
    turned = msgspec.structs.replace(LAID_OUT, stride=(1, 2), is_contiguous=False)
    before, after = (one(tensor, torch="2.13.0", device="cpu") for tensor in (LAID_OUT, turned))
    assert not compare(before, after)
    assert told(compare(before, after, exact=True)) == [
        "changed y stride (8, 1) → (1, 2), contiguity True → False",
    ]
    assert told(compare(before, after, exact=True, ignore=["stride"])) == ["changed y contiguity True → False"]


def test_a_view_that_became_a_copy_is_told_exactly() -> None:
    x = TensorMeta((2, 8), (8, 1), number=0, storage=0)

    def net(storage: int) -> Trace:
        y = TensorMeta((16,), (1,), number=1, storage=storage)
        calls = (
            Call("module", "", "Net", 0, inputs={"x": x}, outputs={"": y}),
            Call("function", "", "reshape", 1, {"": "y"}, inputs={"0": x}, outputs={"": y}),
        )
        return Trace("net", calls=calls, torch="2.13.0", device="cpu")

    assert told(compare(net(0), net(1), exact=True)) == ["changed y memory view → copy"]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            one(LAID_OUT, torch="2.14.0", device="cuda:0"),
            "an exact comparison needs one device and one version of torch\n"
            "  before  net  cpu, torch 2.13.0\n"
            "  after   net  cuda:0, torch 2.14.0\n"
            "record one of them again, or compare without --exact",
        ),
        (
            one(LAID_OUT),
            "an exact comparison needs strides and memory, and the trace of net is portable: it holds none\n"
            "record it again, or compare without --exact",
        ),
    ],
)
def test_an_exact_comparison_of_what_is_not_comparable_is_refused(after: Trace, said: str) -> None:
    with pytest.raises(ShapetraceError) as error:
        compare(one(LAID_OUT, torch="2.13.0", device="cpu"), after, exact=True)
    assert str(error.value) == said


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(ShapetraceError, match=r"no field is called 'shapes': did you mean shape\?"):
        compare(one(LAID_OUT), one(LAID_OUT), only=["shapes"])
    with pytest.raises(ShapetraceError, match="stride: only an exact comparison looks at that; add --exact"):
        compare(one(LAID_OUT), one(LAID_OUT), only=["stride"])


def test_structure_can_be_left_out() -> None:
    before, after = trace_of(linear("a"), linear("b")), trace_of(linear("b", (2, 9)))
    assert told(compare(before, after, ignore=["structure"])) == ["changed b shape (2, 8) → (2, 9)"]
    assert told(compare(before, after, only=["structure"])) == ["removed a"]


# --- models -----------------------------------------------------------------------------------------------------------


def test_pre_ln_and_post_ln_differ_by_where_the_norms_stand(golden: Golden) -> None:
    assert told(compare(golden("gpt"), golden("postln"))) == [
        "changed blocks.0 role pre-LN block → post-LN block",
        "moved blocks.0.norm_1 role norm → residual, order before attention → after x · residual",
        "moved blocks.0.norm_2 role norm → residual, order before feed_forward → after x · residual",
        "removed norm_f",
    ]


def test_a_fused_attention_that_is_written_out_makes_what_it_stood_for() -> None:
    scores = TensorMeta((2, 2, 4, 4), role="scores")
    out = TensorMeta((2, 2, 4, 8), role="head_output")
    sdpa = Call("function", "", "sdpa", 0, {"": "out"}, outputs={"": out}, unmade={"scores": scores})
    written = (
        Call("function", "", "div", 0, {"": "scores"}, outputs={"": scores}),
        Call("function", "", "matmul", 0, {"": "out"}, outputs={"": out}),
    )
    assert told(compare(Trace("net", calls=(sdpa,)), Trace("net", calls=written))) == [
        "changed scores made False → True",
        "changed out class sdpa → matmul",
    ]


def test_the_pairs_are_records_with_those_that_correspond(golden: Golden) -> None:
    found = {
        (one.path, one.name): other and (other.path, other.name)
        for one, other in pairs(golden("nn.TransformerEncoderLayer"), golden("encoder"))
        if one is not None
    }
    assert found  # what they are is tested where two implementations are compared
