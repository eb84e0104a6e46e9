"""What a trace says of itself, and what of it another machine would say as well."""

import copy
import difflib
import pickle
from pathlib import Path

import msgspec
import pytest
import torch
from torch import nn

import shapetrace
from shapetrace import Call, TensorMeta, Trace
from shapetrace.renderers import render
from shapetrace.schema import Stats, itemsize, part

# --- the name of a result ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "key", "name"),
    [
        ({"": "q"}, "", "q"),
        ({"": "out"}, "0", "out[0]"),
        ({"": "out"}, "12", "out[12]"),
        ({"": "out"}, "logits", "out.logits"),
        ({"": "out"}, "past[0][1]", "out.past[0][1]"),
        ({"": "out"}, "0[1]", "out[0][1]"),
        ({"": "out"}, "0.mask", "out[0].mask"),
        ({"": "out"}, "3d", "out.3d"),
        ({"0": "y", "1": "h"}, "0", "y"),
        ({"0": "y", "1": "h"}, "1", "h"),
        ({"0": "y", "1": "h"}, "1[0]", "h[0]"),
        ({"0": "y", "1": "h"}, "1.mask", "h.mask"),
        ({"0": "y", "1": "h"}, "10", None),
        ({"0": "y", "1": "h"}, "", None),
        ({"mask": "m"}, "masked", None),
        ({"": "out", "0": "y"}, "0", "y"),
        ({"": "out", "0": "y"}, "1", "out[1]"),
        ({"1": "h", "1[0]": "c"}, "1[0]", "c"),
        ({"1": "h", "1[0]": "c"}, "1[1]", "h[1]"),
        ({}, "", None),
    ],
)
def test_a_result_is_called_as_the_code_would_write_it(variables: dict[str, str], key: str, name: str | None) -> None:
    assert Call("function", "", "f", 0, variables).variable(key) == name


def test_a_part_without_a_key_is_the_whole() -> None:
    assert part("out", "") == "out"


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "nbytes"),
    [
        (TensorMeta((2, 4, 8)), 2 * 4 * 8 * 4),
        (TensorMeta((2, 4, 8), dtype="bfloat16"), 2 * 4 * 8 * 2),
        (TensorMeta((3,), dtype="complex128"), 3 * 16),
        (TensorMeta((4, 4), dtype="bool"), 4 * 4),
        (TensorMeta(()), 4),
        (TensorMeta((2, 0, 8)), 0),
        (TensorMeta((2, -1, 8)), 0),
    ],
)
def test_bytes_are_sizes_times_bytes_of_an_element_and_0_if_ragged(tensor: TensorMeta, nbytes: int) -> None:
    assert tensor.nbytes == nbytes


def test_an_element_of_each_dtype_takes_as_many_bytes_as_torch_says() -> None:
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert len(dtypes) > 20
    assert {dtype: itemsize(str(dtype).removeprefix("torch.")) for dtype in dtypes} == {
        dtype: dtype.itemsize for dtype in dtypes
    }


# --- a trace as a value -----------------------------------------------------------------------------------------------

X = TensorMeta((2, 4), (4, 1), number=0, storage=0)
Y = TensorMeta((2, 8), (8, 1), number=2, storage=2)
TRACE = Trace("my_model.py:build", "Net", calls=(Call("module", "", "Net", 0, inputs={"x": X}, outputs={"": Y}),))


def test_a_trace_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        TRACE.target = "other"


def test_a_copy_of_a_trace_is_equal_to_it() -> None:
    assert copy.deepcopy(TRACE) == pickle.loads(pickle.dumps(TRACE)) == TRACE


def test_a_trace_prints_as_its_tree_and_is_short_where_python_shows_values() -> None:
    assert str(TRACE) == render(TRACE)
    assert repr(TRACE) == "<Trace of my_model.py:build: 1 calls; print it to see its tensors>"


def test_a_notebook_shows_the_tree() -> None:
    assert TRACE._repr_html_().startswith("<pre")


def test_a_trace_is_no_sequence_of_anything() -> None:
    with pytest.raises(TypeError, match="'Trace' object is not iterable"):
        list(TRACE)
    with pytest.raises(TypeError, match=r"'Trace' .*is not a container"):
        assert "x" in TRACE


# --- portable ---------------------------------------------------------------------------------------------------------

FULL = Trace(
    target="my_model.py:build",
    model="Net",
    description="two layers",
    sizes={"B": 2},
    dtype="float32",
    device="cuda:0",
    weightless=True,
    torch="2.13.0",
    seed=0,
    notes=("Net: compiled",),
    error="RuntimeError: no",
    cause="RuntimeError: nothing",
    calls=(
        Call(
            kind="function",
            path="",
            name="add_",
            depth=0,
            variables={"": "y"},
            source=("net.py", 3),
            inputs={
                "0": TensorMeta(
                    (2, 4),
                    (8, 1),
                    "float16",
                    "cuda:0",
                    "strided",
                    False,
                    4,
                    7,
                    5,
                    "w",
                    "Parameter",
                    ("B", 4),
                    "x",
                    Stats(0.5, 2.0, -1.0, 3.0, 1, 2),
                )
            },
            outputs={"": TensorMeta((2, 4), (8, 1), "float16", "cuda:0", "strided", False, 4, 7, 5)},
            literals={"1": "2.5", "2": "'cuda'", "device": "'cuda:0'"},
            written=(7,),
            note="compiled",
            error="RuntimeError: no",
            role="self-attention",
            unmade={"scores": TensorMeta((2, 2), (2, 1), device="cuda:0", role="scores")},
        ),
    ),
)

PORTABLE = Trace(
    target="my_model.py:build",
    model="Net",
    description="two layers",
    sizes={"B": 2},
    dtype="float32",
    seed=0,
    notes=("Net: compiled",),
    error="RuntimeError: no",
    cause="RuntimeError: nothing",
    calls=(
        Call(
            kind="function",
            path="",
            name="add_",
            depth=0,
            variables={"": "y"},
            inputs={
                "0": TensorMeta((2, 4), dtype="float16", name="w", kind="Parameter", axes=("B", 4), role="x"),
            },
            outputs={"": TensorMeta((2, 4), dtype="float16")},
            literals={"1": "2.5"},
            note="compiled",
            error="RuntimeError: no",
            role="self-attention",
            unmade={"scores": TensorMeta((2, 2), role="scores")},
        ),
    ),
)


def test_what_another_machine_would_not_say_goes_and_the_rest_stays() -> None:
    assert FULL.portable() == PORTABLE


def test_a_portable_trace_is_portable() -> None:
    assert PORTABLE.portable() == PORTABLE


def test_that_example_has_a_value_of_its_own_in_every_field() -> None:
    def defaults(struct: msgspec.Struct) -> list[str]:
        return [field.name for field in msgspec.structs.fields(struct) if getattr(struct, field.name) == field.default]

    call = FULL.calls[0]
    assert [defaults(FULL), defaults(call), defaults(call.inputs["0"])] == [[], [], ["layout"]]


def test_the_layout_is_portable() -> None:
    sparse = TensorMeta((2, 4), layout="sparse_coo")
    trace = Trace("net", calls=(Call("function", "", "to_sparse", 0, outputs={"": sparse}),))
    assert trace.portable() == trace


SOURCE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
    def forward(self, x):
        h = self.first(x)
        start = torch.arange(2, device=x.device)
        h = h.relu()
        y = self.second(h)
        return y
"""


def lines(source: str, x: torch.Tensor, file: Path) -> list[str]:
    """The lines of the portable file of the model in `source`."""
    names = {"nn": nn, "torch": torch}
    exec(source, names)
    shapetrace.trace(names["Net"](), x).portable().save(file)
    return file.read_text(encoding="utf-8").splitlines()


def test_portable_files_of_two_runs_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    lines(SOURCE, torch.ones(3, 4), first)
    lines(SOURCE, torch.zeros(4, 3).t(), second)  # another run, other numbers, another stride
    assert first.read_bytes() == second.read_bytes()


def test_lines_moved_down_in_the_source_change_nothing_in_a_portable_file(tmp_path: Path) -> None:
    before = lines(SOURCE, torch.ones(3, 4), tmp_path / "trace.jsonl")
    assert lines("\n\n" + SOURCE, torch.ones(3, 4), tmp_path / "trace.jsonl") == before


def test_a_call_added_in_the_middle_is_one_added_line_of_a_diff(tmp_path: Path) -> None:
    before = lines(SOURCE, torch.ones(3, 4), tmp_path / "trace.jsonl")
    edited = SOURCE.replace("h = h.relu()", "h = h.relu()\n        h = h.tanh()")
    after = lines(edited, torch.ones(3, 4), tmp_path / "trace.jsonl")
    changes = [line for line in difflib.ndiff(before, after) if not line.startswith(" ")]
    assert changes == [
        '+ {"kind":"function","path":"","name":"tanh","depth":1,"variables":{"":"h"},'
        '"inputs":{"0":{"shape":[3,8],"axes":["B",8]}},"outputs":{"":{"shape":[3,8],"axes":["B",8]}}}'
    ]


def test_the_next_device_makes_no_difference_to_a_portable_trace() -> None:
    def on(device: str) -> Trace:
        made = TensorMeta((4,), device=device)
        return Trace(
            "net",
            device=device,
            calls=(Call("function", "", "arange", 0, outputs={"": made}, literals={"0": "4", "device": repr(device)}),),
        )

    assert on("cpu").portable() == on("cuda:1").portable()
