"""Which input of one model is which of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import compare_values
from shapetrace.errors import InputError
from shapetrace.models.transformer import transformer
from shapetrace.values.inputs import Inputs, refilled
from shapetrace.values.uses import uses

X = torch.tensor([[1.0, -2.0, 4.0]])


def takes(source: str) -> nn.Module:
    space: dict[str, Callable[..., Tensor]] = {}
    exec(f"def forward(self, {source}): return {source.split(',')[0]} * 2", space)
    return type("Takes", (nn.Module,), {"forward": space["forward"]})()


def test_an_input_of_another_name_goes_to_the_same_place() -> None:
    assert not compare_values(takes("ids, mask=None"), takes("input_ids, attention_mask=None"), ids=X)


@pytest.mark.parametrize("source", ["input_ids", "input_ids, targets=None"])
def test_an_input_that_has_no_place_is_refused(source: str) -> None:
    with pytest.raises(InputError) as error:
        compare_values(takes("ids, mask=None"), takes(source), ids=X, mask=X)
    names = source.replace("=None", "")
    assert str(error.value) == f"Takes has no input 'mask', nor one in its place; it takes {names}"


# --- each side has its own -------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Its forward is given a table of names: what it takes -> what that is here."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names
        self.tokens, self.places = nn.Embedding(50, 8), nn.Embedding(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 50)

    def forward(self, **given: Tensor) -> Any:
        of = {self.names[name]: value for name, value in given.items()}
        ids = of["ids"]
        x = self.tokens(ids) + self.places(of.get("places", torch.arange(ids.shape[1])))
        padding = of["mask"] == 0 if "mask" in of else None
        memory = of.get("memory", x)
        y, _ = self.attention(x, memory, memory, key_padding_mask=padding)
        logits = self.head(x + y)
        if "targets" not in of:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), of["targets"].flatten())


def ids(start: int = 0) -> Tensor:
    return torch.arange(start, start + 10).view(2, 5)


VALUES = {
    "ids": ids,
    "targets": lambda: ids(20),
    "places": lambda: torch.arange(5).expand(2, 5).clone(),
    "mask": lambda: torch.ones(2, 5, dtype=torch.long),
    "memory": lambda: torch.randn(2, 5, 8),
}


def pairing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What is said of two models whose inputs have these names and do this."""
    sides = []
    for names in (ours, theirs):
        model, given = Net(names), {name: VALUES[does]() for name, does in names.items()}
        sides.append((model, Inputs((), given), uses(shapetrace.trace(model, **given))))
    (before, given, used), (after, own, there) = sides
    return refilled(before, after, given, own, (used, there))[1]


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"a": "ids"}, {"b": "ids"}, "a as b"),
        ({"a": "ids", "b": "targets"}, {"c": "targets", "d": "ids"}, "a as d, b as c"),
        ({"a": "ids", "b": "memory"}, {"c": "memory", "d": "ids"}, "a as d, b as c"),
        (
            {"input_ids": "ids", "attention_mask": "mask", "position_ids": "places"},
            {"tokens": "ids", "targets": "targets", "mask": "mask"},
            "input_ids as tokens, attention_mask as mask; after's own targets; before's position_ids left out",
        ),
        ({"x": "ids", "m": "mask"}, {"x": "ids", "n": "targets"}, "x; after's own n; before's m left out"),
        ({"a": "memory", "b": "ids"}, {"c": "ids"}, "b as c; before's a left out"),
        ({"x": "memory", "ids": "ids"}, {"ids": "ids", "x": "targets"}, "ids; after's own x; before's x left out"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_inputs_of_other_names_are_known_by_what_the_models_do_with_them(
    ours: Mapping[str, str], theirs: Mapping[str, str], said: str
) -> None:
    assert pairing(ours, theirs) == said


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"x": X}, {"z": X}, "x as z"),
        ({"a": X, "b": X + 1}, {"c": X, "d": X}, "a as c, b as d"),
        ({"a": X, "b": X + 1}, {"c": X}, "after's own c; before's a, b left out"),
        ({"a": X}, {"c": X.long()}, "after's own c; before's a left out"),
        (
            {"attention_mask": X, "a": X + 1},
            {"labels": X, "b": X},
            "after's own labels, b; before's attention_mask, a left out",
        ),
        ({"attention_mask": X, "a": X + 1}, {"b": X, "mask": X}, "attention_mask as mask, a as b"),
        ({"q": X, "k": X, "v": X}, {"v": X}, "v"),
        ({"input_ids": X, "labels": X}, {"ids": X, "my_labels": X}, "input_ids as ids, labels as my_labels"),
    ],
)
def test_where_nothing_is_known_of_them_by_their_names_and_form(
    ours: dict[str, Tensor], theirs: dict[str, Tensor], said: str
) -> None:
    before, after = Net({}), Net({})
    assert refilled(before, after, Inputs((), ours), Inputs((), theirs))[1].startswith(said)


def test_source_and_target_of_a_seq2seq_model_are_known_by_their_axes() -> None:
    model, args, kwargs = transformer(B=2, T=4, S=3)
    found = uses(shapetrace.trace(model, *args, **kwargs))
    assert {name: (use.axes, sorted(use.roles)) for name, use in found.items()} == {
        "source_ids": (("B", "S"), ["token_embedding"]),
        "target_ids": (("B", "T"), ["token_embedding"]),
        "targets": (("B", "T"), ["loss"]),
    }
