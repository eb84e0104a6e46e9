"""The record of one forward pass, as plain data that knows no torch.

Words, each used for one thing:

trace      one forward pass: a header, and its calls in the order they were entered
call       one run of a module, a function or (opt-in) an aten op. `depth` says what it ran inside of: the children of a
           call are the calls that follow it at a greater depth
path       the dotted name of a module in its model, "blocks.0.attention"; the model itself is ""
key        where a tensor stands in the arguments or the result of a call: "" is the result itself, "0" and "1" the
           elements of a tuple (or positional arguments), "logits" a field (or a keyword); deeper ones go on as
           "past[0][1]" and "config.mask"
variable   the name in the source that a result was assigned to
number     equal numbers are the same tensor; equal storage numbers share memory
"""

from __future__ import annotations

import math
import re
from os import PathLike
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from .records import Scope

__all__ = ["Call", "TensorMeta", "Trace"]


class TensorMeta(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A tensor as one call saw it.

    shape       sizes of its dims; -1 for a ragged dim of a nested tensor
    stride      in elements; None where the layout has none (sparse), or in a portable trace
    offset      of its first element in its storage, in elements
    number      of the tensor, and `storage` of its memory: counted from 0 in the order they were first seen
    name        the dotted name, if it is a parameter or buffer of the model
    kind        the class, if it is not torch.Tensor: "Parameter", or a user's own
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    layout: str = "strided"
    is_contiguous: bool = True
    offset: int = 0
    number: int | None = None
    storage: int | None = None
    name: str | None = None
    kind: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that its elements take without gaps; 0 if it is ragged."""
        return 0 if -1 in self.shape else math.prod(self.shape) * itemsize(self.dtype)


class Call(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One run of a module, a function or an aten op.

    path        of the module that ran, or in whose forward the function ran
    name        the class of the module, or the name of the function: "Linear", "softmax", "aten.mm"
    variables   key of a result -> the variable it was assigned to; {"": "x"} for `x = f()`
    source      (file, line) of the caller
    inputs      key of an argument -> tensor, as it was before the call
    outputs     key of a result -> tensor, as it was after the call
    literals    key of an argument -> what it was, as Python writes it, if it was no tensor
    written     numbers of the tensors that it changed in place
    note        what a reader must know to believe the record: "compiled: what runs inside is not seen"
    error       the exception that left it: "RuntimeError: shape '[2, 3]' is invalid"
    """

    kind: Literal["module", "function", "op"]
    path: str
    name: str
    depth: int
    variables: dict[str, str] = {}
    source: tuple[str, int] | None = None
    inputs: dict[str, TensorMeta] = {}
    outputs: dict[str, TensorMeta] = {}
    literals: dict[str, str] = {}
    written: tuple[int, ...] = ()
    note: str | None = None
    error: str | None = None

    def variable(self, key: str) -> str | None:
        """The variable that holds the result at `key`, with the way into it: "q", "out[0]", "outputs.logits"."""
        for whole in sorted(self.variables, key=len, reverse=True):
            if key == whole:
                return self.variables[whole]
            rest = key[len(whole) :]
            if not whole:
                digits = len(key) - len(key.lstrip("0123456789"))
                return f"{self.variables['']}[{key[:digits]}]{key[digits:]}" if digits else f"{self.variables['']}.{key}"
            if key.startswith(whole) and rest[0] in ".[":
                return self.variables[whole] + rest
        return None


class Trace(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, weakref=True):
    """One forward pass.

    target        what was run, as the user named it: "gpt", "my_model.py:build", or the class of the model
    model         the class of the model
    description   what the model says of itself in a few words; may be empty
    sizes         letter of an axis -> its size: {"B": 2, "T": 4}
    dtype, device   of the first floating-point tensor
    torch         the version that ran it; None in a portable trace
    seed          of torch's random numbers, where shapetrace set it
    notes         what a reader must know to believe the record
    error         the exception that ended the pass

    `trace[path]` holds the tensors of a module by name: `trace["blocks.0.attention"]["q"].shape`.
    """

    target: str
    model: str = ""
    description: str = ""
    sizes: dict[str, int] = {}
    dtype: str = ""
    device: str = ""
    torch: str | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    calls: tuple[Call, ...] = ()

    def __getitem__(self, path: str) -> Scope:
        """The tensors of the module at `path` by name. `LookupFailed`, with the nearest paths, if there is none."""
        from .records import scope

        return scope(self, path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace as JSON Lines. The file is whole or not there: `FileError` if it cannot be written."""
        from .files import save

        save(self, path)

    def portable(self) -> Trace:
        """The trace without what another machine, torch version or edit of the source would change.

        What stays: calls, names, variables, shapes, dtypes, literals. What goes: stride, contiguity, storage, numbers,
        source lines, device and torch version.
        """
        return msgspec.structs.replace(self, torch=None, device="", calls=tuple(map(_portable, self.calls)))

    def __str__(self) -> str:
        from .renderers import render

        return render(self)

    def __repr__(self) -> str:
        return f"<Trace of {self.target}: {len(self.calls)} calls; print it to see its tensors>"

    def _repr_html_(self) -> str:
        from .renderers import notebook

        return notebook(self)


def _portable(call: Call) -> Call:
    def strip(tensors: dict[str, TensorMeta]) -> dict[str, TensorMeta]:
        return {
            key: TensorMeta(t.shape, dtype=t.dtype, layout=t.layout, name=t.name, kind=t.kind) for key, t in tensors.items()
        }

    return msgspec.structs.replace(
        call, source=None, inputs=strip(call.inputs), outputs=strip(call.outputs), written=()
    )


def itemsize(dtype: str) -> int:
    """Bytes of one element of a dtype, by its name: "float32" -> 4."""
    if dtype == "bool":
        return 1
    bits = re.search(r"\d+", dtype)
    return int(bits.group()) // 8 if bits else 0
