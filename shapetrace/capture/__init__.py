"""Record what a model does while it runs. Only this package and `targets` know torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from torch import nn

from ..errors import ShapetraceError
from ..passes.roles import name_roles
from ..passes.widths.sized import Written
from ..schema import Trace
from .attach import Tap, attach, recorded, trace_of, watchable
from .held import HeldElements
from .kept import Kept, explain, leave, left
from .naming import Naming, Sourcing, declared
from .watch import Detail
from .weightless import mode_of, runnable, within

__all__ = ["Detail", "Tap", "attach", "explain", "left", "record", "trace", "trace_of"]


def trace(
    model: nn.Module,
    /,
    *args: Any,
    functions: bool = True,
    ops: bool = False,
    materialise: bool = False,
    stats: bool = False,
    axes: bool | str = True,
    **kwargs: Any,
) -> Trace:
    """The record of one forward, `model(*args, **kwargs)`.

    functions   record the functions called between modules; without them, which is cheaper, only module boundaries
    ops         record the aten ops that each function runs as well
    materialise run `F.scaled_dot_product_attention` written out: then its scores and weights are real, and seen. Its
                results are equal to the fused kernel's within rounding
    stats       keep of each tensor its mean, deviation and extremes, and how many of its elements are NaN or inf
    axes        say of each tensor what it is: its role, from the data flow, and which axis each dim is. For the axes a
                copy of the model runs twice more at other sizes, or one that is built anew where the model carries its
                configuration; "C=768 H=12" gives sizes of letters that this cannot tell. False: the plain record

    A model on meta or on fake tensors takes real inputs: it runs weightless.

    What the forward raises passes through, with a note that says where; `trace_of` gives the record of it so far.
    """
    detail = Detail(functions, ops, materialise, stats)
    return record(model, args, kwargs, detail, axes=axes)


def record(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    detail: Detail,
    *,
    axes: bool | str = True,
    sources: Sequence[Sourcing] = (),
    written: Written | None = None,
    explains: bool = True,
    option: str = "axes=",
) -> Trace:
    """`trace`, for a forward that has keyword arguments of the same names; `sources`, `written` and `option` as for
    `Naming`.

    explains   whether what the forward raises is told where and why, for which the model runs again
    """
    watchable(model)
    model = runnable(model, args, kwargs)
    if detail.stats and mode_of(model) is not None:
        raise ShapetraceError(
            "stats are of values, and a model that is weightless computes none: give it weights (--no-weightless)"
        )
    again = partial(recorded, detail=msgspec.structs.replace(detail, stats=False))
    naming = Naming(model, args, kwargs, again, declared(axes), sources, written, option) if axes else None
    held = HeldElements(model, naming.given if naming else None)
    try:
        with within(model):
            plain = recorded(model, args, kwargs, detail=detail)
    except BaseException as error:
        found = left(error)
        if found is not None:
            kept = Kept(found.plain() if naming is None else name_roles(found.plain(), held), naming)
            leave(error, kept)
            if explains:
                explain(error, kept)
        raise
    return plain if naming is None else naming.name(name_roles(plain, held))
