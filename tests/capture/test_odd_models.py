"""Models that are put together in other ways than by a forward that calls its modules: what a record of each holds.

Each gives bit for bit what it gives where nobody watches. What is scripted or compiled is in test_strange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

import shapetrace
from tests.zoo.outputs import difference

pytestmark = pytest.mark.filterwarnings("ignore")

Made = tuple[nn.Module, tuple[Tensor, ...]]


class Around(nn.Module):
    """Runs `inner` in a way of its own."""

    def __init__(self, inner: nn.Module, way: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = inner
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self.inner, x)


class Int8(nn.Module):
    """A linear layer with weights of one byte, and a scale for each row of them."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.to(x.dtype) * self.scale
        return nn.functional.linear(x, weight)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clamp(min=0) * 2

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient


def x(*sizes: int) -> Tensor:
    return torch.randn(*(sizes or (2, 5, 8)), generator=torch.Generator().manual_seed(1))


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).eval()


def around(way: Callable[[Any, Tensor], Any], width: int = 8) -> Made:
    return Around(nn.Linear(8, width), way), (x(),)


def lora() -> Made:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["0"], init_lora_weights=False)
    return peft.get_peft_model(nn.Sequential(nn.Linear(8, 8)), config).eval(), (x(),)


def x_transformer() -> Made:
    import x_transformers

    layers = x_transformers.Decoder(dim=8, depth=1, heads=2, attn_dim_head=4)
    return x_transformers.TransformerWrapper(num_tokens=9, max_seq_len=8, attn_layers=layers).eval(), (
        torch.tensor([[1, 2]]),
    )


def static_quantised() -> Made:
    quantization = torch.ao.quantization
    model = nn.Sequential(quantization.QuantStub(), nn.Linear(8, 8), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(x())
    return quantization.convert(prepared), (x(),)


def pruned() -> nn.Linear:
    return prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.5)  # type: ignore[no-untyped-call,no-any-return]


def descended(inner: nn.Module, x: Tensor) -> Tensor:
    return x - torch.func.grad(lambda y: inner(y).square().sum())(x)


def force(inner: nn.Module, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(inner(x).sum(), x)[0]


MODELS: dict[str, tuple[Callable[[], Made], str]] = {
    "functional_call": (
        lambda: around(lambda inner, x: torch.func.functional_call(inner, {"weight": torch.ones(8, 8)}, (x,))),
        "Around, ones, inner Linear, inner.linear",
    ),
    "DataParallel": (
        lambda: (nn.DataParallel(nn.Linear(8, 8)), (x(),)),
        "DataParallel, module Linear, module.linear",
    ),
    "dynamically quantised": (
        lambda: (torch.ao.quantization.quantize_dynamic(mlp(), {nn.Linear}), (x(),)),
        "Sequential, 0 Linear, 0.linear_dynamic, 0.to, 1 GELU, 1.gelu, 2 Linear, 2.linear_dynamic, 2.to",
    ),
    "statically quantised": (
        static_quantised,
        "Sequential, 0 Quantize, 0.quantize_per_tensor, 1 Linear, 1.linear, 2 DeQuantize, 2.dequantize",
    ),
    "weights of one byte": (
        lambda: (nn.Sequential(Int8(nn.Linear(8, 4))), (x(),)),
        "Sequential, 0 Int8, 0.to, 0.mul, 0.linear",
    ),
    "traced by fx": (
        lambda: (torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8))), (x(),)),
        "Sequential, 0 Linear, 0.linear",
    ),
    "vmap inside": (
        lambda: around(lambda inner, x: torch.func.vmap(lambda row: inner(row).softmax(-1))(x)),
        "Around, inner Linear, inner.linear, softmax",
    ),
    "grad inside": (
        lambda: around(descended, 1),
        "Around, requires_grad_, inner Linear, inner.linear, square, sum, grad, sub",
    ),
    "autograd.grad inside": (
        lambda: around(force, 1),
        "Around, detach, requires_grad_, inner Linear, inner.linear, sum, grad",
    ),
    "autograd.Function": (
        lambda: around(lambda inner, x: Doubled.apply(inner(x))),
        "Around, inner Linear, inner.linear, clamp, mul",
    ),
    "checkpoint": (
        lambda: around(lambda inner, x: checkpoint(inner, x, use_reentrant=False)),
        "Around, inner Linear, inner.linear",
    ),
    "checkpoint, reentrant": (
        lambda: around(lambda inner, x: checkpoint(inner, x, use_reentrant=True)),
        "Around, inner Linear, inner.linear",
    ),
    "weight_norm": (
        lambda: (nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8))), (x(),)),
        "Sequential, 0 ParametrizedLinear, 0.parametrizations.weight ParametrizationList, "
        "0.parametrizations.weight.0 _WeightNorm, 0.parametrizations.weight.0._weight_norm, 0.linear",
    ),
    "pruned": (
        lambda: (nn.Sequential(pruned()), (x(),)),
        "Sequential, to, mul, 0 Linear, 0.linear",
    ),
    "averaged": (
        lambda: (torch.optim.swa_utils.AveragedModel(nn.Linear(8, 8)), (x(),)),
        "AveragedModel, module Linear, module.linear",
    ),
}  # fmt: skip
"""What makes each, and the calls of its record: modules by path and class, functions by the path they ran at."""

OTHERS: dict[str, Callable[[], Made]] = {
    "LoRA": lora,
    "exported": lambda: (torch.export.export(nn.Sequential(nn.Linear(8, 8)), (x(),)).module(), (x(),)),
    "nn.Transformer": lambda: (nn.Transformer(8, 2, 1, 1, 16).eval(), (x(5, 2, 8), x(3, 2, 8))),
    "x-transformers": x_transformer,
    "orthogonal": lambda: (nn.Sequential(parametrizations.orthogonal(nn.Linear(8, 8))), (x(),)),
    "spectral_norm": lambda: (nn.Sequential(parametrizations.spectral_norm(nn.Linear(8, 8))).eval(), (x(),)),
    "quantised LSTM": lambda: (
        torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.LSTM(8, 8)), {nn.LSTM}),
        (x(),),
    ),
    "jagged": lambda: around(lambda inner, x: inner(jagged(x)).to_padded_tensor(0.0)),
}
"""Those of more calls than one would read here, or of others in each version of their library."""


def jagged(x: Tensor) -> Tensor:
    return torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged)


def shown(trace: shapetrace.Trace) -> str:
    return ", ".join(
        f"{call.path} {call.name}".strip() if call.kind == "module" else f"{call.path}.{call.name}".strip(".")
        for call in trace.calls
    )


@pytest.mark.parametrize(("make", "calls"), MODELS.values(), ids=list(MODELS))
def test_what_runs_is_recorded_where_it_runs(make: Callable[[], Made], calls: str) -> None:
    first, args = make()
    first(*args)  # torch calls functions of its own where it runs a checkpoint for the first time
    model, args = make()
    trace = shapetrace.trace(model, *args, axes=False)
    assert shown(trace).replace("empty, ", "") == calls  # in older versions a checkpoint makes some
    assert trace.error is None


@pytest.mark.parametrize("make", [*(make for make, _ in MODELS.values()), *OTHERS.values()], ids=[*MODELS, *OTHERS])
def test_watched_and_with_its_axes_told_a_model_gives_what_it_gives(make: Callable[[], Made]) -> None:
    model, args = make()
    bare = model(*args)
    with shapetrace.attach(model) as tap:
        watched = model(*args)
    assert difference(bare, watched) is None
    (trace,) = tap.traces
    assert list(trace.calls[0].outputs)  # the axes are told when the trace is read
    assert difference(bare, model(*args)) is None
