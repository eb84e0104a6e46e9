"""What a model gives: its tensors, and whether two results are the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def tensors(value: Any, key: str = "", above: tuple[int, ...] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in it with where it stands: in containers, and in the attributes of caches."""
    if isinstance(value, torch.Tensor):
        yield key, value
        return
    if id(value) in above or isinstance(value, (str, torch.nn.Module)):
        return
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        parts = list(vars(value).items()) if hasattr(value, "__dict__") else []
    for name, part in parts:
        yield from tensors(part, f"{key}[{name}]", (*above, id(value)))


def difference(before: Any, after: Any) -> str | None:
    """The first thing that differs between two results; None if nothing does."""
    ours, theirs = dict(tensors(before)), dict(tensors(after))
    if ours.keys() != theirs.keys():
        return f"other tensors: {sorted(ours.keys() ^ theirs.keys())[:3]}"
    return next((f"{key} differs" for key in ours if not same(ours[key], theirs[key])), None)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit for bit: not a number is equal to itself, and 0 is not -0."""
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return False
    return torch.equal(bits(a), bits(b))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
