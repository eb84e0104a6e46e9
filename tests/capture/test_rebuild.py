"""A model is built again from whatever its configuration is, and its letters are the fields that size its axes."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.capture.rebuild import letters_of, rebuilt


class Net(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        field = config.get if isinstance(config, dict) else lambda name: getattr(config, name)
        self.token = nn.Embedding(field("vocab_size"), field("n_embd"))
        self.hidden = nn.Linear(field("n_embd"), field("n_inner") or 4 * field("n_embd"))

    def forward(self, ids: Tensor) -> Tensor:
        return self.hidden(self.token(ids))


FIELDS: dict[str, Any] = {"vocab_size": 16, "n_embd": 8, "n_inner": 12, "n_head": 2}


@dataclasses.dataclass
class Plain:
    vocab_size: int = 16
    n_embd: int = 8
    n_inner: int | None = 12
    n_head: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    vocab_size: int = 16
    n_embd: int = 8
    n_inner: int | None = 12
    n_head: int = 2

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError("heads do not divide the width")


@dataclasses.dataclass(slots=True)
class Slotted:
    vocab_size: int = 16
    n_embd: int = 8
    n_inner: int | None = 12
    n_head: int = 2


class Named(dict[str, Any]):
    """A dict whose entries are attributes, too, as some configurations are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


CONFIGS: dict[str, Callable[[], Any]] = {
    "namespace": lambda: SimpleNamespace(**FIELDS),
    "arguments": lambda: argparse.Namespace(**FIELDS),
    "dict": lambda: dict(FIELDS),
    "dict with attributes": lambda: Named(FIELDS),
    "dataclass": Plain,
    "frozen dataclass that checks": Frozen,
    "dataclass with slots": Slotted,
}


@pytest.mark.parametrize("make", CONFIGS.values(), ids=CONFIGS)
def test_a_model_is_built_again_from_its_configuration(make: Callable[[], Any]) -> None:
    model = Net(make())
    trace = shapetrace.trace(model, torch.zeros(2, 4, dtype=torch.long))
    assert trace.calls[0].outputs[""].axes == ("B", "T", "F")
    assert trace["token"]["output"].axes == ("B", "T", "C")
    assert letters_of(model) == {"C": 8, "H": 2, "F": 12, "V": 16, "D": 4}
    assert model.config == make() or vars(model.config) == vars(make())


def test_a_hidden_width_that_is_left_open_is_four_times_the_width() -> None:
    trace = shapetrace.trace(Net(Plain(n_inner=None)), torch.zeros(2, 4, dtype=torch.long))
    assert trace.calls[0].outputs[""].axes == ("B", "T", "F")


@pytest.mark.parametrize(
    ("fields", "letters"),
    [
        ({"hidden_dim": 8}, {"C": 8}),
        ({"dim": 8, "hidden_dim": 12}, {"C": 8, "F": 12}),
        ({"hidden_dim": 8, "ffn_dim": 12}, {"C": 8, "F": 12}),
        ({"T": 64, "B": 2, "S": 3, "P": 5, "C": 8}, {"C": 8}),
        ({"C": True, "H": 0, "V": -1, "D": 2.0, "F": "8"}, {}),
        ({"d_model": 8, "nhead": 3}, {"C": 8, "H": 3}),
        ({"d_model": 8, "nhead": 2, "d_kv": 3}, {"C": 8, "H": 2, "D": 3}),
        ({"num_heads": 4, "num_kv_heads": 2}, {"H": 4, "G": 2}),
        ({"num_heads": 4, "num_kv_heads": 4}, {"H": 4}),  # of each its own
        ({"d_model": 8, "embedding_size": 6}, {"C": 8, "M": 6}),
        ({"d_model": 8, "embedding_size": 8}, {"C": 8}),  # nothing is projected
    ],
)
def test_letters_are_the_whole_numbers_that_size_axes_of_the_model(
    fields: dict[str, Any], letters: dict[str, int]
) -> None:
    model = nn.Linear(1, 1)
    model.config = SimpleNamespace(**fields)
    assert letters_of(model) == letters


@pytest.mark.parametrize(
    ("fields", "new", "changed"),
    [
        ({"num_heads": 4, "num_kv_heads": 4}, {"H": 5}, {"num_heads": 5, "num_kv_heads": 5}),
        ({"num_heads": 4, "num_kv_heads": 2}, {"H": 6, "G": 3}, {"num_heads": 6, "num_kv_heads": 3}),
        ({"d_model": 8, "embedding_size": 8}, {"C": 38}, {"d_model": 38, "embedding_size": 38}),
        (
            {"qk_rope_head_dim": 8, "head_dim": 8, "qk_nope_head_dim": 12, "qk_head_dim": 20},
            {"R": 16, "U": 24},
            {"qk_rope_head_dim": 16, "head_dim": 16, "qk_nope_head_dim": 24, "qk_head_dim": 40},
        ),
        (
            {"d_model": 8, "mamba_n_heads": 4, "mamba_d_head": 4, "mamba_expand": 2},
            {"C": 24, "h": 6, "d": 12},
            {"d_model": 24, "mamba_n_heads": 6, "mamba_d_head": 12, "mamba_expand": 3},
        ),
        (  # which is no whole number of times as wide
            {"d_model": 8, "mamba_n_heads": 4, "mamba_d_head": 4, "mamba_expand": 2},
            {"C": 24},
            {"d_model": 24, "mamba_n_heads": 4, "mamba_d_head": 4, "mamba_expand": 2},
        ),
        (
            {
                "linear_num_value_heads": 4,
                "linear_value_head_dim": 8,
                "linear_num_key_heads": 4,
                "linear_key_head_dim": 8,
            },
            {"h": 6, "d": 24},
            {
                "linear_num_value_heads": 6,
                "linear_value_head_dim": 24,
                "linear_num_key_heads": 6,
                "linear_key_head_dim": 24,
            },
        ),
        ({"d_model": 8, "attention_hidden_size": 8}, {"C": 38}, {"d_model": 38, "attention_hidden_size": 38}),
        ({"d_model": 8, "attention_hidden_size": 16}, {"C": 38}, {"d_model": 38, "attention_hidden_size": 76}),
        (  # layers of another kind have the same heads, but key and value heads of their own
            {
                "num_heads": 4,
                "head_dim": 8,
                "num_key_value_heads": 2,
                "swa_num_attention_heads": 4,
                "swa_head_dim": 8,
                "swa_num_key_value_heads": 1,
            },
            {"H": 6, "D": 16, "G": 3},
            {
                "num_heads": 6,
                "head_dim": 16,
                "num_key_value_heads": 3,
                "swa_num_attention_heads": 6,
                "swa_head_dim": 16,
                "swa_num_key_value_heads": 1,
            },
        ),
    ],
)
def test_what_hangs_together_in_a_configuration_changes_together(
    fields: dict[str, int], new: dict[str, int], changed: dict[str, int]
) -> None:
    class Empty(nn.Module):
        def __init__(self, config: SimpleNamespace) -> None:
            super().__init__()
            self.config = config

    model = Empty(SimpleNamespace(**fields))
    assert vars(rebuilt(model, letters_of(model), new).config) == changed


def test_parts_of_a_configuration_change_with_the_whole_where_they_have_its_size() -> None:
    class Nested(nn.Module):
        def __init__(self, config: SimpleNamespace) -> None:
            super().__init__()
            self.config = config

    config = SimpleNamespace(d_model=8, encoder=SimpleNamespace(d_model=8), decoder=SimpleNamespace(d_model=16))
    config.encoder.outer = config
    model = rebuilt(Nested(config), {"C": 8}, {"C": 38})
    assert (model.config.d_model, model.config.encoder.d_model, model.config.decoder.d_model) == (38, 38, 16)
    assert config.d_model == 8


def test_a_model_is_built_with_the_dtype_and_mode_that_it_has() -> None:
    model = Net(Plain()).to(torch.float64).eval()
    other = rebuilt(model, {"C": 8}, {"C": 38})
    assert (other.hidden.weight.dtype, other.hidden.weight.shape, other.training) == (torch.float64, (12, 38), False)


def test_a_class_that_takes_more_than_its_configuration_is_copied() -> None:
    class Picky(Net):
        def __init__(self, config: Any, more: int) -> None:
            super().__init__(config)

    trace = shapetrace.trace(Picky(Plain(), 1), torch.zeros(2, 4, dtype=torch.long))
    assert trace.calls[0].outputs[""].axes == ("B", "T", 12)


def test_a_model_that_was_changed_after_it_was_built_has_no_wrong_letter() -> None:
    model = Net(Plain())
    model.hidden = nn.Linear(8, 16)  # as wide as the vocabulary, and no F any more
    trace = shapetrace.trace(model, torch.zeros(2, 4, dtype=torch.long))
    assert trace.calls[0].outputs[""].axes == ("B", "T", 16)


class Reads(nn.Module):
    """Has a configuration of two parts, of which one runs."""

    def __init__(self) -> None:
        super().__init__()
        eyes, words = SimpleNamespace(d_model=6, n_layers=3), SimpleNamespace(d_model=8, n_layers=3)
        self.config = SimpleNamespace(eyes=eyes, words=words)
        self.eyes, self.token = nn.Linear(6, 6), nn.Embedding(16, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.token(ids)


def test_a_size_that_parts_of_a_configuration_have_otherwise_is_that_of_the_part_that_runs_or_none() -> None:
    ids = torch.zeros(2, 5, dtype=torch.long)
    assert shapetrace.trace(Reads(), ids, axes=False).sizes == {"L": 3}
    assert shapetrace.trace(Reads(), ids).sizes.get("C") in (8, None)
