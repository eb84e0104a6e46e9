"""What to say of a forward that failed: the call, the tensors that went into it, and what is wrong with them."""

from __future__ import annotations

from textwrap import wrap

from ..errors import printable
from ..schema import Trace
from .diagnosis import sentence
from .diagnosis.fault import Fault, Given, failing, fault, modules

__all__ = ["failing", "failure"]

WIDTH = 100
"""Of the sentence, in columns."""

MOST = 8
"""Tensors that are listed."""

MOST_WAYS = 4
"""Modules that are listed, of those around the call."""


def failure(trace: Trace) -> str:
    """Some lines of text, with nothing that a terminal would obey; "" if no call of the trace ended it."""
    found = fault(trace)
    if found is None:
        return ""
    lines = [f"shapetrace: raised in {place(found)}"]
    if found.call.source is not None and found.call.kind != "module":
        lines.append(f"  {found.call.source[0]}:{found.call.source[1]}")
    lines += ways(found)
    lines += table(found)
    said = sentence(found)
    if said is not None:
        lines += wrap(said, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(map(printable, lines))


def place(found: Fault) -> str:
    """The module, its class and the call in it: "blocks.0.up (Linear), by linear(input, weight, bias)"."""
    call, around = found.call, modules(found.trace, found.index)
    cls = found.trace.calls[around[-1]].name if around else ""
    where = f"{call.path} ({cls})" if call.path and cls else call.path or found.trace.model
    return f"{where}, by {found.code}" if call.kind != "module" else where


def ways(found: Fault) -> list[str]:
    """The calls of modules that lead there, the last first, but for that of the model itself."""
    around = [index for index in modules(found.trace, found.index) if found.trace.calls[index].path]
    said = [found.said(index) for index in reversed(around)]
    if len(said) > MOST_WAYS:
        said = [*said[: MOST_WAYS - 1], "…", said[-1]]
    return [f"  in {', in '.join(said)}"] if said else []


def table(found: Fault) -> list[str]:
    """A line for each tensor: name, axes, shape, stride, dtype, and where it came from."""
    given = list({(each.full, each.tensor.number): each for each in found.given.values()}.values())
    rows = [row(found, each) for each in given[:MOST]]
    widths = [max(len(cells[at]) for cells in rows) for at in range(len(rows[0]) - 1)] if rows else []
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False) if width), cells[-1]])
        for cells in rows
    ]
    more = [f"… {len(given) - MOST} more"] if len(given) > MOST else []
    return [f"    {line}" for line in (*lines, *more)]


def row(found: Fault, given: Given) -> list[str]:
    tensor = given.tensor
    axes = "" if tensor.axes is None else f"[{', '.join(map(str, tensor.axes))}]"
    stride = "" if tensor.stride is None else f"stride {tensor.stride}"
    device = tensor.device if found.trace.device not in ("", tensor.device) else ""
    facts = ", ".join(filter(None, (tensor.dtype, device, found.layout(given))))
    return [given.full or given.name, axes, str(tensor.shape), stride, facts, found.origin(given)]
