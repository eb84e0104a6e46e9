"""The call that failed, as the rules read it: its arguments by what the code calls them, and where each came from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ...schema import Call, TensorMeta, Trace, line_of, package_of
from ..accounts import Memory, layout
from ..copying import is_crooked
from ..expressions import plain_name
from ..labels import Labels
from ..memory import Ledger, ledger
from ..nesting import walk
from .outlier import Outlier

__all__ = ["Fault", "Given", "failing", "fault", "listed", "modules", "product"]


LONG = 30
"""A name that is longer is shortened in a sentence."""


class Given(msgspec.Struct, frozen=True):
    """A tensor that the call was given, and what the code calls it, shortened and in full."""

    name: str
    tensor: TensorMeta
    full: str = ""

    @property
    def code(self) -> str:
        """The name as it stands before a dot: "(x / 2)", "(~mask)"."""
        return f"({self.name})" if is_loose(self.name) or self.name.startswith(("-", "~")) else self.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def is_integer(self) -> bool:
        return self.tensor.dtype.startswith(("int", "uint"))

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype.startswith(("float", "bfloat", "complex"))

    def axis(self, dim: int) -> str:
        """What a dim is: "T", or its size where that is not known."""
        return str(self.tensor.axes[dim] if self.tensor.axes is not None else self.shape[dim])

    def dim(self, dim: int) -> str:
        """What a dim is, and its size: "T=4", or "4" where its axis is not known."""
        axis, size = self.axis(dim), str(self.shape[dim])
        return size if axis == size else f"{axis}={size}"

    def __str__(self) -> str:
        return f"{self.name} [{', '.join(self.dim(dim) for dim in range(len(self.shape)))}]"


class Fault(msgspec.Struct, frozen=True):
    """A call that failed.

    index    of it in the trace
    name     of the function, or the class of the module
    text     what was raised, without the class of the exception
    given    the tensors it was given, by key
    code     what was written, as far as the record says
    codes    of each call before it, by index
    makers   of each tensor the first call that gave it, by their numbers
    outlier  what was looked up and is not there, where that was read
    """

    trace: Trace
    index: int
    name: str
    text: str
    given: dict[str, Given]
    code: str
    codes: dict[int, str]
    kept: Ledger
    makers: dict[int, int]
    outlier: Outlier | None = None

    @property
    def call(self) -> Call:
        return self.trace.calls[self.index]

    def tensor(self, *keys: str) -> Given | None:
        """The first of these arguments that is a tensor: by position, or by keyword."""
        return next((self.given[key] for key in keys if key in self.given), None)

    def tensors(self, key: str) -> list[Given]:
        """Those in the sequence at `key`."""
        return [tensor for inner, tensor in self.given.items() if inner.startswith(f"{key}[")]

    def ints(self, start: int, *names: str) -> list[int] | None:
        """Whole numbers that were given from position `start` on, one by one or in a sequence, or by keyword."""
        literals = self.call.literals
        texts = next(([literals[name]] for name in names if name in literals), None) or self.positional(start)
        found = [part.strip() for text in texts for part in text.strip("()[], ").split(",") if part.strip()]
        return [int(part) for part in found] if found and all(map(WHOLE.fullmatch, found)) else None

    def positional(self, start: int) -> list[str]:
        """Literals from position `start` on; none if there is a tensor among them."""
        texts = []
        while (key := str(start)) in self.call.literals:
            texts.append(self.call.literals[key])
            start += 1
        return [] if str(start) in self.given else texts

    def whole(self, position: int, *names: str, default: int | None = None) -> int | None:
        """One whole number, by position or by keyword."""
        literals = self.call.literals
        text = next((literals[key] for key in (str(position), *names) if key in literals), None)
        return default if text is None else int(text) if WHOLE.fullmatch(text) else None

    def numbers(self, pattern: str) -> list[int] | None:
        """The groups of `pattern` in what was raised, as numbers; None if it does not say so."""
        found = re.search(pattern, self.text)
        return None if found is None else [int(group) for group in found.groups()]

    def cause(self, given: Given) -> str:
        """The call by which a tensor lies otherwise than straight: "q.transpose(1, 2) (net.py:11)"; "" if none did."""
        index = self.kept.cause(self.index, given.tensor) if is_crooked(given.tensor) else None
        return "" if index is None else self.said(index)

    def maker(self, tensor: TensorMeta) -> int | None:
        """The first call that gave a tensor: of a module's result the module."""
        return None if tensor.number is None else self.makers.get(tensor.number)

    def around(self, name: str) -> dict[str, Given]:
        """What the function of this name was given that the call ran inside of; nothing if there is none."""
        depth = self.call.depth
        for index in reversed(range(self.index)):
            outer = self.trace.calls[index]
            if outer.depth < depth:
                depth = outer.depth
                if outer.name == name and outer.kind == "function":
                    return given_to(outer, self.kept.accounts[index].inputs)
        return {}

    def origin(self, given: Given) -> str:
        """Where a tensor came from, in a few words."""
        tensor = given.tensor
        if tensor.name is not None:
            return f"{'parameter' if tensor.kind == 'Parameter' else 'buffer'} {tensor.name}"
        index = self.maker(tensor)
        own = self.own(tensor)
        if index is not None and own is not tensor:
            return f"{self.origin(Given(given.name, own, given.full))}, as {self.said(index)}"
        if index is not None:
            code, line = self.codes[index], line_of(self.trace.calls[index].source)
            return f"from {line}" if line and code == given.name else f"from {self.said(index)}"
        return "input of the model" if self.is_input(tensor) else "made before"

    def own(self, tensor: TensorMeta) -> TensorMeta:
        """Of what a library's function made of one tensor of this shape, in other code than the library's, that tensor:
        of the mask that torch's attention reads the one that it was given. Else the tensor itself."""
        found, index = tensor, self.maker(tensor)
        package = "" if index is None else package_of(self.trace.calls[index].source)
        while package and index is not None and package_of(self.trace.calls[index].source) == package:
            given = {each.number: each for each in self.trace.calls[index].inputs.values()}
            (found, *others) = given.values() or [tensor]
            before = self.maker(found)
            if others or found.shape != tensor.shape or before == index:
                return tensor
            index = before
        return found

    def is_input(self, tensor: TensorMeta) -> bool:
        return tensor.number is not None and any(
            tensor.number == other.number
            for call in self.trace.calls[: self.index + 1]
            if call.kind == "module" and not call.path
            for other in call.inputs.values()
        )

    def said(self, index: int) -> str:
        """A call as code, and where that stands."""
        place = line_of(self.trace.calls[index].source)
        return f"{self.codes[index]}{f' ({place})' if place else ''}"

    def layout(self, given: Given) -> str:
        return layout(given.tensor)


def fault(trace: Trace) -> Fault | None:
    """The call that ended the pass; None if none did."""
    index = failing(trace)
    if index is None:
        return None
    call, kept, codes = trace.calls[index], ledger(trace), written(trace, index)
    given = given_to(call, {} if call.kind == "module" else kept.accounts[index].inputs)
    text = (call.error or "").partition(": ")[2]
    first = makers(trace, index)
    if call.name == "unpack" and codes[index].endswith("…"):
        maker = next((first.get(part.number) for part in call.inputs.values() if part.number is not None), None)
        codes[index] = codes[index][:-1] + codes[maker] if maker is not None else codes[index]
    return Fault(trace, index, plain_name(call), text, given, codes[index], codes, kept, first)


def given_to(call: Call, labels: Mapping[str, Memory]) -> dict[str, Given]:
    named = {key: labels[key].of if key in labels else "" for key in call.inputs}
    named = {key: plain(name or key) for key, name in named.items()}
    short = {name: shortened(name) for name in named.values()}
    clear = len(set(short.values())) == len(short)
    return {
        key: Given(short[named[key]] if clear else named[key], tensor, named[key])
        for key, tensor in call.inputs.items()
    }


def shortened(name: str) -> str:
    """A long chain of calls by its first and its last: "k.view(2, 6, 4, 4).transpose(1, 2)" -> "k….transpose(1, 2)"."""
    if len(name) <= LONG or is_loose(name):
        return name
    dots = [at for at, letter in outside(name) if letter == "."]
    return f"{name[: dots[0]]}…{name[dots[-1] :]}" if len(dots) > 1 else name


def is_loose(name: str) -> bool:
    """Whether there are signs in it outside of any brackets: "x / 2"."""
    return not name.startswith("argument ") and any(letter == " " for _, letter in outside(name))


def outside(name: str) -> Iterator[tuple[int, str]]:
    """The letters that are in no brackets, and where they are."""
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            yield at, letter


def makers(trace: Trace, stop: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for index, call in enumerate(trace.calls[:stop]):
        known = {tensor.number for tensor in call.inputs.values()}
        for tensor in call.outputs.values():
            if tensor.number is not None and tensor.number not in known:
                found.setdefault(tensor.number, index)
    return found


def failing(trace: Trace) -> int | None:
    """The innermost function that raised what ended the pass, or what that came from; or else the innermost module."""
    error = trace.cause or trace.error
    if error is None:
        return None
    found = [index for index, call in enumerate(trace.calls) if call.error == error and call.kind != "op"]
    return found[-1] if found else None


def written(trace: Trace, stop: int) -> dict[int, str]:
    """Each call up to `stop` as code."""
    labels, codes = Labels(), dict[int, str]()
    for index, entering in walk(trace.calls[: stop + 1]):
        call = trace.calls[index]
        if entering:
            codes[index] = labels.code(call).text
            if call.kind == "module":
                labels.enter(call)
            continue
        if call.kind == "module":
            labels.leave(call)
        labels.assign(call)
    return codes


def plain(name: str) -> str:
    """A name that is no more than a position, as `*args` have none."""
    return f"argument {name}" if name.isdigit() else name


def product(sizes: Sequence[int]) -> str:
    """ "3·4 = 12"; of one size just that."""
    return f"{'·'.join(map(str, sizes))} = {math.prod(sizes)}" if len(sizes) > 1 else str(math.prod(sizes))


def listed(parts: Sequence[str]) -> str:
    """ "B=2, T=4 and C=8"."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def modules(trace: Trace, index: int) -> list[int]:
    """The modules around a call, the outermost first."""
    around: list[int] = []
    for at, call in enumerate(trace.calls[: index + 1]):
        while around and trace.calls[around[-1]].depth >= call.depth:
            around.pop()
        around.append(at)
    return [at for at in around if trace.calls[at].kind == "module"]


WHOLE = re.compile(r"-?\d+")
