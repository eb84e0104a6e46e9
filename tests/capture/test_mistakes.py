"""Mistakes as people make them in models that they write: what is said is right, and what is advised mends them."""

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.diagnosis import diagnosis

from .mistakes import B, C, Mistake, Net, Step, T, forms, functions, heads, positions, runs, said, shapes

TABLES = (shapes.MISTAKES, heads.MISTAKES, functions.MISTAKES, positions.MISTAKES, forms.MISTAKES)
MISTAKES: dict[str, Mistake] = {name: mistake for table in TABLES for name, mistake in table.items()}


def test_each_mistake_has_a_name_of_its_own() -> None:
    assert len(MISTAKES) == sum(map(len, TABLES))


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str) -> None:
    assert said(MISTAKES[name].step) == MISTAKES[name].said


@pytest.mark.parametrize("name", [name for name, mistake in MISTAKES.items() if mistake.mended])
def test_what_is_advised_mends_it(name: str) -> None:
    step = MISTAKES[name].mended
    assert step is not None
    runs(step)


def unpack_what_is_not_seen(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    a, (b, c) = net.gru(x)[0].shape
    return x


def unpack_a_list(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    a, b = [*x.chunk(2), x]
    return a


@pytest.mark.parametrize("step", [unpack_what_is_not_seen, unpack_a_list])
def test_what_was_unpacked_is_not_guessed(step: Step) -> None:
    assert said(step) is None


class Forgetful(nn.Module):
    """Does not return what it made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(C, C)

    def forward(self, x: Tensor) -> None:
        self.linear(x)


class Outer(nn.Module):
    def __init__(self, inner: nn.Module, how: int) -> None:
        super().__init__()
        self.inner, self.how, self.linear, self.bias = inner, how, nn.Linear(C, C), None

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        ways = (lambda: x + y, lambda: self.linear(y), lambda: y.relu(), lambda: torch.cat([x, y]))
        return ways[self.how]() if self.how < 4 else x.relu() + self.bias


def explained(inner: nn.Module, how: int) -> str | None:
    with pytest.raises((TypeError, AttributeError)) as raised:
        shapetrace.trace(Outer(inner, how), torch.zeros(B, T, C))
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    return diagnosis(trace)


@pytest.mark.parametrize("how", range(4))
def test_a_forward_without_a_return_is_told(how: int) -> None:
    assert explained(Forgetful(), how) == "inner (Forgetful) gave no tensor: does its forward end in a return?"


@pytest.mark.parametrize("how", range(3))
def test_a_pair_that_is_taken_for_a_tensor_is_told(how: int) -> None:
    said = explained(nn.GRU(C, 8), how) or ""
    assert said.startswith(("inner (GRU) gives several, the first of them a tensor [", "Linear takes a tensor, and"))


def test_another_none_is_no_forgotten_return() -> None:
    assert explained(nn.Linear(C, C), 4) is None
