"""A model that is run to see its shapes has weights that are drawn at little cost, and none that is like another."""

from __future__ import annotations

import torch
from torch import nn

from shapetrace.capture.drawn import FEW, FewDrawn


def test_large_weights_are_the_same_few_numbers_over_and_over_of_the_same_distribution() -> None:
    torch.manual_seed(0)
    with FewDrawn():
        weight = nn.init.normal_(torch.empty(3, FEW), mean=2.0, std=0.5)
    assert torch.equal(weight[0], weight[1])
    assert abs(float(weight.mean()) - 2.0) < 0.05
    assert abs(float(weight.std()) - 0.5) < 0.05


def test_rows_of_a_weight_are_not_alike() -> None:
    with FewDrawn():
        weight = nn.Linear(64, 512).weight
    assert weight.requires_grad
    assert len(weight.unique(dim=0)) == 512


def test_small_weights_and_such_as_lie_apart_are_drawn_as_ever() -> None:
    torch.manual_seed(0)
    plain = torch.empty(9, 9).normal_()
    torch.manual_seed(0)
    with FewDrawn():
        assert torch.equal(torch.empty(9, 9).normal_(), plain)
        apart = torch.empty(FEW, 4)[:, ::2].normal_()
    assert len(apart.unique()) > FEW


def test_fake_weights_stay_fake() -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with FakeTensorMode(), FewDrawn():
        assert isinstance(nn.Linear(1024, 64).weight, FakeTensor)


def test_a_distribution_that_is_cut_off_is_drawn_so_too_and_torch_is_as_before() -> None:
    before = nn.init._no_grad_trunc_normal_
    torch.manual_seed(0)
    with FewDrawn():
        weight = nn.init.trunc_normal_(nn.Parameter(torch.empty(3, FEW)), std=0.5, a=-1.0, b=1.0)
    assert nn.init._no_grad_trunc_normal_ is before
    assert torch.equal(weight[0], weight[1])
    assert weight.requires_grad
    assert float(weight.detach().abs().max()) <= 1
    assert abs(float(weight.detach().std()) - 0.44) < 0.02
