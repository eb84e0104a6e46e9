"""Fused attention written out: equal results, and scores that are there."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import shapetrace
from shapetrace import ShapetraceError, Trace
from shapetrace.capture.materialised import attention

NOTE = (
    "scaled_dot_product_attention was written out, as asked: its scores and weights are real, and its results equal "
    "those of the fused kernel within rounding"
)


class Fused(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)
        return out


def tensors(*shape: int, dtype: torch.dtype = torch.float32, S: int = 5, G: int | None = None) -> list[Tensor]:
    """q, k and v for q of this shape; of G key/value heads."""
    generator = torch.Generator().manual_seed(0)
    inner = list(shape)
    inner[-2] = S
    if G is not None:
        inner[-3] = G
    return [torch.randn(size, generator=generator).to(dtype) for size in (list(shape), inner, inner)]


def equal(one: Tensor, other: Tensor) -> bool:
    """Within rounding of their dtype, which is the same. A kernel of few bits rounds the weights, too, each below 1."""
    eps = torch.finfo(other.dtype).eps
    torch.testing.assert_close(one, other, rtol=max(4 * eps, 1e-5), atol=max(2 * eps, 1e-6))
    return True


MASKS = {
    "none": None,
    "bool": torch.tensor([[True, False, True, True, False]] * 2 + [[True] * 5]),
    "a row that sees nothing": torch.tensor([[False] * 5, [True] * 5, [False, True] * 2 + [False]]),
    "float": torch.linspace(-3, 3, 15).view(3, 5),
    "float with -inf": torch.tensor([[0.0, -torch.inf, 1.0, 0.0, -torch.inf]] * 2 + [[-torch.inf] * 5]),
    "of one key": torch.zeros(3, 1),
    "by head": torch.arange(2 * 3 * 5).view(1, 2, 3, 5) % 2 == 0,
}


# The same results


@pytest.mark.parametrize(
    ("mask", "scale", "dtype"),
    [*product(MASKS, (None, 0.3, -0.5, 0.0), (torch.float32, torch.float64, torch.bfloat16, torch.float16))],
)
def test_results_are_those_of_torch_with_any_mask_scale_and_dtype(
    mask: str, scale: float | None, dtype: torch.dtype
) -> None:
    given = MASKS[mask]
    if given is not None and given.is_floating_point():
        given = given.to(dtype)
    q, k, v = tensors(2, 2, 3, 4, dtype=dtype)
    assert equal(
        attention(q, k, v, given, scale=scale), F.scaled_dot_product_attention(q, k, v, given, scale=scale)
    )  # fmt: skip


@pytest.mark.parametrize(("T", "S"), [(3, 3), (3, 5), (5, 3), (1, 4)])
def test_causal_begins_in_the_top_left_corner(T: int, S: int) -> None:
    q, k, v = tensors(2, 2, T, 4, S=S)
    assert equal(attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 2, 3, 4), (1, 2, 2, 3, 4), (2, 2, 0, 4), (0, 2, 3, 4)])
def test_any_number_of_batch_dims_will_do(shape: tuple[int, ...]) -> None:
    q, k, v = tensors(*shape)
    assert equal(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


def test_without_keys_the_result_is_zero() -> None:
    q, k, v = tensors(2, 3, 4, S=0)
    assert equal(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("G", [1, 2, 4])
def test_key_and_value_heads_are_repeated_on_request(G: int) -> None:
    q, k, v = tensors(2, 4, 3, 4, G=G)
    assert equal(attention(q, k, v, enable_gqa=True), F.scaled_dot_product_attention(q, k, v, enable_gqa=True))


def test_batches_and_heads_of_one_are_spread() -> None:
    q, k, v = tensors(2, 4, 3, 4, G=1)
    assert equal(attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("dropout", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mask", ["none", "bool", "a row that sees nothing"])
def test_dropout_draws_the_numbers_that_torch_draws_on_the_cpu(dropout: float, mask: str) -> None:
    q, k, v = tensors(2, 2, 3, 4)
    results = []
    for function in (attention, F.scaled_dot_product_attention):
        torch.manual_seed(0)
        results.append((function(q, k, v, MASKS[mask], dropout), torch.get_rng_state()))
    assert equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.parametrize("mask", ["none", "a row that sees nothing", "float"])
def test_gradients_are_those_of_torch(mask: str) -> None:
    found = []
    for function in (attention, F.scaled_dot_product_attention):
        given = [tensor.requires_grad_() for tensor in tensors(2, 2, 3, 4)]
        bias = MASKS[mask]
        if mask == "float":
            bias = bias.clone().requires_grad_()
            given.append(bias)
        function(*given[:3], bias).pow(2).sum().backward()
        found.append([tensor.grad for tensor in given])
    for one, other in zip(*found, strict=True):
        assert equal(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_the_dtype_that_it_gives_to_torch(dtype: torch.dtype) -> None:
    for given in (torch.float32, torch.float64):
        q, k, v = tensors(2, 2, 3, 4, dtype=given)
        mask = torch.linspace(-3, 3, 15, dtype=given).view(3, 5)
        with torch.autocast("cpu", dtype=dtype):
            assert equal(attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda q, k, v: (q[0], k[0], v[0], torch.ones(3, 5)), {"is_causal": True}),
        (lambda q, k, v: (q.half(), k, v), {}),
        (lambda q, k, v: (q, k, v, torch.ones(3, 5, dtype=torch.int64)), {}),
        (lambda q, k, v: (q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]), {}),
        (lambda q, k, v: (q, k[:, :, :, :3], v), {}),
        (lambda q, k, v: (q, k, v, torch.ones(2, 1, 1, 3, 5)), {}),
        (lambda q, k, v: (q, k, v), {"dropout_p": 1.5}),
        (lambda q, k, v: (q, k, v), {"dropout_p": -1.0}),
        (lambda q, k, v: (q.long(), k.long(), v.long()), {}),
        (lambda q, k, v: (torch.cat([q, q[:, :1]], 1), k, v), {"enable_gqa": True}),
    ],
    ids=[
        "mask and causal",
        "dtypes",
        "int mask",
        "1 dim",
        "width",
        "mask too large",
        "dropout",
        "negative",
        "integers",
        "heads",
    ],
)
def test_what_torch_refuses_is_refused_in_its_words(change: object, options: dict[str, object]) -> None:
    given = change(*tensors(2, 2, 3, 4))
    said = []
    for run in (
        lambda: F.scaled_dot_product_attention(*given, **options),
        lambda: shapetrace.trace(Fused(**options), *given, materialise=True),
    ):
        with pytest.raises(RuntimeError) as error:
            run()
        said.append(str(error.value))
    assert said[0] == said[1]


# The record


def names(trace: Trace) -> list[str]:
    """Variables in the order of the calls, where the result of the last one is that of all."""
    found = [variable for call in trace.calls if call.kind == "function" for variable in call.variables.values()]
    return found[:-1] if len(found) > 1 else found


def test_scores_and_weights_are_in_the_record_and_the_header_says_so() -> None:
    q, k, v = tensors(2, 2, 3, 4)
    trace = shapetrace.trace(Fused(), q, k, v, materialise=True, axes=False)
    assert names(trace) == ["out", "scores", "weights"]
    assert trace[""]["scores"].shape == trace[""]["weights"].shape == (2, 2, 3, 5)
    assert trace.notes == (NOTE,)


def test_it_is_off_unless_asked_for() -> None:
    q, k, v = tensors(2, 2, 3, 4)
    trace = shapetrace.trace(Fused(), q, k, v, axes=False)
    assert (names(trace), trace.notes) == (["out"], ())


def test_where_there_was_nothing_to_write_out_nothing_is_said() -> None:
    assert shapetrace.trace(nn.Linear(2, 2), torch.zeros(1, 2), materialise=True).notes == ()


def test_the_look_at_whether_a_row_sees_nothing_is_not_recorded() -> None:
    q, k, v = tensors(2, 2, 3, 4)
    for ops in (False, True):
        found = [
            call.name
            for call in shapetrace.trace(Fused(), q, k, v, MASKS["bool"], materialise=True, ops=ops).calls
            if call.name.removeprefix("aten.") in ("all", "any", "eq", "_local_scalar_dense")
        ]
        assert found == []
    blocked = shapetrace.trace(Fused(), q, k, v, MASKS["a row that sees nothing"], materialise=True)
    assert names(blocked) == ["out", "scores", "scores", "weights", "weights"]


def test_of_tensors_without_values_the_shapes_are_recorded() -> None:
    with FakeTensorMode():
        q, k, v = (torch.empty(2, 2, 3, 4) for _ in range(3))
        trace = shapetrace.trace(Fused(), q, k, v, torch.ones(3, 3, dtype=torch.bool), materialise=True)
    assert trace[""]["weights"].shape == (2, 2, 3, 3)
    meta = [tensor.to("meta") for tensor in tensors(2, 2, 3, 4)]
    trace = shapetrace.trace(Fused(), *meta, torch.ones(3, 5, dtype=torch.bool, device="meta"), materialise=True)
    assert trace[""]["weights"].shape == (2, 2, 3, 5)


def test_it_holds_for_a_block_and_in_a_training_loop() -> None:
    q, k, v = tensors(2, 2, 3, 4)
    model = Fused()
    with shapetrace.attach(model, materialise=True) as tap:
        inside = model(q, k, v)
    after = model(q, k, v)
    assert names(tap.traces[0]) == ["out", "scores", "weights"]
    assert torch.equal(after, F.scaled_dot_product_attention(q, k, v))
    assert equal(inside, after)
    handle = shapetrace.attach(model, every=2, materialise=True)
    for _ in range(3):
        model(q, k, v)
    handle.detach()
    assert [names(trace) for trace in handle.traces] == [["out", "scores", "weights"]] * 2


def test_without_functions_there_is_nothing_to_show_it_in() -> None:
    with pytest.raises(ShapetraceError) as error:
        shapetrace.trace(nn.Linear(2, 2), torch.zeros(1, 2), functions=False, materialise=True)
    assert str(error.value) == "materialise shows what functions make: it needs functions=True"


def test_they_have_the_roles_and_axes_of_attention_and_are_not_said_to_be_missing() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(3, 5, 8)
    for materialise in (False, True):
        trace = shapetrace.trace(attention, x, x, x, need_weights=False, materialise=materialise)
        found = {role: [record.materialised for record in trace.roles(role)] for role in ("scores", "weights")}
        assert found == {"scores": [materialise], "weights": [materialise]}
        assert [len(trace.roles(role)) for role in ("q", "k", "v", "head_output")] == [1, 1, 1, 1]


# Inside of torch's own modules: "how do I get at the [T, T] scores?"


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_scores_inside_multi_head_attention(need_weights: bool, training: bool, masked: bool) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    x = torch.randn(3, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5) if masked else None
    options = {"need_weights": need_weights, "attn_mask": mask, "average_attn_weights": False}
    with shapetrace.attach(attention, materialise=True) as tap:
        watched, weights = attention(x, x, x, **options)
    plain, _ = attention(x, x, x, **options)
    assert equal(watched, plain)
    found = [
        call.outputs[""].shape
        for call in tap.traces[0].calls
        if call.name == "softmax" and call.kind == "function" and call.outputs
    ]
    assert found == [(6, 5, 5) if need_weights else (3, 2, 5, 5)]  # torch itself puts batch and heads into one dim
    assert (weights is not None) == need_weights


@pytest.mark.parametrize("training", [False, True])
def test_the_scores_inside_an_encoder_layer(training: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(training)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    x = torch.randn(3, 5, 8)
    with torch.no_grad():  # in eval torch would run all of it as one fused kernel
        trace = shapetrace.trace(encoder, x, materialise=True)
        with shapetrace.attach(encoder, materialise=True):
            watched = encoder(x)
        assert equal(watched, encoder(x))
    for path in ("layers.0.self_attn", "layers.1.self_attn"):
        assert trace[path]["scores"].shape == trace[path]["weights"].shape == (3, 2, 5, 5)


class Grouped(nn.Module):
    """Four heads that share `G` keys and values, with a stream around them."""

    def __init__(self, G: int) -> None:
        super().__init__()
        self.token, self.norm, self.G = nn.Embedding(20, 32), nn.LayerNorm(32), G
        self.q, self.kv, self.out = nn.Linear(32, 32), nn.Linear(32, 16 * G), nn.Linear(32, 32)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (4, 8)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, self.G, 8)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("G", [1, 2, 4])
def test_what_is_written_out_has_the_letters_and_roles_that_it_has_fused(G: int) -> None:
    ids = torch.zeros(2, 6, dtype=torch.long)
    fused, real = (shapetrace.trace(Grouped(G), ids, materialise=materialise) for materialise in (False, True))
    assert outside(real) == outside(fused)
    assert real.sizes == fused.sizes
    for role in ("q", "k", "v", "scores", "weights", "head_output"):
        assert real.roles(role)[-1].axes == fused.roles(role)[-1].axes


FUSED = "scaled_dot_product_attention"


def outside(trace: Trace) -> list[list[tuple[object, ...]]]:
    """Of each call outside of the fused one its tensors, with axes and role."""
    calls = [call for call in trace.calls if call.name != FUSED and (call.depth < 2 or call.path)]
    return [
        [(call.name, key, t.axes, t.role) for place in (call.inputs, call.outputs) for key, t in place.items()]
        for call in calls
    ]
