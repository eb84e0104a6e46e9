"""Targets of the form `hf:TYPE`, `hf:path/config.json` and `hf:TYPE:CLASS`: what transformers can build, unloaded.

A model is built from its configuration alone: no weights, nothing is downloaded. It is weightless, so of any size; for
one that looks at values that it computes, and so cannot be, a small one runs in earnest, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from inspect import Parameter, Signature
from typing import Any

import msgspec

from ...errors import TargetError
from ...letters import FIELDS
from ..place import Place, Way, hint

__all__ = ["find"]


def find(target: str, rest: str, way: Way) -> Place:
    """A model that transformers knows. `TargetError` if there is no transformers."""
    if find_spec("transformers") is None:
        raise TargetError(f"{target}: this needs transformers, which is not installed: pip install 'shapetrace[hf]'")
    if not rest:
        from ..imports import imported
        from .configs import types

        with imported(target, "transformers"):
            known = hint("", types(), "there is")
        raise TargetError(f"{target} names no model: it is hf:TYPE or hf:path/config.json{known}")
    return place(Wanted(target, *split(rest), way))


def split(rest: str) -> tuple[str, str]:
    """The type or the file, and the class if one is named: "bert:ForMaskedLM", "config.json:LlamaModel"."""
    source, colon, name = rest.rpartition(":")
    if colon and not name:
        raise TargetError(f"hf:{rest} names no class after its last colon: hf:{source} alone, or hf:{source}:CLASS")
    if not colon or (len(source) == 1 and name[:1] in "\\/"):  # the colon of a drive
        return rest, ""
    return source, name


class Wanted(msgspec.Struct, frozen=True):
    """A model of transformers, and in which way to run it.

    source   a type or a file
    named    a class; "" if the configuration is to say
    reduced  whether it is to be small
    ask      whether to find inputs by trying, of a model that takes nothing but text as well
    """

    target: str
    source: str
    named: str
    way: Way
    reduced: bool = False
    ask: bool = False


def place(wanted: Wanted) -> Place:
    instead = None
    if not wanted.ask:
        instead = msgspec.structs.replace(wanted, ask=True)
    elif not wanted.reduced and wanted.way.weightless is None and wanted.way.device is None:
        instead = msgspec.structs.replace(wanted, reduced=True)
    notes: dict[str, None] = {}
    return Place(
        wanted.target,
        lambda: builder(wanted, notes),
        registered=True,
        weightless=True,
        guesses=True,
        is_told=wanted.ask and not wanted.reduced,
        notes=notes,
        instead=None if instead is None else lambda: place(instead),
        note="{reason}; this is a small model in its place, which is not weightless" if wanted.reduced else "",
    )


def builder(wanted: Wanted, notes: dict[str, None]) -> Callable[..., object]:
    """What gives the model and its inputs; the letters that its configuration and its inputs have are its options.

    What a reader must know of them goes into `notes`.
    """
    from ...capture.weightless import Weightless, building
    from ..imports import imported
    from .asked import asked
    from .classes import class_for
    from .configs import Recipe, moved
    from .inputs import inputs, smallest
    from .plans import Plan, lengths, letters_of_input, plans, without_token
    from .small import small

    with imported(wanted.target, "transformers"):
        recipe = Recipe.of(wanted.target, wanted.source, wanted.way.changes)
        kind = class_for(wanted.target, recipe.config(), wanted.named)
    if wanted.reduced:
        recipe = small(recipe)
    fixed = lengths(kind, recipe.config())
    is_real = wanted.reduced or wanted.way.weightless is False
    mode = None if is_real else Weightless()

    notes.update(dict.fromkeys(recipe.notes))
    chosen: list[Plan] = []  # by the first that is built; others, at other sizes, are given the same

    def build(**options: int | None) -> object:
        letters = {LETTERS.get(name, name): size for name, size in options.items()}
        own = {letter: size for letter, size in letters.items() if letter not in fixed and size is not None}
        if not chosen:
            recipe.agree(own)
        config = recipe.config(own)
        if kind.__name__.endswith("ForSequenceClassification") and config.pad_token_id is None:
            config.pad_token_id = 0  # it takes rows of more than one length if it can tell them, and else but one row
            notes["pad_token_id is 0: the configuration has none, and without it but one row can be classified"] = None
        for place, name in enumerate(without_token(kind, config)):
            setattr(config, name, smallest(config) - 1 - place)
            notes[f"{name} is {getattr(config, name)}: the configuration has none"] = None
        with building(mode):
            model = made(wanted.target, kind, config, is_real)
        sizes = {letter: letters.get(letter) or size for letter, size in fixed.items()}
        if not chosen:
            known = plans(kind, model.config)
            plan, left = asked(model, known, sizes) if wanted.ask or len(known) > 1 else (known[0], "")
            chosen.append(plan)
            if (ids := moved(recipe.config(), config)) and not wanted.reduced:
                names = ", ".join(f"{name} is {new}, not {old}" for name, (old, new) in ids.items())
                notes[f"the vocabulary that was asked for has fewer words: {names}"] = None
            if left:
                notes[f"text only: {left}" if "input_ids" in plan.names else left] = None
        return model, (), inputs(model, chosen[0], sizes)

    build.letters = lambda name: letters_of_input(kind, fixed, name)  # type: ignore[attr-defined]
    build.__name__ = kind.__name__
    build.__signature__ = signature(fixed, recipe.letters())  # type: ignore[attr-defined]
    return build


OPTIONS = {letter: FIELDS[letter].split()[0] for letter in FIELDS if letter.islower()}
"""Letters that are no options by themselves: another builder may take `h` and `w` for what is tall and wide."""

LETTERS = {name: letter for letter, name in OPTIONS.items()}


def made(target: str, kind: Any, config: Any, is_real: bool) -> Any:
    from ..refusals import refused
    from .configs import fields, fitting, quietly, uninitialised

    refusal = refused(
        f"{target}: {kind.__name__} cannot be built with this configuration",
        "--set FIELD=VALUE changes a field",
        fields(config),
    )
    with quietly(), nullcontext() if is_real else uninitialised(), refusal:
        return kind._from_config(fitting(kind, config)).eval()


def signature(fixed: Mapping[str, int], own: Sequence[str]) -> Signature:
    """The letters of the input with their sizes, and the model's own."""
    options: list[tuple[str, Any, int | None]] = [(letter, int, size) for letter, size in fixed.items()]
    options += [(OPTIONS.get(letter, letter), int | None, None) for letter in own if letter not in fixed]
    return Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=size) for name, kind, size in options]
    )
