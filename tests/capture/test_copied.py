"""A copy of a model runs in its place, and nothing of it is the model's own."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import prune, spectral_norm

from shapetrace.capture.copied import copied, weightless

X = torch.ones(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.norm = nn.BatchNorm1d(4)
        self.lock = threading.Lock()
        self.guards = threading.RLock()
        self.generator = torch.Generator().manual_seed(1)
        self.kept: list[Tensor] = []
        self.ran = 0

    def forward(self, x: Tensor) -> Tensor:
        with self.lock, self.guards:
            self.ran += 1
            self.kept.append(self.linear(x))
            return self.tied(self.norm(self.kept[-1])) + torch.rand(1, generator=self.generator)


def test_a_copy_gives_the_same_and_changes_nothing_of_the_model() -> None:
    model = Net()
    model(X)
    before = (model.ran, len(model.kept), model.norm.num_batches_tracked.item(), model.generator.get_state())
    other = copied(model)
    result = other(X)
    after = (model.ran, len(model.kept), model.norm.num_batches_tracked.item(), model.generator.get_state())
    assert all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in zip(before, after, strict=True))
    assert torch.equal(result, model(X))
    assert other.linear.weight is other.tied.weight
    assert other.linear.weight is not model.linear.weight


def test_the_users_hooks_are_not_copied_and_not_called_and_those_of_torch_are() -> None:
    lock, seen = threading.Lock(), []

    class Log:
        def __init__(self) -> None:
            self.lock = lock  # it cannot be copied

        def __call__(self, *args: Any) -> None:
            seen.append(len(args))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 4))
    prune.random_unstructured(model[1], "weight", 0.5)
    model.register_forward_hook(Log())
    model[0].register_forward_pre_hook(Log())
    model[0].register_full_backward_hook(Log())
    other = copied(model)
    other(X).sum().backward()
    assert seen == []
    assert len(other[0]._forward_pre_hooks) == len(other[1]._forward_pre_hooks) == 1
    model(X)
    assert seen == [2, 3]


def test_a_function_in_the_place_of_forward_runs_the_copy() -> None:
    def wrapped(model: nn.Module, times: int) -> Callable[[Tensor], Tensor]:
        before = model.forward
        return lambda x: before(x) * times

    model = nn.Sequential(nn.BatchNorm1d(4))
    model.forward = wrapped(model, 2)
    model.forward = wrapped(model, 3)
    copied(model)(X + torch.arange(2.0)[:, None])
    assert model[0].num_batches_tracked.item() == 0
    model(X)
    assert model[0].num_batches_tracked.item() == 1


def test_so_does_one_that_finds_the_model_among_its_globals() -> None:
    place: dict[str, Any] = {"model": nn.Sequential(nn.BatchNorm1d(4)), "count": 0}
    exec("before = model.forward\ndef forward(x):\n    global count\n    count += 1\n    return before(x)", place)
    model = place["model"]
    model.forward = place["forward"]
    copied(model)(X)
    assert (model[0].num_batches_tracked.item(), place["count"]) == (0, 0)


def test_a_function_that_holds_nothing_of_a_module_is_shared() -> None:
    model = nn.Linear(4, 4)
    model.activation = torch.relu
    model.scale = lambda x: x * 2
    other = copied(model)
    assert (other.activation, other.scale) == (model.activation, model.scale)


def test_what_cannot_be_copied_raises_what_copying_it_raises() -> None:
    model = nn.Linear(4, 4)
    model.numbers = (number for number in (1, 2))
    with pytest.raises(TypeError) as raised:
        copied(model)
    assert str(raised.value) == "cannot pickle 'generator' object"


def test_a_weightless_copy_holds_no_memory_also_of_what_is_no_parameter() -> None:
    model = Net()
    model.kept.append(torch.zeros(2, 4))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        pass
    other = weightless(model, mode)
    tensors = [*other.parameters(), *other.buffers(), *other.kept]
    assert {type(tensor.data).__name__ for tensor in tensors} == {"FakeTensor"}
    assert other.linear.weight is other.tied.weight
    assert type(model.linear.weight.data) is Tensor
