import torch
from torch import Tensor, nn

import shapetrace
from shapetrace.passes.plumbing import plumbing
from shapetrace.schema import Trace


class Masked(nn.Module):
    """Makes masks and positions in the ways that models do."""

    inv_freq: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.register_buffer("inv_freq", torch.ones(2))

    def forward(self, ids: Tensor) -> Tensor:
        index = torch.arange(4)
        shifted = index + 1
        causal = index[None, :] > index[:, None]
        additive = torch.zeros(4, 4).masked_fill(causal, float("-inf"))
        triangle = torch.full((4, 4), float("-inf")).triu(1)
        padding = (1.0 - (ids != 0).float()) * -1e9
        table = shifted.float().sin()
        angles = index.float()[:, None] * self.inv_freq
        x = self.embedding(ids)
        like = torch.zeros_like(x).masked_fill(causal[0, :, None], 1.0)
        best = x.argmax(-1)
        scores = x @ x.transpose(-2, -1) + additive + triangle + padding[:, None]
        return scores.sum() + table.sum() + angles.sum() + like.sum() + best.sum()


def traced() -> Trace:
    return shapetrace.trace(Masked(), torch.ones(2, 4, dtype=torch.int64))


def names(trace: Trace) -> tuple[list[str], list[str]]:
    """The variables of functions that are plumbing, and those that are not."""
    found = plumbing(trace)
    named = [
        (call.variables[""], tensor)
        for call in trace.calls
        if call.kind == "function" and "" in call.variables
        for tensor in call.outputs.values()
    ]
    return [name for name, tensor in named if tensor in found], [name for name, tensor in named if tensor not in found]


def test_masks_and_positions_are_plumbing_and_what_depends_on_floats_is_not() -> None:
    assert names(traced()) == (
        ["index", "shifted", "causal", "additive", "triangle", "padding", "like"],
        ["table", "angles", "best", "scores"],
    )


def test_ids_and_parameters_are_no_plumbing() -> None:
    trace = traced()
    found = plumbing(trace)
    ids = trace.calls[0].inputs["ids"]
    weight = next(t for call in trace.calls for t in call.inputs.values() if t.name == "embedding.weight")
    assert ids not in found
    assert weight not in found


def test_what_only_hands_a_tensor_on_does_not_make_plumbing_of_it() -> None:
    class Handed(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            ids = ids.to(torch.int64)
            return ids.float() * 2

    trace = shapetrace.trace(Handed(), torch.ones(2, 4, dtype=torch.int64))
    assert trace.calls[0].inputs["ids"] not in plumbing(trace)


def test_in_a_portable_trace_the_dtype_decides() -> None:
    assert names(traced().portable()) == (
        ["index", "shifted", "causal", "best"],
        ["additive", "triangle", "padding", "table", "angles", "like", "scores"],
    )
