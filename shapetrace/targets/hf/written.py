"""What a user writes of a configuration: a file, the value of a field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import TargetError
from ...letters import FIELDS
from ..options import literal
from ..tensors import first_line

__all__ = ["beyond", "read", "read_value", "unquantised"]


def read(target: str, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        hint = "" if file.suffix == ".json" else "; nothing is fetched: give a type, or the path of a config.json"
        raise TargetError(f"{target}: {file} cannot be read: {error.strerror}{hint}") from None
    except (ValueError, RecursionError) as error:
        raise TargetError(f"{target}: {file} is no JSON: {first_line(error)}") from None
    if not isinstance(found, dict) or not isinstance(found.get("model_type"), str):
        raise TargetError(f"{target}: {file} is no configuration of a model: it has no model_type")
    return found


QUANTISED = ("quantization_config", "compression_config")


def unquantised(raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A configuration without what it says of the weights' own form, which is made by reading them; and a note."""
    found = {name: value for name, value in raw.items() if name not in QUANTISED}
    notes: tuple[str, ...] = ()
    for name in QUANTISED:
        if raw.get(name):
            how = raw[name].get("quant_method") if isinstance(raw[name], Mapping) else None
            notes = (f"{name}{f' ({how})' if how else ''} is left out: weights are not quantised here",)
    for name, value in found.items():
        if isinstance(value, Mapping):
            found[name], inner = unquantised(value)
            notes = notes or inner
    return found, notes


def read_value(text: str) -> object:
    """A value as JSON or Python writes it: true, True, null, {"factor": 2.0}; else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return literal(text)


MOST_OF_ANY = 2**62
MOST_OF = {"num_labels": 10**6, **dict.fromkeys(FIELDS["L"].split(), 10**4)}
"""What a number in a file may be: of labels transformers makes a table, of layers modules, however many there are."""


def numbers_in(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers in what a file holds, and the names that they have there."""
    if isinstance(value, int):
        yield name, value
    elif isinstance(value, dict):
        for inner, part in value.items():
            yield from numbers_in(part, inner)
    elif isinstance(value, list):
        for part in value:
            yield from numbers_in(part, name)


def beyond(value: object) -> Iterator[str]:
    """The numbers in it that no model has, and of which a class would make modules, or tables, at once."""
    for name, number in numbers_in(value):
        is_count, most = name in MOST_OF, MOST_OF.get(name, MOST_OF_ANY)
        if is_count and number < 0:
            yield f"{name} is below 0"
        elif not -most <= number <= most:
            yield f"{name} is beyond {most}"
