"""What to say of a forward that failed: the call, the tensors that went into it, and what is wrong with them."""

from __future__ import annotations

from itertools import takewhile
from textwrap import wrap

import msgspec

from ..errors import printable
from ..schema import Trace
from .diagnosis import sentence
from .diagnosis.fault import Fault, Given, failing, fault, listed, makers, modules, written
from .diagnosis.outlier import Outlier

__all__ = ["Statement", "failing", "failure"]

WIDTH = 100
"""Of the sentence, in columns."""

MOST = 8
"""Tensors that are listed."""

MOST_MADE = 3
"""Calls whose tensors are listed, of those before what the user's own code raised."""

MOST_WAYS = 4
"""Modules that are listed, of those around the call."""


class Statement(msgspec.Struct, frozen=True):
    """What the user's own code ran when it failed: file and line, and what was None there."""

    source: tuple[str, int]
    missing: tuple[str, ...] = ()


def failure(trace: Trace, own: Statement | None = None, outlier: Outlier | None = None) -> str:
    """Some lines of text, with nothing that a terminal would obey; "" if no call of the trace ended it.

    `own` is told where no function of torch failed but what is written between them; `outlier` where one looked it up.
    """
    found = fault(trace)
    if found is None:
        return ""
    found = msgspec.structs.replace(found, outlier=outlier)
    is_own = own is not None and found.call.kind == "module" and own.source != found.call.source
    source = own.source if own is not None and is_own else found.call.source
    lines = [f"shapetrace: raised in {place(found)}"]
    if source is not None and (is_own or found.call.kind != "module"):
        lines.append(f"  {source[0]}:{source[1]}")
    lines += ways(found)
    lines += table(found, made(found) if is_own else [])
    said = sentence(found)
    if said is None and own is not None and own.missing:
        said = f"{listed(own.missing)} {'is' if len(own.missing) == 1 else 'are'} None"
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


def made(found: Fault) -> list[list[str]]:
    """A row for each tensor that the code of a module had made last, when it failed."""
    trace, start = found.trace, found.index + 1
    inner = takewhile(lambda call: call.depth > found.call.depth, trace.calls[start:])
    after = msgspec.structs.replace(
        found, codes=written(trace, len(trace.calls) - 1), makers=makers(trace, len(trace.calls))
    )
    own = [at for at, call in enumerate(inner, start) if call.depth == found.call.depth + 1 and call.outputs]
    rows = {}
    for index in own[-MOST_MADE:]:
        call, code = trace.calls[index], after.codes[index]
        for key, tensor in call.outputs.items():
            name = call.variable(key) or (f"{code}[{key}]" if key else code)
            rows[name] = row(after, Given(name, tensor, name))
    return list(rows.values())[-MOST:]


def table(found: Fault, more_rows: list[list[str]]) -> list[str]:
    """A line for each tensor: name, axes, shape, stride, dtype, and where it came from."""
    given = list({(each.full, each.tensor.number): each for each in found.given.values()}.values())
    rows = [*(row(found, each) for each in given[:MOST]), *more_rows]
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
