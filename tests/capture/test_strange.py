"""Tensors and modules that are not the usual ones: described as what they are, or said to be opaque."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace import TensorMeta


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def seen(tensor: Tensor) -> TensorMeta:
    """A tensor as a trace describes it, the same going in and coming out."""
    call = shapetrace.trace(Identity(), tensor, axes=False).calls[0]
    assert call.inputs["x"] == call.outputs[""]
    return call.outputs[""]


class Mine(Tensor):
    pass


TENSORS: dict[str, tuple[Callable[[], Tensor], TensorMeta]] = {
    "0-d": (lambda: torch.tensor(1.0), TensorMeta((), (), number=0, storage=0)),
    "empty": (lambda: torch.zeros(2, 0, 3), TensorMeta((2, 0, 3), (3, 3, 1), number=0, storage=0)),
    "bool": (lambda: torch.ones(2, dtype=torch.bool), TensorMeta((2,), (1,), "bool", number=0, storage=0)),
    "bfloat16": (lambda: torch.ones(2, dtype=torch.bfloat16), TensorMeta((2,), (1,), "bfloat16", number=0, storage=0)),
    "complex, conjugated": (
        lambda: torch.ones(2, 3, dtype=torch.complex64).mH,
        TensorMeta((3, 2), (1, 3), "complex64", is_contiguous=False, number=0, storage=0),
    ),
    "expanded": (
        lambda: torch.zeros(3, 1).expand(3, 4),
        TensorMeta((3, 4), (1, 0), is_contiguous=False, number=0, storage=0),
    ),
    "offset": (lambda: torch.zeros(4, 2)[1:], TensorMeta((3, 2), (2, 1), offset=2, number=0, storage=0)),
    "channels last": (
        lambda: torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last),
        TensorMeta((1, 2, 3, 4), (24, 1, 8, 2), is_contiguous=False, number=0, storage=0),
    ),
    "meta": (lambda: torch.zeros(2, device="meta"), TensorMeta((2,), (1,), device="meta", number=0, storage=0)),
    "parameter": (
        lambda: nn.Parameter(torch.zeros(2)),
        TensorMeta((2,), (1,), number=0, storage=0, kind="Parameter"),
    ),
    "buffer": (lambda: nn.Buffer(torch.zeros(2)), TensorMeta((2,), (1,), number=0, storage=0)),
    "subclass": (
        lambda: torch.zeros(2).as_subclass(Mine),
        TensorMeta((2,), (1,), number=0, storage=0, kind="Mine"),
    ),
    "sparse COO": (
        lambda: torch.eye(3).to_sparse(),
        TensorMeta((3, 3), None, layout="sparse_coo", is_contiguous=False, number=0),
    ),
    "sparse CSR": (
        lambda: torch.eye(3).to_sparse_csr(),
        TensorMeta((3, 3), None, layout="sparse_csr", is_contiguous=False, number=0),
    ),
    "nested, strided": (
        lambda: torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)]),
        TensorMeta((2, -1, 3), None, number=0, storage=0),
    ),
    "nested, jagged": (
        lambda: torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged),
        TensorMeta((2, -1, 3), (-1, 3, 1), layout="jagged", number=0, storage=0, kind="NestedTensor"),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "meta"), TENSORS.values(), ids=TENSORS)
def test_a_tensor_is_described_as_it_is(make: Callable[[], Tensor], meta: TensorMeta) -> None:
    assert seen(make()) == meta


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_tensor_is_described_as_it_is() -> None:
    meta = seen(torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8))
    assert (meta.shape, meta.stride, meta.dtype) == ((3,), (1,), "qint8")


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_lazy_module_is_traced_while_it_becomes_a_real_one() -> None:
    model = nn.Sequential(nn.LazyLinear(3))
    trace = shapetrace.trace(model, torch.zeros(1, 2))
    assert trace.calls[0].outputs[""].shape == (1, 3)
    assert shapetrace.trace(model, torch.zeros(1, 2)).calls[0].outputs[""].shape == (1, 3)


def test_under_vmap_and_grad_of_torch_func_tensors_have_no_storage_and_are_traced_all_the_same() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 2).sum()

    model = Model()
    with shapetrace.attach(model) as tap:
        torch.func.vmap(torch.func.grad(model))(torch.zeros(5, 3))
    multiply = next(call for call in tap.traces[0].calls if call.name == "mul")
    assert (multiply.outputs[""].shape, multiply.outputs[""].storage) == ((3,), None)


def test_a_scripted_submodule_is_opaque_and_said_to_be_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    model = nn.Sequential(nn.Linear(2, 2), scripted)
    x = torch.zeros(1, 2)
    with shapetrace.attach(model) as tap:
        watched = model(x)
    assert torch.equal(watched, model(x))
    trace = tap.traces[0]
    assert [(call.path, call.name) for call in trace.calls] == [
        ("", "Sequential"), ("0", "Linear"), ("0", "linear"), ("1", "RecursiveScriptModule"),
    ]  # fmt: skip
    assert trace.calls[-1].outputs[""].shape == (1, 2)
    assert trace.notes == ("RecursiveScriptModule: scripted: what runs inside is not seen",)


def test_a_scripted_model_is_one_opaque_call() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.script(nn.Linear(2, 2))
    trace = shapetrace.trace(model, torch.zeros(1, 2))
    assert [call.note for call in trace.calls] == ["scripted: what runs inside is not seen"]


COMPILED = """
    import torch, shapetrace
    from torch import nn
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = torch.randn(1, 2)
    if {in_place}:
        inner.compile(backend="eager")
        part = inner
    else:
        part = torch.compile(inner, backend="eager")
    model = nn.Sequential(nn.Linear(2, 2), part)
    bare = model(x)
    counters = torch._dynamo.utils.counters
    frames = counters["frames"]["total"]
    with shapetrace.attach(model) as tap:
        watched = model(x)
    assert torch.equal(bare, watched)
    assert torch.equal(bare, model(x))
    assert counters["frames"]["total"] == frames, "watching made it compile again"
    trace = tap.traces[0]
    print([(call.path, call.name) for call in trace.calls if call.kind == "module"], trace.calls[-1].note)
    alone = shapetrace.trace(part, x)
    print(len(alone.calls), alone.notes)
"""


@pytest.mark.parametrize(("in_place", "name"), [(False, "OptimizedModule"), (True, "Sequential")])
def test_a_compiled_module_is_opaque_and_is_not_compiled_again(in_place: bool, name: str) -> None:
    code = textwrap.dedent(COMPILED).format(in_place=in_place)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"[('', 'Sequential'), ('0', 'Linear'), ('1', '{name}')] compiled: what runs inside is not seen",
        f"1 ('{name}: compiled: what runs inside is not seen',)",
    ]


def test_the_fused_path_of_torch_is_left_and_the_trace_says_so() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 4, 8)
    with torch.no_grad():
        bare = layer(x)
        with shapetrace.attach(layer) as tap:
            watched = layer(x)
    torch.testing.assert_close(watched, bare)
    (note,) = tap.traces[0].notes
    assert note == (
        "TransformerEncoderLayer, MultiheadAttention: fused unless watched: step by step under a watch, it is equal to "
        "rounding, and may differ where there is padding"
    )
    assert shapetrace.trace(layer.train(), x).notes == ()


def test_contiguity_is_as_torch_decides_it() -> None:
    for shape in itertools.product((0, 1, 2), repeat=3):
        for stride in itertools.product((0, 1, 2, 4), repeat=3):
            tensor = torch.empty(64).as_strided(shape, stride)
            assert seen(tensor).is_contiguous == tensor.is_contiguous(), (shape, stride)


def test_modules_that_compare_in_a_way_of_their_own_are_told_apart_as_objects() -> None:
    class Compared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        __hash__ = nn.Module.__hash__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("nobody asked")

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    trace = shapetrace.trace(nn.Sequential(Compared(), Compared()), torch.zeros(1, 2))
    assert [call.path for call in trace.calls if call.kind == "module"] == ["", "0", "0.linear", "1", "1.linear"]
