"""What is this tensor? Record every tensor of a model in PyTorch, with its name, shape, stride and memory.

    trace = shapetrace.trace(model, ids)             # one forward
    with shapetrace.attach(model) as tap: ...        # around your own code
    print(shapetrace.compare(before, after))         # two traces

torch is not imported until `trace` or `attach` is used, nor what compares before `compare` is: pytest imports this file
at each start, for the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import FileError, InputError, LookupFailed, ShapetraceError, TargetError
from .files import load
from .records import Record
from .schema import Call, TensorMeta, Trace

if TYPE_CHECKING:
    from .capture import Tap, attach, trace, trace_of
    from .diff import Change, Diff, compare

__all__ = [
    "Call",
    "Change",
    "Diff",
    "FileError",
    "InputError",
    "LookupFailed",
    "Record",
    "ShapetraceError",
    "Tap",
    "TargetError",
    "TensorMeta",
    "Trace",
    "attach",
    "compare",
    "load",
    "trace",
    "trace_of",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("Tap", "attach", "trace", "trace_of"):
        from . import capture

        return getattr(capture, name)
    if name in ("Change", "Diff", "compare"):
        from . import diff

        return getattr(diff, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
