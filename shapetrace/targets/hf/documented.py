"""What the docstring of a forward says that it takes: the kind of each tensor, and its sizes in words.

pixel_values (`torch.FloatTensor` of shape `(batch_size, num_channels, image_size, image_size)`, *optional*):
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

__all__ = ["STREAMS", "Said", "documented", "number"]

ENTRY = re.compile(r"^\s*(\w+) \(\W*(?:[Tt]orch\.(\w*)Tensor)?\W*of shape\s+['`]?([^`]*)", re.MULTILINE)
KINDS = {"Long": "int", "Int": "int", "Bool": "bool"}
WHOLE = re.compile(r"(^|_)(ids|mask|sizes|shapes|grid\w*|positions|bbox|lengths)(_|$)")
"""In the names of those of which it says no more than that they are tensors."""

STREAMS = "num_codebooks"
"""What a dim is called that has an id of each of several tables, for a sound; of shapes the one with it is taken."""


class Said(msgspec.Struct, frozen=True):
    """A tensor: "float", "int" or "bool", and what it says of each dim."""

    kind: str
    sizes: tuple[str, ...]


def documented(kind: Any) -> dict[str, Said]:
    """The tensors that the forward of a class says it takes."""
    return entries(kind.forward.__doc__ or "")


@lru_cache(maxsize=64)
def entries(text: str) -> dict[str, Said]:
    found: dict[str, Said] = {}
    for name, word, shape in ENTRY.findall(text):
        ways = [
            tuple(filter(None, map(str.strip, way.split(",")))) for way in re.findall(r"[^()\[\]]*,[^()\[\]]*", shape)
        ]
        words = next((way for way in ways if way[-1] == STREAMS), ways[0] if ways else (shape.strip("()[] "),))
        found.setdefault(name, Said(KINDS.get(word) or ("int" if WHOLE.search(name) else "float"), words))
    return found


OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: lambda one, other: one ** min(other, 4),
}


def number(text: str, named: Callable[[str], int]) -> int:
    """What a size comes to, `2 + patch_size**2`; one that is no expression is as if it were a name."""
    try:
        return value(ast.parse(text, mode="eval").body, named)
    except (SyntaxError, ValueError):
        return named(text)


def value(node: ast.expr, named: Callable[[str], int]) -> int:
    match node:
        case ast.Constant(value=int() as whole):
            return whole
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return named(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(left, named), value(right, named))
    raise ValueError(ast.unparse(node))
