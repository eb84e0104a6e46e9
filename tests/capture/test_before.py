"""A forward may change the model: what runs again begins where that forward began."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.capture.before import Before
from shapetrace.capture.copied import copied

IDS = torch.zeros(2, 4, dtype=torch.long)


def first(trace: shapetrace.Trace) -> list[tuple[str | int, ...]]:
    """The axes of what the model was given, and of what it gave."""
    call = trace.calls[0]
    return [tensor.axes or tensor.shape for tensor in (*call.inputs.values(), *call.outputs.values())]


class Remembering(nn.Module):
    """Its keys stay on it, in one of three ways, for the next forward."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.token = nn.Embedding(9, 8)
        self.way = way
        self.steps = 0
        self.past: Tensor | None = None
        self.pasts: list[Tensor] = []

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)
        before = {"attribute": [self.past], "list": self.pasts, "new": [getattr(self, "latest", None)]}[self.way]
        k = torch.cat([*(past for past in before if past is not None), x], 1)
        self.past = self.latest = k
        self.pasts.append(x)
        self.steps += 1
        return x if self.steps > 1 else torch.softmax(x @ k.mT, -1)


def test_a_cache_that_a_model_holds_is_as_empty_for_a_probe_as_it_was() -> None:
    for way in ("attribute", "list", "new"):
        model = Remembering(way)
        trace = shapetrace.trace(model, IDS)
        assert first(trace) == [("B", "T"), ("B", "T", "T")]
        assert (model.steps, len(model.pasts)) == (1, 1)


def test_a_model_is_run_again_in_the_mode_in_which_it_ran() -> None:
    model = nn.Sequential(nn.Embedding(9, 8), nn.Dropout(0.5))
    with shapetrace.attach(model) as tap:
        model(IDS)
    model.eval()
    assert first(tap.traces[0]) == [("B", "T"), ("B", "T", 8)]
    assert not model.training


def test_a_copy_is_as_the_model_was_before() -> None:
    model: Any = nn.Sequential(nn.Linear(4, 4))
    model[0].seen, model.words, model.kept = 1, ["a"], torch.zeros(2)
    before = Before(model)
    model[0].seen, model[0].more, model.kept = 2, "new", torch.zeros(3)
    model.words.append("b")
    model.eval()
    other: Any = copied(model, before)
    assert (other[0].seen, other.words, hasattr(other[0], "more"), other.training) == (1, ["a"], False, True)
    assert other.kept.shape == (3,)  # of tensors only the present ones are there
    assert (model[0].seen, model.words, model[0].more, model.training) == (2, ["a", "b"], "new", False)


def test_a_lazy_module_that_has_become_another_stays_what_it_is() -> None:
    model = nn.Sequential(nn.LazyLinear(4))
    assert first(shapetrace.trace(model, torch.zeros(2, 8))) == [("B", 8), ("B", 4)]


def test_no_tensor_stays_alive_for_it() -> None:
    model: Any = nn.Linear(4, 4)
    model.kept = torch.zeros(2)
    before = Before(model)
    assert not [value for _, part in before.parts.values() for value in part.values() if isinstance(value, Tensor)]
