"""`B, T, C = x.shape`, `q, k, v = x.chunk(2)`: as many names as there is to take."""

from __future__ import annotations

from ..expressions import plain_name, unpacked
from .fault import Fault, Given

__all__ = ["shape_unpacked", "squeezed", "unpacked_parts"]


def shape_unpacked(fault: Fault) -> str | None:
    x, names = fault.tensor("0"), unpacked(fault.call)
    if fault.name != "unpack" or x is None or len(names) == len(x.shape):
        return None
    said = f"{', '.join(names)} are {len(names)} names for the {len(x.shape)} sizes of {x}"
    if squeezed(fault, x):
        return f"{said}{squeezed(fault, x)}"
    if len(names) > len(x.shape):
        return f"{said}: a dim is missing, or the names are too many"
    return f"{said}: name them all, or take some by their place, as {x.code}.shape[-1]"


def squeezed(fault: Fault, x: Given) -> str:
    """That `squeeze` without a dim took more than was meant, if that is where a tensor came from; else ""."""
    index = fault.maker(x.tensor)
    call = None if index is None else fault.trace.calls[index]
    if index is None or call is None or plain_name(call) != "squeeze" or {"1", "dim"} & call.literals.keys():
        return ""
    (before,) = call.inputs.values()
    return (
        f"; {fault.said(index)} took every dim of size 1 of {before.shape}: squeeze(dim) takes one and leaves a batch"
    )


def unpacked_parts(fault: Fault) -> str | None:
    """What a call gave, and into how many names."""
    names = unpacked(fault.call)
    count = fault.whole(2)
    first = next(iter(fault.given.values()), None)
    index = None if first is None else fault.maker(first.tensor)
    if fault.name != "unpack" or index is None or not names or count == len(names):
        return None
    call, code = fault.trace.calls[index], fault.codes[index]
    said = f"{code} gives {count}, and {', '.join(names)} are {len(names)}"
    whole = next(iter(call.inputs.values()), None)
    if call.kind == "module" or whole is None:
        return said
    dim = next((call.literals[key] for key in ("2", "dim") if key in call.literals), "0")
    x = Given(code.rpartition(f".{call.name}(")[0] or "it", whole)
    if call.name == "unbind":
        return f"{said}: one for each of dim {call.literals.get('1', dim)} of {whole.shape}"
    at = int(dim) if dim.lstrip("-").isdecimal() and len(dim) < 4 else None
    if call.name not in ("chunk", "split") or at is None or not -len(whole.shape) <= at < len(whole.shape):
        return said
    takes = "chunk takes their number" if call.name == "chunk" else "split takes the size of each, chunk their number"
    fits = whole.shape[at] % len(names) == 0
    return f"{said}: {takes}, {x.code}.chunk({len(names)}, {dim})" if fits else f"{said}: {takes}"
