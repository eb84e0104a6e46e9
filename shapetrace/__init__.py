"""What is this tensor? Record every tensor of a model in PyTorch, with its name, shape, stride and memory.

    trace = shapetrace.trace(model, ids)             # one forward
    with shapetrace.attach(model) as tap: ...        # around your own code
    print(shapetrace.compare(before, after))         # two traces
    print(shapetrace.compare_values(a, b, ids))      # two models: where do their values part?

torch is not imported until `trace`, `attach` or `compare_values` is used, nor what compares before `compare` is: pytest
imports this file at each start, for the plugin.
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
    from .diff.divergence import Divergence, ValuesDiff
    from .values import compare_values

__all__ = [
    "Call",
    "Change",
    "Diff",
    "Divergence",
    "FileError",
    "InputError",
    "LookupFailed",
    "Record",
    "ShapetraceError",
    "Tap",
    "TargetError",
    "TensorMeta",
    "Trace",
    "ValuesDiff",
    "attach",
    "compare",
    "compare_values",
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
    if name in ("Divergence", "ValuesDiff"):
        from .diff import divergence

        return getattr(divergence, name)
    if name == "compare_values":
        from .values import compare_values

        return compare_values
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
