"""What a comparison of two running models says, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace import ShapetraceError, ValuesDiff, compare_values
from shapetrace.models.gpt import gpt
from shapetrace.renderers import Style, values


class Net(nn.Module):
    def __init__(self, factor: float = 2.0, offset: float = 1.0) -> None:
        super().__init__()
        self.factor, self.offset = factor, offset

    def forward(self, x: Tensor) -> Tensor:
        wide = x * self.factor
        y = wide + self.offset
        return y


class Split(nn.Module):
    """As Net, in another order: 2 · (x + 1/2) is 2x + 1."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x + 0.5
        y = wide * 2
        return y


X = torch.tensor([[1.0, -2.0, 4.0]])


def text(found: ValuesDiff, *, all: bool = False) -> str:
    return values(found, Style(width=80, color=False, all=all))


def test_two_models_that_compute_the_same_are_the_same() -> None:
    found = compare_values(Net(), Net(), X)
    assert not found
    assert text(found) == ("--- Net  Net\n+++ Net  Net\n    inputs   the same\n    weights  each its own\n3 same")


def test_the_first_tensor_that_diverges_is_named_with_its_differences() -> None:
    # wide is [2, -4, 8] and [2.5, -5, 10]: it differs by [0.5, 1, 2], of [2, 4, 8] a quarter each
    assert text(compare_values(Net(2), Net(2.5), X)) == (
        "--- Net  Net\n"
        "+++ Net  Net\n"
        "    inputs   the same\n"
        "    weights  each its own\n"
        "!   wide  [B,3]\n"
        "      the first tensor that diverges: 3 of 3 elements, rtol 1.3e-06, atol 1e-05\n"
        "      largest absolute difference  2 at [0,2]: 8 → 10\n"
        "      largest relative difference  0.25 at [0,0]: 2 → 2.5\n"
        "      after is before times 1.25\n"
        "    after it\n"
        "      y  [B,3]  2\n"
        "2 diverge · 0 same"
    )


def test_what_the_first_that_diverges_is_made_of_and_the_other_side_has_not_is_told() -> None:
    class Net(nn.Module):
        def __init__(self, scale: float | None) -> None:
            super().__init__()
            self.linear, self.norm, self.scale = nn.Linear(4, 4), nn.LayerNorm(4, eps=0), scale

        def forward(self, x: Tensor) -> Tensor:
            x = self.linear(x)
            if self.scale is not None:
                x = x * self.scale
            normed = self.norm(x)
            return x + normed

    torch.manual_seed(0)
    found = compare_values(Net(None), Net(3.0), torch.randn(2, 4), weights="copy")
    assert found.first is not None
    assert [(one and one.call.name, other and other.call.name) for one, other in found.alone] == [(None, "mul")]


def test_steps_that_differ_and_come_to_the_same_are_no_divergence() -> None:
    found = compare_values(Net(), Split(), X)
    assert not found
    assert [(each.before.name, each.after.name) for each in found.within] == [("wide", "wide")]
    assert text(found).splitlines()[-1] == "1 differ without effect beyond the tolerance · 2 same"
    assert text(found).splitlines()[-3] == "    without effect"


class Heads(nn.Module):
    """q in heads: [B, H, T, D], or where it is, [B, T, H, D]; turned or not, and scaled."""

    def __init__(self, *, moved: bool, turned: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.moved, self.turned, self.scale = moved, turned, scale

    def forward(self, x: Tensor) -> Tensor:
        q = x.view(2, 5, 3, 4)
        if self.turned:
            q = q.flip(2)
        if self.moved:
            q = q.permute(0, 2, 1, 3)
        wide = q * self.scale
        total = wide.sum(dim=-1)
        return total.sum(dim=1 if self.moved else 2)


def test_what_is_kept_in_another_layout_is_compared_in_the_one_that_fits() -> None:
    x = torch.randn(2, 5, 12)
    found = compare_values(Heads(moved=True), Heads(moved=False), x)
    assert (bool(found), found.uncompared) == (False, 0)
    found = compare_values(Heads(moved=True), Heads(moved=False, scale=2.0), x)
    assert found.first is not None
    assert (found.first.before.name, found.first.after.name) == ("wide", "wide")
    found = compare_values(Heads(moved=True), Heads(moved=False, turned=True), x)
    assert "wide" in {each.after.name for each in found.within}  # the same numbers, in an order that no layout is


def test_a_tolerance_is_relative_to_the_first_side_or_absolute() -> None:
    # |2.5x - 2x| = 0.25 · |2x|; of y = [3, -3, 9] the largest share is 1/3, and the largest difference 2
    assert compare_values(Net(2), Net(2.5), X, rtol=0.24, atol=0)
    assert not compare_values(Net(2), Net(2.5), X, rtol=0.34, atol=0)
    assert compare_values(Net(2), Net(2.5), X, rtol=0, atol=1.9)
    assert not compare_values(Net(2), Net(2.5), X, rtol=0, atol=2)


def test_it_is_said_where_nan_starts_and_on_which_side() -> None:
    found = compare_values(Net(), Net(float("nan")), X)
    before, after = found.strange
    assert before.nan is None
    assert after.nan is not None
    assert after.nan.name == "wide"
    assert "    NaN starts after at wide\n" in text(found)
    assert "largest absolute difference  inf at [0,0]: 2 → nan\n" in text(found)


def test_nan_that_is_written_into_a_tensor_is_met_where_that_is_done() -> None:
    class Writes(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: Tensor) -> Tensor:
            rows = x * 2
            rows[0, 1] = self.value
            return rows.sum()

    found = compare_values(Writes(1.0), Writes(float("nan")), X)
    assert found.first is not None
    assert (found.first.before.call.name, found.first.before.name) == ("__setitem__", "rows")
    said = next(line for line in text(found).splitlines() if "NaN starts" in line)
    assert re.fullmatch(r"    NaN starts after at rows, changed by \[…\] = \(test_values.py:\d+\)", said)


def test_nan_in_the_same_places_is_the_same() -> None:
    assert not compare_values(Net(float("nan")), Net(float("nan")), X)


def test_the_sides_swapped_part_at_the_same_tensor() -> None:
    one, other = compare_values(Net(2), Net(3), X), compare_values(Net(3), Net(2), X)
    assert one.first is not None
    assert other.first is not None
    assert (one.first.before.name, len(one.diverging)) == (other.first.before.name, len(other.diverging))


def test_a_tensor_that_is_written_to_later_is_compared_as_it_was() -> None:
    class Written(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            y *= self.factor
            return y

    found = compare_values(Written(1), Written(3), X)
    assert found.first is not None
    assert found.first.before.call.name in ("__imul__", "mul_")
    assert found.same == 1


# --- what is left alone ----------------------------------------------------------------------------------------------


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))


def test_neither_the_models_nor_random_numbers_are_changed() -> None:
    torch.manual_seed(0)
    models, x = (dropping(), dropping()), torch.randn(5, 3)
    kept = [{name: tensor.clone() for name, tensor in model.state_dict().items()} for model in models]
    state = torch.get_rng_state()
    compare_values(*models, x, weights="copy")
    assert torch.equal(torch.get_rng_state(), state)
    for model, before in zip(models, kept, strict=True):
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        assert [module._forward_hooks for module in model.modules()] == [{}, {}, {}, {}]


def test_both_sides_draw_the_same_random_numbers() -> None:
    model = dropping()
    assert not compare_values(model, model, torch.randn(5, 3))


# --- weights ---------------------------------------------------------------------------------------------------------


def named(first: str, second: str) -> nn.Module:
    model = nn.Sequential()
    model.add_module(first, nn.Linear(3, 3))
    model.add_module(second, nn.Linear(3, 2))
    return model


def test_weights_go_by_name_and_the_rest_by_what_is_made_with_them() -> None:
    found = compare_values(named("a", "b"), named("up", "b"), X, weights="copy")
    assert (bool(found), found.weights) == (False, "4 copied, 2 by what is made with them")


def test_weights_with_which_nothing_is_made_go_by_the_order_of_equal_shapes() -> None:
    class Idle(nn.Linear):
        def __init__(self, name: str) -> None:
            super().__init__(3, 3)
            self.register_parameter(name, nn.Parameter(torch.randn(7)))

    found = compare_values(Idle("one"), Idle("other"), X, weights="copy")
    assert (bool(found), found.weights) == (False, "3 copied, 1 by the order of equal shapes")


def test_it_is_said_which_weights_have_no_like() -> None:
    found = compare_values(nn.Linear(3, 2), nn.Linear(3, 2, bias=False), X, weights="copy")
    assert found.weights == "1 copied, 1 of before went nowhere: bias"
    found = compare_values(nn.Linear(3, 2, bias=False), nn.Linear(3, 2), X, weights="copy")
    assert found.weights == "1 copied, 1 of after have no like: bias"


def test_weights_that_one_side_has_in_one_and_the_other_in_three_are_cut_apart_or_joined() -> None:
    fused, separate = gpt(qkv="fused"), gpt(qkv="separate")
    for before, after, cut in ((fused, separate, 12), (separate, fused, 4)):
        found = compare_values(before[0], after[0], **before[2], weights="copy")
        count = len(list(after[0].parameters()))
        assert (bool(found), found.weights) == (False, f"{count} copied, {cut} by what is made with them")


def test_a_function_of_ones_own_puts_the_weights_into_a_copy() -> None:
    one, other = nn.Linear(3, 3), nn.Linear(3, 3)
    own = other.weight.clone()

    def port(before: nn.Module, after: nn.Module) -> None:
        after.load_state_dict(before.state_dict())

    found = compare_values(one, other, X, weights=port)
    assert (bool(found), found.weights) == (False, "put in by port")
    assert torch.equal(other.weight, own)


def test_a_model_that_runs_otherwise_each_time_is_refused() -> None:
    runs: list[int] = []

    class Restless(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            runs.append(0)
            for _ in runs:
                x = x + 1
            return x

    with pytest.raises(ShapetraceError) as error:
        compare_values(Restless(), Net(), X)
    assert str(error.value).startswith("Restless gave 2 tensors in one run and ")


class Gives(nn.Module):
    """Gives y in the way that it is made with."""

    def __init__(self, way: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> object:
        y = x * 2
        return self.way(y)


@pytest.mark.parametrize(
    ("one", "other", "is_different", "said"),
    [
        (lambda y: y, lambda y: None, True, "before: output [B,3]"),
        (lambda y: y, lambda y: [y, y + 1], False, "after: output[1] [B,3]"),
        (lambda y: {"a": y, "b": y}, lambda y: {"a": y}, False, "before: output.b [B,3]"),
        (lambda y: y, lambda y: y.to_sparse(), True, "after: output [B,3]"),
    ],
)
def test_what_a_model_returns_and_is_compared_with_nothing_is_told(
    one: Callable[[Tensor], object], other: Callable[[Tensor], object], is_different: bool, said: str
) -> None:
    found = compare_values(Gives(one), Gives(other), X)
    assert bool(found) == is_different
    side, what = said.split(": ")
    assert f"returned {side}, and compared with nothing: {what}" in text(found)


def test_a_field_must_be_left_to_compare() -> None:
    trace = shapetrace.trace(Net(), X)
    with pytest.raises(ShapetraceError) as error:
        shapetrace.compare(trace, trace, only=["shape"], ignore=["shape"])
    assert str(error.value) == "nothing is left to compare: every field is ignored"


# --- what is damped, and what is hidden ------------------------------------------------------------------------------


class Damped(nn.Module):
    """Two layers with an activation between them; the second makes little of what it is given."""

    def __init__(self, approximate: str, width: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.approximate = nn.Linear(4, 4), nn.Linear(4, 4), approximate
        with torch.no_grad():
            self.down.weight *= width

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.up(x), approximate=self.approximate)
        out: Tensor = self.down(hidden)
        return out


@pytest.mark.parametrize("width", [1.0, 1e-1, 1e-2])
def test_a_difference_that_later_steps_damp_is_still_where_the_models_part(width: float) -> None:
    found = compare_values(Damped("none", width), Damped("tanh", width), torch.randn(3, 4))
    assert found.first is not None
    assert found.first.before.name == "hidden"
    assert found.within == ()


class Masked(nn.Module):
    """Attention with a mask of some size, or all of whose scores are lower by some number."""

    def __init__(self, mask: float, lower: float = 0.0, times: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.mask, self.lower, self.times = mask, lower, times

    def forward(self, x: Tensor) -> Tensor:
        hides = torch.ones(3, 3, dtype=torch.bool).triu(1)
        scores = (self.q(x) @ self.k(x).mT * self.times - self.lower).masked_fill(hides, self.mask)
        weights = scores.softmax(-1)
        return weights @ x


@pytest.mark.parametrize("mask", [-torch.inf, -1e5, torch.finfo(torch.float32).min])
def test_masks_of_other_sizes_that_hide_the_same_are_the_same(mask: float) -> None:
    found = compare_values(Masked(-1e9), Masked(mask), torch.randn(1, 3, 4))
    assert (bool(found), found.within) == (False, ())


def test_of_masked_scores_the_numbers_are_told_that_are_there() -> None:
    found = compare_values(Masked(-1e9), Masked(0.5), torch.randn(1, 3, 4))
    assert found.first is not None
    assert found.first.apart is not None
    told = found.first.apart.absolute
    assert (found.first.before.role, told.before, told.after) == ("scores", -1e9, 0.5)


def test_scores_that_are_all_very_low_are_compared_like_any_other() -> None:
    found = compare_values(Masked(-1e9, 2e4, 3.0), Masked(-1e9, 2e4, 5.0), torch.linspace(-2, 2, 12).view(1, 3, 4))
    assert found.first is not None
    assert found.first.before.role == "scores"
