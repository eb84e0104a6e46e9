"""A tensor that has no name, written as the code that made it: "head_output.transpose(1, 2)", "x[:, -1]", "w_q(x)"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..records import part
from ..schema import Call

__all__ = ["SIGNS", "UNKNOWN", "Label", "expression", "plain_name", "unpacked"]

INFIX = {
    "add": "+",
    "sub": "-",
    "__rsub__": "-",
    "rsub": "-",
    "mul": "*",
    "div": "/",
    "true_divide": "/",
    "__rdiv__": "/",
    "__rtruediv__": "/",
    "floor_divide": "//",
    "remainder": "%",
    "matmul": "@",
    "__rmatmul__": "@",
    "pow": "**",
    "__rpow__": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
    "__and__": "&",
    "__or__": "|",
    "__xor__": "^",
    "__floordiv__": "//",
    "__rfloordiv__": "//",
    "__lshift__": "<<",
    "__rshift__": ">>",
}
PREFIX = {"neg": "-", "__neg__": "-", "__invert__": "~"}
SIGNS = INFIX | {
    "__invert__": "~",
    "__getitem__": "[…]",
    "__setitem__": "[…] =",
    "add_": "+=",
    "sub_": "-=",
    "mul_": "*=",
    "div_": "/=",
    "pow_": "**=",
    "floor_divide_": "//=",
    "remainder_": "%=",
    "__iand__": "&=",
    "__ior__": "|=",
    "__ixor__": "^=",
}
"""The sign that stands in the code for a function: between its two arguments, before its only one, or otherwise."""

REVERSED = frozenset({"__rsub__", "rsub", "__rdiv__", "__rtruediv__", "__rmatmul__", "__rpow__", "__rfloordiv__"})
ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})
METHODS = frozenset(
    """view view_as reshape reshape_as transpose permute movedim swapaxes expand expand_as squeeze unsqueeze flatten
    unflatten select narrow split chunk unbind unfold diagonal t contiguous clone detach to type type_as float double
    half bfloat16 int long bool cpu cuda repeat repeat_interleave masked_fill mean sum max min argmax item""".split()
)
"""Functions that are mostly written after their first tensor and a dot."""

DEEPEST = 4
LONGEST = 60
SHORT = 12
"""Bounds: of many steps, or a long text, all but the last is "x…"; what a module was given is "…" if it is long."""


class Label(NamedTuple):
    """What to call a tensor.

    depth   how many steps there are in it; 0 for a name
    loose   whether it needs brackets next to a dot or a sign
    root    what the first step began with
    """

    text: str
    depth: int = 0
    loose: bool = False
    root: str = ""

    @property
    def tight(self) -> str:
        return f"({self.text})" if self.loose else self.text

    @property
    def short(self) -> Label:
        return Label(f"{self.root}…", root=self.root) if self.depth else self

    def at(self, key: str) -> Label:
        """What stands at `key` of it."""
        return Label(part(self.tight, key), self.depth, root=self.root) if key else self


UNKNOWN = Label("…")


def plain_name(call: Call) -> str:
    """What a function is called without the library of its op: "aten.view" is "view"."""
    return call.name.rpartition(".")[2] if call.kind == "op" else call.name


def expression(call: Call, name: str, labels: Mapping[str, Label]) -> Label:
    """`call` as code; `labels` are those of its tensors by key, `name` is what to call the module or function."""
    depth = 1 + max((label.depth for label in labels.values()), default=0)
    first = next(iter(labels.values()), UNKNOWN)
    text, loose = code(call, name, labels)
    if depth > DEEPEST or len(text) > LONGEST:
        text, loose = code(call, name, {key: label.short for key, label in labels.items()})
        depth = 1
    return Label(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…", depth, loose, first.root or first.text)


def code(call: Call, name: str, labels: Mapping[str, Label]) -> tuple[str, bool]:
    """The text of an expression, and whether it is loose."""
    if call.kind == "module":
        inside = ", ".join(failing(call, labels) if call.error else (label.text for label in labels.values()))
        most = LONGEST if call.error else SHORT
        return f"{name}({inside if len(inside) <= most else '…'})", False
    if call.name == "unpack" and call.error is not None:
        of = f"{labels['0'].tight}.shape" if "0" in labels else "…"
        return f"{', '.join(unpacked(call))} = {of}", True
    positional, keywords = arguments(call, labels)
    if name == "__setitem__" and "0" in labels and len(positional) == 3:
        target, index, value = positional
        return f"{target.tight}[{bare(index.text)}] = {value.text}", True
    if name in INFIX and len(positional) == 2 and not keywords:
        left, right = reversed(positional) if name in REVERSED else positional
        return f"{left.tight} {INFIX[name]} {right.tight}", True
    if name in PREFIX and len(positional) == 1 and not keywords:
        return f"{PREFIX[name]}{positional[0].tight}", True
    return called(name, positional, keywords, "0" in labels), False


def failing(call: Call, labels: Mapping[str, Label]) -> Iterator[str]:
    """What a module that raised was given: that which it does not take by its keyword, and what is no tensor, too."""
    refused = UNEXPECTED.search(call.error or "")
    for key, label in labels.items():
        yield f"{key}={label.text}" if refused and refused[1] == key else label.text
    yield from (f"{key}={text}" for key, text in call.literals.items())


UNEXPECTED = re.compile("unexpected keyword argument '(.+)'")


def unpacked(call: Call) -> list[str]:
    """The variables of a statement that unpacks; "_" of what has no name."""
    count = call.literals.get("1", "")
    return [call.variables.get(str(at), "_") for at in range(int(count) if count.isdecimal() and len(count) < 4 else 0)]


def bare(index: str) -> str:
    """An index without the brackets of a tuple: "(:, 0)" is ":, 0"."""
    depth = 0
    for at, letter in enumerate(index):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            return index[1:-1] if letter == ")" and at == len(index) - 1 else index
    return index


def called(name: str, positional: list[Label], keywords: list[str], on_tensor: bool) -> str:
    rest = ", ".join([*(label.text for label in positional[1:]), *keywords])
    if on_tensor and name == "__getitem__":
        return f"{positional[0].tight}[{bare(rest)}]"
    if on_tensor and name in ATTRIBUTES:
        return f"{positional[0].tight}.{name}"
    if on_tensor and (name in METHODS or name.startswith("new_") or (name.endswith("_") and not name.endswith("__"))):
        return f"{positional[0].tight}.{name}({rest})"
    return f"{name}({', '.join([*(label.text for label in positional), *keywords])})"


def arguments(call: Call, labels: Mapping[str, Label]) -> tuple[list[Label], list[str]]:
    """What a function was given, in order, and its keywords as code. What says nothing is left out: `dtype=None`."""
    parts: dict[str, dict[str, str]] = {}
    whole: dict[str, Label] = {}
    for key, label in (*labels.items(), *((key, Label(text)) for key, text in call.literals.items())):
        top, bracket, place = key.partition("[")
        if bracket:
            parts.setdefault(top, {})[place] = label.text
        else:
            whole[top] = label
    start, end = "()" if plain_name(call) in ("__getitem__", "__setitem__") else "[]"
    for top, texts in parts.items():
        inside = ", ".join(texts[place] for place in sorted(texts, key=lambda place: (len(place), place)))
        whole[top] = Label(f"{start}{inside}{end}")
    positions = sorted((top for top in whole if top.isdigit()), key=int)
    said = (top for top in whole if not top.isdigit() and not top.startswith("_") and whole[top].text not in SILENT)
    return [whole[top] for top in positions], [f"{top}={whole[top].text}" for top in said]


SILENT = frozenset({"None", "False"})
