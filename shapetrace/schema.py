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
axis       what a dim stands for: a letter, "B" (batch), "T" (length), "C" (model width), or what it is made of, "3·C"
role       what a tensor does in a Transformer: "q", "scores", "weights", "head_output", "residual", "logits"
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from os import PathLike
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

if TYPE_CHECKING:
    from .records import Record, Scope

__all__ = ["ROLES", "Call", "Stats", "TensorMeta", "Trace", "line_of", "part"]

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Size = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
"""Bounds that hold for what a file says; a `Size` is -1 where it is ragged."""
Axis = Annotated[str, msgspec.Meta(max_length=100)]

ROLES = (
    "token_embedding", "position_embedding", "residual", "norm", "x", "q", "k", "v", "rotation", "scores", "weights",
    "head_output", "concat", "attn_out", "ffn_hidden", "ffn_out", "logits", "loss",
)  # fmt: skip
"""What a tensor can do in a Transformer, in the order in which it comes by."""


class Stats(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What the values of a tensor are like: those of its finite elements, and how many are not finite.

    mean, std    of all of them; `std` is no estimate, its divisor is their number. None if no element is finite
    min, max     likewise
    nan, inf     how many elements are NaN, and how many are inf or -inf
    """

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    nan: Count = 0
    inf: Count = 0


class TensorMeta(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A tensor as one call saw it.

    shape       sizes of its dims; -1 for a ragged dim of a nested tensor
    stride      in elements; None where the layout has none (sparse), or in a portable trace
    offset      of its first element in its storage, in elements
    number      of the tensor, and `storage` of its memory: counted from 0 in the order they were first seen
    name        the dotted name, if it is a parameter or buffer of the model
    kind        the class, if it is not torch.Tensor: "Parameter", or a user's own
    axes        of each dim its axis, or its size where that is not decided; None where none is
    role        what the tensor does here; None if that is not known
    stats       what its values are like; None unless that was asked for, of an argument that was a result before, and
                of a tensor whose values cannot be read. Of an argument that a function changed and does not give, what
                they were like after that
    """

    shape: tuple[Size, ...]
    stride: tuple[Size, ...] | None = None
    dtype: str = "float32"
    device: str = "cpu"
    layout: str = "strided"
    is_contiguous: bool = True
    offset: Count = 0
    number: Count | None = None
    storage: Count | None = None
    name: str | None = None
    kind: str | None = None
    axes: tuple[Axis | Size, ...] | None = None
    role: str | None = None
    stats: Stats | None = None

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
    role        what the call does as a whole: "causal self-attention", "cross-attention"; None if that is not known
    unmade      role -> a tensor that the call stands for and never makes: the scores of a fused attention
    """

    kind: Literal["module", "function", "op"]
    path: str
    name: str
    depth: int
    variables: dict[str, str] = {}
    source: tuple[str, Count] | None = None
    inputs: dict[str, TensorMeta] = {}
    outputs: dict[str, TensorMeta] = {}
    literals: dict[str, str] = {}
    written: tuple[Count, ...] = ()
    note: str | None = None
    error: str | None = None
    role: str | None = None
    unmade: dict[str, TensorMeta] = {}

    def variable(self, key: str) -> str | None:
        """The variable that holds the result at `key`, with the way into it: "q", "out[0]", "outputs.logits"."""
        for whole, name in sorted(self.variables.items(), key=lambda item: len(item[0]), reverse=True):
            rest = key.removeprefix(whole)
            if not whole:
                return part(name, key)
            if key == whole or (rest != key and rest[0] in ".["):
                return name + rest
        return None


class Trace(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, weakref=True):
    """One forward pass.

    target        what was run, as the user named it: "gpt", "my_model.py:build", or the class of the model
    model         the class of the model
    description   what the model says of itself in a few words; may be empty
    sizes         letter of an axis -> its size: {"B": 2, "T": 4}
    dtype, device   of the first floating-point tensor
    weightless    whether it ran on tensors that have a shape and no memory
    torch         the version that ran it; None in a portable trace
    seed          of torch's random numbers, where shapetrace set it
    notes         what a reader must know to believe the record
    error         the exception that ended the pass
    cause         that which a call of the pass raised, where `error` was raised from it

    `trace[path]` holds the tensors of a module by name: `trace["blocks.0.attention"]["q"].shape`.
    """

    target: str
    model: str = ""
    description: str = ""
    sizes: dict[str, Size] = {}
    dtype: str = ""
    device: str = ""
    weightless: bool = False
    torch: str | None = None
    seed: int | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    cause: str | None = None
    calls: tuple[Call, ...] = ()

    def __getitem__(self, path: str) -> Scope:
        """The tensors of the module at `path` by name. `LookupFailed`, with the nearest paths, if there is none."""
        from .records import scope

        return scope(self, path)

    __iter__: ClassVar[None] = None  # or else Python asks for trace[0], trace[1], …
    __contains__: ClassVar[None] = None

    def roles(self, role: str) -> list[Record]:
        """The tensors that have this role, in the order the code comes by them; none if it is of no tensor.

        A norm that the stream goes on from, as in post-LN, is found as "norm" and as the "residual" that it is.
        `LookupFailed`, with the nearest, if there is no such role.
        """
        from .records import with_role

        return with_role(self, role)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace as JSON Lines. The file is whole or not there: `FileError` if it cannot be written."""
        from .files import save

        save(self, path)

    def portable(self) -> Trace:
        """The trace without what another machine, torch version or edit of the source would change.

        What stays: calls, names, variables, shapes, axes, roles, dtypes, layouts, literals, notes and errors. What
        goes: stride, contiguity, storage, numbers, source lines, torch version and device, also in a literal.
        """
        devices = _devices(self.calls)
        calls = tuple(_portable(call, devices) for call in self.calls)
        return msgspec.structs.replace(self, torch=None, device="", weightless=False, calls=calls)

    def __str__(self) -> str:
        from .renderers import render

        return render(self)

    def __repr__(self) -> str:
        return f"<Trace of {self.target}: {len(self.calls)} calls; print it to see its tensors>"

    def _repr_html_(self) -> str:
        from .renderers import notebook

        return notebook(self)


def _devices(calls: Iterable[Call]) -> set[str]:
    """The devices that calls ran on, as literals write them: "'cuda:0'", and "'cuda'"."""
    found = {tensor.device for call in calls for tensor in (*call.inputs.values(), *call.outputs.values())}
    return {repr(name) for device in found for name in (device, device.partition(":")[0])}


def _portable(call: Call, devices: Collection[str]) -> Call:
    return msgspec.structs.replace(
        call,
        source=None,
        inputs={key: _portable_tensor(tensor) for key, tensor in call.inputs.items()},
        outputs={key: _portable_tensor(tensor) for key, tensor in call.outputs.items()},
        unmade={key: _portable_tensor(tensor) for key, tensor in call.unmade.items()},
        literals={key: text for key, text in call.literals.items() if text not in devices},
        written=(),
    )


def _portable_tensor(t: TensorMeta) -> TensorMeta:
    return TensorMeta(t.shape, dtype=t.dtype, layout=t.layout, name=t.name, kind=t.kind, axes=t.axes, role=t.role)


def part(name: str, key: str) -> str:
    """What stands at `key` of what is called `name`: "out[0]", "out.logits", or `name` itself."""
    if not key:
        return name
    index = INDEX.match(key)
    return f"{name}[{index[0]}]{key[index.end() :]}" if index else f"{name}.{key}"


INDEX = re.compile(r"[0-9]+(?![^.\[])")


def line_of(source: tuple[str, int] | None) -> str:
    """A file by its own name, and the line: "net.py:11"; empty for None."""
    return "" if source is None else f"{source[0].replace(chr(92), '/').rpartition('/')[2]}:{source[1]}"


def package_of(source: tuple[str, int] | None) -> str:
    """The installed package whose file that is; "" if it is none."""
    parts = PurePath(source[0] if source else "").parts
    homes = [at for at, part in enumerate(parts[:-1]) if part in ("site-packages", "dist-packages")]
    return parts[homes[-1] + 1] if homes else ""


def itemsize(dtype: str) -> int:
    """Bytes of one element of a dtype, by its name: "float32" -> 4. No dtype of torch takes less than one."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1
