"""One JSON object: the header of a trace file (see `shapetrace.files`) with its calls.

    {"shapetrace": 1, "target": "gpt", "model": "GPT", "sizes": {"B": 2}, …,
     "memory": {"activations": 9604, "copied": 512, "by": {"contiguous": 2}}, "calls": [
        {"kind": "module", "path": "", "name": "GPT", "depth": 0, "inputs": {"ids": {"shape": [2, 4], …}}, …}, …]}

"memory" says how many bytes the results of functions took and how many were copied, by what, where that is known. The
other fields are those of `Trace`, `Call` and `TensorMeta`: a tensor has its "axes", ["B", "T", "3·C"], and its "role",
a fused call what it never makes, "unmade": {"scores": {…}}. A field that has its default may be left out. "shapetrace"
is the version of the format.
"""

from __future__ import annotations

import msgspec

from ..files import FORMAT, encode
from ..passes.copies import totals
from ..schema import Trace
from .style import Style

__all__ = ["json"]


def json(trace: Trace, style: Style) -> str:
    """The whole trace; a style changes nothing about it."""
    del style
    whole = msgspec.to_builtins(trace)
    calls = {"calls": whole.pop("calls")} if "calls" in whole else {}
    found = totals(trace)
    memory = {} if found is None else {"memory": found}
    return encode({"shapetrace": FORMAT, **whole, **memory, **calls}).decode()
