"""Find the tensors in any structure of arguments and results, and write what is no tensor as Python does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from itertools import count, islice
from typing import Any, cast

import msgspec
import torch

from ..schema import TensorMeta
from .tensors import PLAIN

__all__ = ["ARGUMENTS", "ATOMS", "FLAT", "MOST_WRITTEN", "Structure", "collect", "join_keys", "literal", "text"]

ARGUMENTS = frozenset({int, float, bool, type(None)})
FLAT = frozenset({tuple, torch.Size})
SEQUENCES = FLAT | {list}
CONSTANTS = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
ATOMS = ARGUMENTS | CONSTANTS | {str, complex}
"""What can be kept as it is, to be written later: it does not change, and leads to nothing else."""

DEEPEST = 16
MOST = 4096
MOST_WRITTEN = 16
LONGEST = 200
"""Bounds, so that a structure that holds itself, or a million numbers, comes to an end."""


class Structure(msgspec.Struct, frozen=True, gc=False):
    """An argument or a result that is neither a tensor nor an atom: what was in it.

    tensors    key, tensor, and its `id`
    literals   key of what is no tensor, and how Python writes it
    """

    tensors: tuple[tuple[str, TensorMeta, int], ...]
    literals: dict[str, str]


def collect(
    value: Any, key: str, literals: dict[str, str], above: tuple[int, ...] = ()
) -> list[tuple[str, torch.Tensor]]:
    """Each tensor inside `value` with its key; what is none is written into `literals`.

    Tuples, lists, mappings (so `ModelOutput`) and dataclasses are looked into; one that holds no tensor is one literal,
    and so is one that is inside itself.
    """
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return [(key, value)]
    parts = parts_of(cast(Hashable, kind))
    if parts is None or id(value) in above or len(above) > DEEPEST:
        literals[key] = literal(value)
        return []
    found: list[tuple[str, torch.Tensor]] = []
    others: dict[str, str] = {}
    for name, part in first_parts(parts, value):
        inner = name if not key else f"{key}[{name}]" if name[:1].isdigit() else f"{key}.{name}"
        if type(part) in PLAIN:
            found.append((inner, part))
        elif type(part) in ARGUMENTS:
            others[inner] = repr(part)
        else:
            found += collect(part, inner, others, (*above, id(value)))
    if found:
        literals.update(others)
    else:
        literals[key] = literal(value)
    return found


Parts = Callable[[Any], Iterable[tuple[str, Any]]]


@lru_cache(maxsize=1024)
def parts_of(kind: Any) -> Parts | None:
    """How to take a structure of this class apart into names and values; None if it is not one."""
    if issubclass(kind, (list, tuple)):
        return lambda value: zip(map(str, count()), value, strict=False)
    if issubclass(kind, Mapping):
        return lambda value: ((name_in_mapping(name), part) for name, part in value.items())
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: ((name, getattr(value, name, None)) for name in names)
    return None


def name_in_mapping(name: object) -> str:
    """A name is written as it is, anything else as Python does: "a.b" must not read as the b of a."""
    return name if type(name) is str and name.isidentifier() else literal(name)


def first_parts(parts: Parts, value: Any) -> list[tuple[str, Any]]:
    """A mapping is a user's code, and may fail where it is looked into."""
    try:
        return list(islice(parts(value), MOST))
    except Exception:
        return []


def join_keys(outer: str, inner: str) -> str:
    """The key of what stands at `inner` within what stands at `outer`: "0" and "1.mask" make "0[1].mask"."""
    if not outer or not inner:
        return outer or inner
    digits = len(inner) - len(inner.lstrip("0123456789"))
    return f"{outer}[{inner[:digits]}]{inner[digits:]}" if digits else f"{outer}.{inner}"


def literal(value: Any, depth: int = 0) -> str:
    """`value` as Python writes it. What is no number, text or container is `<its class>`: no `__repr__` is run."""
    kind = type(value)
    if kind in ARGUMENTS:
        return text(value)
    if kind in CONSTANTS:
        return CONSTANT_TEXTS[value]
    if kind in SEQUENCES and depth <= DEEPEST:
        parts = [literal(part, depth + 1) for part in value[:MOST_WRITTEN]]
        if len(value) > MOST_WRITTEN:
            parts.append("…")
        written = f"[{', '.join(parts)}]" if kind is list else f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    elif kind is slice:
        parts = ["" if part is None else literal(part, depth + 1) for part in (value.start, value.stop, value.step)]
        written = ":".join(parts if parts[2] else parts[:2])
    elif kind is str or kind is complex:
        written = repr(value)
    elif value is Ellipsis:
        written = "..."
    else:
        written = f"<{value.__name__ if isinstance(value, type) else kind.__name__}>"
    return written if len(written) <= LONGEST else f"{written[:LONGEST]}…"


def text(value: Any) -> str:
    """A number, or a short sequence of numbers, as Python writes it."""
    try:
        return repr(value) if type(value) is not torch.Size else repr(tuple(value))
    except ValueError:  # Python writes no int of more than 4300 digits
        return "<int>" if type(value) is int else literal(list(value))


class ConstantTexts(dict[object, str]):
    """A dtype, device, layout or memory format as Python writes it; there are few of them."""

    def __missing__(self, constant: object) -> str:
        text = self[constant] = repr(str(constant) if type(constant) is torch.device else constant)
        return text


CONSTANT_TEXTS = ConstantTexts()
