"""The weights of one model put into another: by name, then by the order of equal shapes, joined or cut apart."""

from __future__ import annotations

from collections.abc import Iterator
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
    pairs, rest, left = paired(weights_of(before), weights_of(after))
    parts, left = joined(rest, left)
    with torch.no_grad():
        for weight, other in pairs:
            other.upright.copy_(weight.upright)
        for few, many in parts:
            together = torch.cat([weight.upright for weight in few])
            sizes = [len(weight.upright) for weight in many]
            for weight, part in zip(many, torch.split(together, sizes), strict=True):
                weight.upright.copy_(part)
    cut = sum(len(many) for _, many in parts)
    ordered = cut + sum(weight.name != other.name for weight, other in pairs)
    done = f"{len(pairs) + cut} copied"
    if ordered:  # two that are alike may have come into each other's place
        done += f", {'all' if ordered == len(pairs) + cut else ordered} by the order of equal shapes"
    if not left:
        return done
    names = ", ".join(weight.name for weight in left[:3]) + (", …" if len(left) > 3 else "")
    return f"{done}, {len(left)} of after have no like: {names}"


def paired(ours: list[Weight], theirs: list[Weight]) -> tuple[list[tuple[Weight, Weight]], list[Weight], list[Weight]]:
    """Those of equal name and shape; then, if there are as many of a shape on both sides, these in their order. And the
    weights of both that go with none."""
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
            rest = [weight for weight in rest if weight.shape != shape]
        else:
            left += alike
    return pairs, rest, left


def joined(ours: list[Weight], theirs: list[Weight]) -> tuple[list[tuple[list[Weight], list[Weight]]], list[Weight]]:
    """Where one side has in one weight what the other has in several, as q, k and v: these in their order, of all that
    are alike but for the first size. And the weights of the second that go with none."""
    parts: list[tuple[list[Weight], list[Weight]]] = []
    left: list[Weight] = []
    for tail in dict.fromkeys(other.shape[1:] for other in theirs):
        few, many = ([each for each in side if each.shape[1:] == tail] for side in (ours, theirs))
        found = list(runs(few, many))
        if found and sum(map(len, (run for _, run in found))) == len(many):
            parts += found
        else:
            left += many
    return parts, left


def runs(ours: list[Weight], theirs: list[Weight]) -> Iterator[tuple[list[Weight], list[Weight]]]:
    """Both lists cut, from the front, where they have come equally far; nothing once one side cannot be joined."""
    first: list[Weight] = []
    other: list[Weight] = []
    ours, theirs = ours[:], theirs[:]
    while (ours or first) and (theirs or other):
        size, its = (sum(each.shape[0] for each in run if each.shape) for run in (first, other))
        if size == its and first and other:
            yield first, other
            first, other = [], []
        elif size <= its and ours:
            first.append(ours.pop(0))
        elif theirs:
            other.append(theirs.pop(0))
        else:
            return
    if first and other and sum(each.shape[0] for each in first) == sum(each.shape[0] for each in other):
        yield first, other


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
