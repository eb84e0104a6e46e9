"""Which inputs a model of transformers is to be given, going by what its forward takes and its configuration says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .documented import documented

__all__ = ["Plan", "lengths", "letters_of_input", "plans", "takes", "without_token"]

SIGNALS = ("pixel_values", "input_values", "input_features")
"""The inputs that are no text."""


class Plan(msgspec.Struct, frozen=True):
    """Which inputs there are to be, and what is known of them beside what the model says.

    shapes   of those of which the model says another than it takes; the batch comes before them
    tokens   ids, and how many of each stand in front of a text: one for each piece of an image
    ones     floats that are not random, for numbers among them are rows of a table
    streams  how many ids there are at a time, of sound; 0 is as the model says
    cache    whether keys and values may be kept
    """

    names: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = {}
    tokens: Mapping[int, int] = {}
    ones: tuple[str, ...] = ()
    streams: int = 0
    cache: bool = True


def takes(kind: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind.forward).parameters


def plans(kind: Any, config: Any) -> list[Plan]:
    """What may be given, the most first: text and all that is no text, then what stands for the whole."""
    names = takes(kind)
    needed = [
        name
        for name, parameter in names.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and name not in ("self", *SIGNALS)
    ]
    found = []
    for signals, is_text in (
        ([name for name in SIGNALS if name in names], "input_ids" in names),
        (main_signals(kind, config), has_text(kind, config)),
    ):
        text = ["input_ids", *(["attention_mask"] if "attention_mask" in names else [])] if is_text else []
        decoded = ["decoder_input_ids"] if "decoder_input_ids" in names else []
        found.append(Plan(tuple(dict.fromkeys([*signals, *text, *decoded, *needed]))))
    return found[:1] if found[0] == found[1] else found


def main_signals(kind: Any, config: Any) -> list[str]:
    """The inputs of it that are no text: all that a model that compares has, else the one that stands for text."""
    found = [name for name in SIGNALS if name in takes(kind)]
    if compares(config):
        return found
    is_text = "input_ids" in takes(kind) and kind.main_input_name not in (*found, "inputs")
    return [] if is_text else found[:1]


def has_text(kind: Any, config: Any) -> bool:
    return "input_ids" in takes(kind) and (compares(config) or not main_signals(kind, config))


def compares(config: Any) -> bool:
    return hasattr(config, "projection_dim") and hasattr(config, "text_config")


def lengths(kind: Any, config: Any) -> dict[str, int]:
    """The letters of the input, and their sizes where nobody says another."""
    is_decoded = "decoder_input_ids" in takes(kind)
    found = {"B": 2}
    if is_decoded or "input_ids" in takes(kind):
        found["T"] = 8
    if is_decoded and has_text(kind, config):
        found["S"] = 6
    return found


def letters_of_input(kind: Any, fixed: Mapping[str, int], name: str) -> list[str | None]:
    """The letter of each dim of an input, as far as the forward says what its dims are; None for one without."""
    said = documented(kind).get(name)
    own = "T" if "S" not in fixed or name.startswith("decoder") else "S"
    found = [
        "B" if word == "batch_size" else own if LENGTH.search(word) and own in fixed else None
        for word in (said.sizes if said else ())
    ]
    return found if len({*found} - {None}) == len(found) - found.count(None) else []


LENGTH = re.compile("sequence_length|seq_?len|ids_length")


def without_token(kind: Any, config: Any) -> Iterator[str]:
    """The fields that say which id stands for a piece of an image, or of sound, and say none, where both are taken."""
    if "input_ids" in takes(kind) and any(name in takes(kind) for name in SIGNALS):
        for name, value in vars(config).items():
            if value is None and re.fullmatch("(image|video|audio)_token_(id|index)", name):
                yield name
