"""The loss, of torch's own functions or written out, and what it is of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.roles import name_roles
from tests.passes.parts import IDS, Block, Gated, Language, X, said, traced


class Learner(nn.Module):
    """What it is given says as much as nine classes, and a loss of that."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.loss = nn.Linear(8, 9), loss

    def forward(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.head(x)
        return scores, self.loss(scores, targets)


def picked(scores: Tensor, targets: Tensor) -> Tensor:
    return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def flattened(scores: Tensor, targets: Tensor) -> Tensor:
    logarithms = scores.view(-1, 9).log_softmax(-1)
    return -logarithms[torch.arange(8), targets.view(-1)].mean()


def masked(scores: Tensor, targets: Tensor) -> Tensor:
    is_real = (targets != 0).float()
    return -(picked(scores.log_softmax(-1), targets) * is_real).sum() / is_real.sum()


CHOICES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "log_softmax and gather": lambda s, t: -picked(s.log_softmax(-1), t).mean(),
    "gathered, then negative": lambda s, t: picked(-F.log_softmax(s, -1), t).sum(),
    "by index": flattened,
    "nll_loss": lambda s, t: F.nll_loss(s.log_softmax(-1).flatten(0, 1), t.flatten()),
    "masked": masked,
    "logsumexp less the target's": lambda s, t: (s.logsumexp(-1) - picked(s, t)).mean(),
    "less logsumexp": lambda s, t: -picked(s - s.logsumexp(-1, keepdim=True), t).mean(),
    "softmax, then log": lambda s, t: -picked(s.softmax(-1).log(), t).mean(),
    "the target's, then log": lambda s, t: picked(s.softmax(-1), t).log().mean() * -1,
    "one-hot": lambda s, t: -(F.one_hot(t, 9) * s.log_softmax(-1)).sum(-1).mean(),
    "smoothed": lambda s, t: -(0.9 * picked(s.log_softmax(-1), t) + 0.1 * s.log_softmax(-1).mean(-1)).mean(),
    "not reduced": lambda s, t: F.cross_entropy(s.mT, t, reduction="none").mean(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_loss_over_classes_is_one_however_it_is_written(name: str) -> None:
    assert said(traced(Learner(CHOICES[name]), X, IDS)) == ["scores: logits", "output[1]: loss"]


VALUES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse_loss": lambda s, t: F.mse_loss(s, t),
    "squares": lambda s, t: ((s - t) ** 2).mean(),
    "squares by product": lambda s, t: ((t - s) * (t - s)).mean(),
    "absolute": lambda s, t: (s - t).abs().sum(-1).mean(),
    "some of them": lambda s, t: (s[:, 1:] - t[:, 1:]).square().mean(),
    "of two classes": lambda s, t: -(t * s.sigmoid().log() + (1 - t) * (1 - s.sigmoid()).log()).mean(),
    "binary_cross_entropy": lambda s, t: F.binary_cross_entropy(s.sigmoid(), t),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_loss_of_values_has_no_logits(name: str) -> None:
    class Attending(Learner):
        def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
            return super().forward(self.block(self.table(ids)), targets)[1]

    model = Attending(VALUES[name])
    model.table, model.block = nn.Embedding(20, 8), Block(Gated())
    found = said(traced(model, IDS, torch.rand(2, 4, 9)))
    assert found[-1] == "output: loss"
    assert "logits" not in str(found)


NO_LOSS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "accuracy": lambda s, t: (s.argmax(-1) == t).float().mean(),
    "likelihood": lambda s, t: picked(s.log_softmax(-1), t).sum(),
    "entropy": lambda s, t: -(s.softmax(-1) * s.log_softmax(-1)).sum(-1).mean(),
    "mean": lambda s, t: s.mean() + t.float().mean(),
    "length": lambda s, t: s.pow(2).sum().sqrt(),
}


@pytest.mark.parametrize("name", NO_LOSS)
def test_other_numbers_that_a_model_gives_are_no_loss(name: str) -> None:
    trace = traced(Language(Block(Gated())), IDS)
    assert len(trace.roles("loss")) == 1
    assert traced(Learner(NO_LOSS[name]), X, IDS).roles("loss") == []


def test_a_loss_that_is_written_out_after_the_model_is_one() -> None:
    head = nn.Linear(8, 9)
    with shapetrace.attach(head) as tap:
        scores = head(X)
        loss = -picked(scores.log_softmax(-1), IDS).mean()
        loss.backward()
    trace = name_roles(tap.traces[0])
    assert said(trace) == ["scores: logits", "loss: loss"]


def test_what_a_model_gives_in_a_field_called_logits_are_logits() -> None:
    class Embedded(Language):
        """Without tokens, nothing else tells what it chooses from."""

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.head(self.norm(self.blocks[0](x)))}

    found = said(traced(Embedded(Block(Gated())), X))
    assert found[-2:] == ["norm: norm", "head: logits"]
