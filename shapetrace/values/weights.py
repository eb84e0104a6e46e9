"""The weights of one model put into another: by name, and the rest by the order of equal shapes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["copy_weights"]


class Weight(NamedTuple):
    """A parameter or buffer. `is_turned` says that it is kept as (inputs, outputs), unlike that of a Linear."""

    name: str
    tensor: Tensor
    is_turned: bool

    @property
    def upright(self) -> Tensor:
        return self.tensor.T if self.is_turned else self.tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.upright.shape)


def copy_weights(before: nn.Module, after: nn.Module) -> str:
    """Puts the weights of `before` into `after`; what was done, in words."""
    ours, theirs = weights_of(before), weights_of(after)
    pairs, left = paired(ours, theirs)
    with torch.no_grad():
        for weight, other in pairs:
            other.upright.copy_(weight.upright)
    if not left:
        return f"{len(pairs)} copied"
    names = ", ".join(weight.name for weight in left[:3]) + (", …" if len(left) > 3 else "")
    return f"{len(pairs)} copied, {len(left)} of after have no like: {names}"


def paired(ours: list[Weight], theirs: list[Weight]) -> tuple[list[tuple[Weight, Weight]], list[Weight]]:
    """Those of equal name and shape; then, if there are as many of a shape on both sides, these in their order. And the
    weights of the second that go with none."""
    named = {(weight.name, weight.shape): weight for weight in ours}
    pairs = [(named[key], other) for other in theirs if (key := (other.name, other.shape)) in named]
    taken, given = {weight.name for weight, _ in pairs}, {other.name for _, other in pairs}
    rest = [weight for weight in ours if weight.name not in taken]
    left: list[Weight] = []
    for shape in dict.fromkeys(other.shape for other in theirs if other.name not in given):
        alike = [other for other in theirs if other.shape == shape and other.name not in given]
        free = [weight for weight in rest if weight.shape == shape]
        if len(free) == len(alike):
            pairs += zip(free, alike, strict=True)
        else:
            left += alike
    return pairs, left


def weights_of(model: nn.Module) -> list[Weight]:
    """Each parameter once, and the buffers that a checkpoint has, in the order of the modules."""
    saved = model.state_dict(keep_vars=True)
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in saved}
    turned = {
        f"{path}.weight" if path else "weight"
        for path, module in model.named_modules()
        if type(module).__name__ == "Conv1D" and not isinstance(module, nn.Conv1d)  # that of Hugging Face
    }
    found = (*model.named_parameters(), *buffers.items())
    return [Weight(name, tensor, name in turned and tensor.dim() == 2) for name, tensor in found]
