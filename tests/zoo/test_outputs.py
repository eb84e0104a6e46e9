from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.zoo.outputs import difference

ONE = torch.tensor([1.0, float("nan")])


def test_what_is_not_a_number_is_the_same_as_itself() -> None:
    assert difference({"logits": ONE, "loss": None}, {"logits": ONE.clone(), "loss": None}) is None


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"logits": torch.zeros(2)}, {"logits": -torch.zeros(2)}, "[logits] differs"),
        ({"logits": torch.zeros(2)}, {"logits": torch.zeros(1, 2)}, "[logits] differs"),
        ({"logits": torch.zeros(2)}, {"logits": torch.zeros(2, dtype=torch.int32)}, "[logits] differs"),
        ({"past": [(ONE, ONE)]}, {"past": [(ONE, ONE + 1)]}, "[past][0][1] differs"),
        ({"cache": SimpleNamespace(keys=ONE)}, {"cache": SimpleNamespace(keys=ONE + 1)}, "[cache][keys] differs"),
        ((ONE,), (ONE, ONE), "other tensors: ['[1]']"),
    ],
)
def test_the_first_difference_is_named(before: Any, after: Any, found: str) -> None:
    assert difference(before, after) == found


def test_a_structure_that_holds_itself_comes_to_an_end() -> None:
    whole: list[Any] = [ONE]
    whole.append(whole)
    assert difference(whole, whole) is None
