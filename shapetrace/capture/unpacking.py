"""What Python itself could not unpack, as `B, T, C = x.shape` of a tensor of four dims: no call of torch tells it."""

from __future__ import annotations

import dis
from types import TracebackType
from typing import Any

from torch import Tensor
from torch._C import DisableTorchFunction

from .names import destination
from .noted import INDEX, NONE, Function, NotedFunction, NotedModule
from .places import Place
from .recorder import Recorder, said
from .structures import Structure, join_keys

__all__ = ["cause", "unpacking"]

UNPACK = Function("function", "unpack")

BETWEEN = frozenset({"CACHE", "PRECALL", "EXTENDED_ARG", "PUSH_NULL"})


def unpacking(error: BaseException, recorder: Recorder) -> NotedFunction | None:
    """A note of the statement that raised `error`, as of a function that took what was to be unpacked, and into how
    many; None if it was no such statement, or if it is not known what that was."""
    where = innermost(error.__traceback__)
    if type(error) is not ValueError or "to unpack" not in str(error) or where is None or not recorder.calls:
        return None
    code = where.tb_frame.f_code
    steps = [step for step in dis.get_instructions(code) if step.opname not in BETWEEN]
    at = next((at for at, step in enumerate(steps) if step.offset == where.tb_lasti), 0)
    outer = next((noted for noted in reversed(recorder.calls) if error_of(noted) == said(error)), None)
    if not isinstance(outer, NotedModule) or steps[at].opname != "UNPACK_SEQUENCE":
        return None
    place, count = (
        Place(dict(destination(code, where.tb_lasti).names), (code.co_filename, where.tb_lineno)),
        steps[at].arg,
    )
    tensor = whose_shape(steps[:at], where)
    given: tuple[Any, ...] | None = None
    if tensor is not None:
        with DisableTorchFunction():
            given = recorder.table.describe(tensor), count
    elif place.variables:
        given = parts(recorder, outer.depth + 1, place, count or 0)
    if given is None:
        return None
    return UNPACK, outer.path, outer.depth + 1, place, given, None, INDEX, NONE, said(error)


def innermost(where: TracebackType | None) -> TracebackType | None:
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return where


def error_of(noted: Any) -> str | None:
    error: str | None = noted.error if isinstance(noted, NotedModule) else noted[-1]
    return error


def cause(error: BaseException, recorder: Recorder) -> str | None:
    """What `error` was raised from, `raise ValueError(...) from cause`, if a call that was seen raised that."""
    raised = {error_of(noted) for noted in recorder.calls}
    seen = {id(error)}
    while (before := error.__cause__) is not None and id(before) not in seen:
        if said(before) in raised:
            return said(before)
        error = before
        seen.add(id(error))
    return None


def whose_shape(before: list[dis.Instruction], where: TracebackType) -> Tensor | None:
    """The tensor x of `x.shape` or `x.size()`, if the steps before are that, and x is a variable."""
    if before and before[-1].opname.startswith("CALL") and before[-1].arg == 0:
        before = before[:-1]
    if len(before) < 2 or before[-1].argval not in ("shape", "size"):
        return None
    name = before[-2].argval
    tensor = where.tb_frame.f_locals.get(name) if before[-2].opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None
    return tensor if isinstance(tensor, Tensor) else None


def parts(recorder: Recorder, depth: int, place: Place, count: int) -> tuple[Any, ...] | None:
    """As many of what the last call gave as there are names, and how many there are of both; if what it gave was to go
    to these very names."""
    noted = next((noted for noted in reversed(recorder.calls) if depth_of(noted) == depth), None)
    if noted is None or (noted.place if isinstance(noted, NotedModule) else noted[3]) != place:
        return None
    result = noted.result if isinstance(noted, NotedModule) else noted[5]
    if isinstance(result, tuple):
        return Structure(tuple((f"0[{at}]", meta, 0) for at, meta in enumerate(result[:count])), {}), count, len(result)
    if not isinstance(result, Structure) or not all(key[:1].isdigit() for key, *_ in result.tensors):
        return None
    tops = dict.fromkeys(key.partition("[")[0] for key, *_ in result.tensors)
    found = [(join_keys("0", key), meta, at) for key, meta, at in result.tensors if int(key.partition("[")[0]) < count]
    return Structure(tuple(found), {}), count, len(tops)


def depth_of(noted: Any) -> int:
    depth: int = noted.depth if isinstance(noted, NotedModule) else noted[2]
    return depth
