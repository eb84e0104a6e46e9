"""Record what a model does while it runs. Only this package and `targets` know torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from ..schema import Trace
from .attach import Tap, attach, recorded, trace_of
from .naming import Naming, Sourcing

__all__ = ["Tap", "attach", "record", "trace", "trace_of"]


def trace(
    model: nn.Module, /, *args: Any, functions: bool = True, ops: bool = False, axes: bool = True, **kwargs: Any
) -> Trace:
    """The record of one forward, `model(*args, **kwargs)`.

    functions   record the functions called between modules; without them, which is cheaper, only module boundaries
    ops         record the aten ops that each function runs as well
    axes        say what each tensor is: its role, and its axes by letter. For the axes a copy of the model runs twice
                more at other sizes, or one that is built anew where the model carries its configuration

    What the forward raises passes through, with a note that says where; `trace_of` gives the record of it so far.
    """
    return record(model, args, kwargs, functions=functions, ops=ops, axes=axes)


def record(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    functions: bool = True,
    ops: bool = False,
    axes: bool = True,
    sources: Sequence[Sourcing] = (),
) -> Trace:
    """`trace`, for a forward that has keyword arguments of the same names; `sources` as for `Naming`."""

    again = partial(recorded, functions=functions, ops=ops)
    naming = Naming(model, args, kwargs, again, sources) if axes else None
    plain = again(model, args, kwargs)
    return plain if naming is None else naming.name(plain)
