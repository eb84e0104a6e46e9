"""Record what a model does while it runs. Only this package and `targets` know torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from ..schema import Trace
from .attach import Tap, attach, trace_of

NOTHING = "nothing was seen: the model's class has a __call__ of its own"

__all__ = ["Tap", "attach", "record", "trace", "trace_of"]


def trace(
    model: nn.Module,
    /,
    *args: Any,
    functions: bool = True,
    ops: bool = False,
    materialise: bool = False,
    **kwargs: Any,
) -> Trace:
    """The record of one forward, `model(*args, **kwargs)`.

    functions   record the functions called between modules; without them, which is cheaper, only module boundaries
    ops         record the aten ops that each function runs as well
    materialise run `F.scaled_dot_product_attention` written out: then its scores and weights are real, and seen. Its
                results are equal to the fused kernel's within rounding

    What the forward raises passes through, with a note that says where; `trace_of` gives the record of it so far.
    """
    return record(model, args, kwargs, functions=functions, ops=ops, materialise=materialise)


def record(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    functions: bool = True,
    ops: bool = False,
    materialise: bool = False,
) -> Trace:
    """`trace`, for a forward that has keyword arguments of the same names."""
    with attach(model, functions=functions, ops=ops, materialise=materialise) as tap:
        model(*args, **kwargs)
    return tap.traces[-1] if tap.traces else Trace(type(model).__name__, type(model).__name__, notes=(NOTHING,))
