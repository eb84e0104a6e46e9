"""A state space beside what the rest of a model is made of: heads, groups, states, a window and chunks of its own."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace

SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "mamba_expand": 2,
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 6,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 4,
}


class StateSpace(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.inner, self.states = (
            config.mamba_n_heads * config.mamba_d_head,
            config.mamba_n_groups * config.mamba_d_state,
        )
        if self.inner != config.mamba_expand * config.hidden_size:
            raise ValueError("the heads are not as wide as the model is expanded")
        width, window = self.inner + 2 * self.states, config.mamba_d_conv
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.project = nn.Linear(config.hidden_size, width)
        self.conv = nn.Conv1d(width, width, window, groups=width, padding=window - 1)

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        config = self.config
        _, length = ids.shape
        mixed = self.conv(self.project(self.token(ids)).mT)[..., :length].mT
        x, k, _ = mixed.split([self.inner, self.states, self.states], dim=-1)
        heads = x.unflatten(-1, (config.mamba_n_heads, config.mamba_d_head))
        keys = k.unflatten(-1, (config.mamba_n_groups, config.mamba_d_state))
        keys = keys.repeat_interleave(config.mamba_n_heads // config.mamba_n_groups, dim=2)
        filled = F.pad(heads, (0, 0, 0, 0, 0, -length % config.mamba_chunk_size))
        chunks = filled.unflatten(1, (-1, config.mamba_chunk_size))
        states = chunks.sum(2)
        before = F.pad(states, (0, 0, 0, 0, 1, 0))
        return x, keys, filled, chunks, before


def test_each_part_of_a_state_space_has_its_letter_and_no_other_stands_for_it() -> None:
    """h·d is twice C here, and h, w and c are 4."""
    trace = shapetrace.trace(StateSpace(SimpleNamespace(**SIZES)), torch.zeros(2, 7, dtype=torch.long))
    assert trace.notes == ()
    assert [tensor.axes for tensor in trace.calls[0].outputs.values()] == [
        ("B", "T", "h·d"),
        ("B", "T", "h", "N"),
        ("B", "c·⌈T/c⌉", "h", "d"),
        ("B", "⌈T/c⌉", "c", "h", "d"),
        ("B", "⌈T/c⌉+1", "h", "d"),
    ]
    assert trace["project"]["output"].axes == ("B", "T", "h·d+2·g·N")
    assert trace["conv"]["output"].axes == ("B", "h·d+2·g·N", "T+w-1")


def test_a_chunk_that_is_longer_than_the_input_is_not_the_length_that_it_is_filled_up_to() -> None:
    config = SimpleNamespace(**SIZES | {"mamba_chunk_size": 64})
    outputs = shapetrace.trace(StateSpace(config), torch.zeros(2, 7, dtype=torch.long)).calls[0].outputs
    assert [tensor.axes for tensor in outputs.values()][2:4] == [
        ("B", "c·⌈T/c⌉", "h", "d"),
        ("B", "⌈T/c⌉", "c", "h", "d"),
    ]


def test_groups_that_are_as_many_as_heads_are_heads() -> None:
    config = SimpleNamespace(**SIZES | {"mamba_n_groups": 4})
    trace = shapetrace.trace(StateSpace(config), torch.zeros(2, 7, dtype=torch.long))
    assert trace["project"]["output"].axes == ("B", "T", "h·d+2·h·N")
