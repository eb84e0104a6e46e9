"""An index that is not there, of a tensor that has no memory: raised as torch raises it where there is some.

torch looks at an index in the kernel that reads or writes there, and of a fake tensor no kernel runs. Where the numbers
are known, ids that a model is given and positions that it counts, they are held against the size that they index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["within_bounds"]

aten = torch.ops.aten

OUT = "index {index} is out of bounds for dimension {dim} with size {size}"
"""What torch says of most of them."""


class Lookup(msgspec.Struct, frozen=True):
    """One index of one dim: `least` is the lowest number that is there."""

    index: Tensor
    size: int
    dim: int
    least: int
    error: type[Exception]
    said: str = OUT


def rows(table: Tensor, index: Tensor, *_: Any) -> Iterator[Lookup]:
    if table.dim() == 2:
        yield Lookup(index, table.shape[0], 0, 0, IndexError, "index out of range in self")


def bags(table: Tensor, index: Tensor, *_: Any) -> Iterator[Lookup]:
    said = "Index {at} of input takes value {index} which is not in the valid range [0, {size})"
    if table.dim() == 2:
        yield Lookup(index, table.shape[0], 0, 0, RuntimeError, said)


def indexed(x: Tensor, indices: list[Tensor | None], *_: Any) -> Iterator[Lookup]:
    """One index a dim; a mask takes as many dims as it has, and can be of no other size."""
    dim = 0
    for index in indices:
        if dim < x.dim() and index is not None and index.dtype not in (torch.bool, torch.uint8):
            yield Lookup(index, x.shape[dim], dim, -x.shape[dim], IndexError)
        dim += 1 if index is None or index.dtype not in (torch.bool, torch.uint8) else index.dim()


def selected(x: Tensor, dim: int, index: Tensor, *_: Any) -> Iterator[Lookup]:
    if -x.dim() <= dim < x.dim():  # else torch says so
        yield Lookup(index, x.shape[dim], dim % x.dim(), 0, IndexError, "index out of range in self")


def along(x: Tensor, dim: int, index: Tensor, *_: Any) -> Iterator[Lookup]:
    if -x.dim() <= dim < x.dim():  # else torch says so
        yield Lookup(index, x.shape[dim], dim % x.dim(), 0, RuntimeError)


LOOKUPS: Mapping[Any, Callable[..., Iterator[Lookup]]] = {
    aten.embedding: rows,
    aten._embedding_bag: bags,
    aten._embedding_bag_forward_only: bags,
    aten.index: indexed,
    aten.index_put: indexed,
    aten.index_put_: indexed,
    aten.index_select: selected,
    aten.gather: along,
    aten.scatter: along,
    aten.scatter_: along,
    aten.scatter_add: along,
    aten.scatter_add_: along,
}
"""What an op looks up, from its arguments."""


def within_bounds(func: Any, args: tuple[Any, ...]) -> None:
    """Raises what torch raises where an index, if its numbers are known, is not there."""
    lookups = LOOKUPS.get(getattr(func, "overloadpacket", None))
    if lookups is None:
        return
    for lookup in lookups(*args):
        if isinstance(lookup.index, FakeTensor) or lookup.index.is_meta or not lookup.index.numel():
            continue
        index = lookup.index.flatten()
        is_out = (index < lookup.least) | (index >= lookup.size)
        if is_out.any():
            at = int(is_out.nonzero()[0])
            raise lookup.error(lookup.said.format(at=at, index=int(index[at]), dim=lookup.dim, size=lookup.size))
