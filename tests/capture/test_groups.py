"""Which dims of the input may change together: guesses, the likeliest first."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import shapetrace
from shapetrace.capture.given import Held, given
from shapetrace.capture.groups import guesses, splits


def held(**tensors: Any) -> tuple[Held, ...]:
    def forward(**others: Any) -> None: ...

    return given(forward, (), tensors).held


IDS = torch.zeros(2, 4, dtype=torch.long)


def test_of_ids_both_dims_are_free_and_of_vectors_all_but_the_last() -> None:
    assert next(guesses(held(ids=IDS))) == {"?0": [(0, 0)], "?1": [(0, 1)]}
    assert next(guesses(held(x=torch.zeros(2, 4, 8)))) == {"?0": [(0, 0)], "?1": [(0, 1)]}


def test_dims_of_one_size_at_one_place_change_together_and_then_those_of_one_size_anywhere() -> None:
    both = held(ids=IDS, mask=torch.zeros(2, 1, 4, 4, dtype=torch.bool))
    first, second = list(guesses(both))[:2]
    assert first == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1)], "?2": [(1, 2)], "?3": [(1, 3)]}
    assert second == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 2), (1, 3)]}


def test_a_mask_of_floats_is_as_long_as_the_ids_on_both_sides() -> None:
    both = held(ids=IDS, mask=torch.zeros(2, 1, 4, 4))
    assert list(guesses(both))[2] == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 2), (1, 3)]}
    both = held(ids=IDS, mask=torch.zeros(2, 4))
    assert {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 1)]} in list(guesses(both))[:3]


def test_at_last_only_the_first_dim_is_free() -> None:
    assert list(guesses(held(image=torch.zeros(2, 3, 8, 8))))[-1] == {"?0": [(0, 0)]}


def test_a_float_may_be_a_multiple_as_long_as_the_ids() -> None:
    both = held(ids=IDS, sound=torch.zeros(2, 3, 32))
    assert list(guesses(both))[-2] == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 2)]}


def test_a_dim_of_one_is_free_only_where_all_that_is_given_is_a_batch_of_one() -> None:
    assert next(guesses(held(ids=IDS[:1], mask=IDS[:1]))) == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 1)]}
    assert next(guesses(held(ids=IDS, mask=IDS[:1]))) == {"?0": [(0, 0)], "?1": [(0, 1), (1, 1)]}


def test_a_batch_of_one_may_stand_behind_the_length() -> None:
    assert next(guesses(held(x=torch.zeros(5, 1, 8)))) == {"?0": [(0, 0)], "?1": [(0, 1)]}
    both = held(source=torch.zeros(5, 1, 8), target=torch.zeros(4, 1, 8))
    assert next(guesses(both)) == {"?0": [(0, 0)], "?1": [(0, 1), (1, 1)], "?2": [(1, 0)]}
    assert next(guesses(held(ids=IDS, x=torch.zeros(2, 4, 1)))) == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 1)]}


def test_what_has_no_size_that_could_change_gives_no_guess() -> None:
    assert list(guesses(held(x=torch.zeros(()), n=torch.zeros(0, dtype=torch.long)))) == []
    assert list(guesses(())) == []


def test_a_length_that_two_tensors_have_may_be_two_lengths() -> None:
    both = held(input_ids=IDS, decoder_input_ids=IDS)
    groups = next(guesses(both))
    assert groups == {"?0": [(0, 0), (1, 0)], "?1": [(0, 1), (1, 1)]}
    meeting = {frozenset({"input_ids", "decoder_input_ids"})}
    assert list(splits(both, groups, "?0", meeting)) == [
        {"?0": [(1, 0)], "?1": [(0, 1), (1, 1)], "?2": [(0, 0)]},
        {"?0": [(0, 0)], "?1": [(0, 1), (1, 1)], "?2": [(1, 0)]},
    ]
    assert list(splits(both, groups, "?1", meeting)) == [
        {"?1": [(1, 1)], "?0": [(0, 0), (1, 0)], "?2": [(0, 1)]},
        {"?1": [(0, 1)], "?0": [(0, 0), (1, 0)], "?2": [(1, 1)]},
    ]
    assert list(splits(both, groups, "?1", set())) == []


def test_keys_and_values_that_are_one_tensor_go_together_first() -> None:
    x, source = torch.zeros(2, 4, 8), torch.zeros(2, 4, 8)
    meeting = {frozenset({"q", "k"}), frozenset({"q", "v"})}
    three = held(v=source, q=x, k=source)
    first = next(splits(three, next(guesses(three)), "?1", meeting))
    assert first == {"?1": [(0, 1), (2, 1)], "?0": [(0, 0), (1, 0), (2, 0)], "?2": [(1, 1)]}


def test_of_one_tensor_with_equal_dims_the_first_may_be_another_than_the_others() -> None:
    both = held(x=torch.zeros(4, 4, 8), mask=torch.zeros(4, 4))
    groups = {"?0": [(0, 0), (0, 1), (1, 0), (1, 1)]}
    halves = [tuple(map(tuple, (parts["?0"], parts["?1"]))) for parts in splits(both, groups, "?0", set())]
    assert halves[0] == (((0, 0),), ((0, 1), (1, 0), (1, 1)))
    assert (((0, 0), (1, 0)), ((0, 1), (1, 1))) in halves
    assert len(halves) == len(set(halves)) == 2**3 - 1


def test_sound_that_is_so_many_times_as_long_as_its_tokens_changes_with_them() -> None:
    class Heard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.conv = nn.Embedding(9, 6), nn.Conv1d(3, 6, 4, stride=4)

        def forward(self, ids: torch.Tensor, sound: torch.Tensor) -> torch.Tensor:
            frames = self.conv(sound).mT
            x = self.table(ids) + frames
            return x.flatten(0, 1)

    trace = shapetrace.trace(Heard(), IDS.repeat(1, 2)[:, :7], torch.zeros(2, 3, 28))
    assert trace.calls[0].inputs["sound"].axes == ("B", 3, "4·T")
    assert trace.calls[0].outputs[""].axes == ("B·T", 6)


def test_a_mask_stays_with_what_it_follows_also_where_the_model_makes_nothing_of_it() -> None:
    class Crossed(nn.Module):
        def forward(
            self, x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor, other: torch.Tensor
        ) -> torch.Tensor:
            scores = x @ source.mT
            if not other.all():
                scores = scores.masked_fill(~other[:, None], -9)
            return scores.softmax(-1) @ source

    x, mask = torch.randn(2, 4, 8), torch.ones(2, 4, dtype=torch.bool)
    call = shapetrace.trace(Crossed(), x, mask, x.clone(), mask.clone()).calls[0]
    assert [tensor.axes for tensor in call.inputs.values()] == [("B", "T", 8), ("B", "T"), ("B", "S", 8), ("B", "S")]
