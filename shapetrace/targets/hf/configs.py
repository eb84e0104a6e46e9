"""Configurations: of a type that transformers knows, or in a file, with the fields that are to be others."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from ...capture.rebuild import attribute, made, text_of
from ...contexts import context
from ...errors import TargetError, brief
from ...letters import MODEL_AXES, PART_AXES, letters_of_names
from ..place import hint
from .written import beyond, read, read_value, unquantised

__all__ = ["Recipe", "fields", "fitting", "merged", "moved", "parts", "quietly", "types", "uninitialised"]

OF_INPUT = "BTSP"

Way = tuple[str, ...]
"""The names that lead into a configuration: ("text_config", "hidden_size")."""


class Recipe(msgspec.Struct, frozen=True):
    """What configurations are made of.

    kind   their class
    raw    the fields that differ from its defaults, nested
    said   those that were set, and how that is written
    notes  what a reader must know of it
    """

    target: str
    kind: Any
    raw: dict[str, Any]
    said: dict[Way, str] = {}
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: str, source: str, changes: Sequence[str]) -> Recipe:
        """From a model type or the path of a file, and changes as they are written: "text_config.hidden_size=64"."""
        is_file = source.endswith(".json") or "/" in source or "\\" in source
        raw = read(target, Path(source)) if is_file else {"model_type": source}
        raw, notes = unquantised(raw)
        recipe = cls(target, kind_of(target, raw), raw, notes=notes)
        if is_file:
            recipe.check(raw, f"{source} is no configuration of a model")
        for change in changes:
            recipe = recipe.changed(change)
        return recipe

    def changed(self, change: str) -> Recipe:
        """With one field as the user writes it. `TargetError`, with names that are near, if there is no such field."""
        dotted, equals, text = change.partition("=")
        *way, name = dotted.strip().split(".")
        if not equals or not name:
            raise TargetError(f"--set {change}: it is a field and its value, --set num_hidden_layers=2")
        value = read_value(text.strip())
        if dotted.strip() == "model_type" and value != self.raw["model_type"]:
            raise TargetError(f"{self.target}: --set {change}: another type is another target, hf:{value}")
        self.check({name: value}, f"--set {change}")
        holder: Any = self.config()
        for depth, step in enumerate((*way, name)):
            known = names_of(holder)
            if step not in known and not (depth == len(way) and self.takes((*way, step), value)):
                where = ".".join(way[:depth]) or type(holder).__name__
                near = hint(step, known, "it has")
                inside = [".".join((*path, step)) for path, part in parts(self.config()) if step in names_of(part)]
                raise TargetError(
                    f"{self.target}: --set {change}: there is no field {step!r} in {where}"
                    f"{': it is ' + ' and '.join(inside) if inside else near}"
                )
            holder = holder.get(step) if isinstance(holder, dict) else attribute(holder, step)
        found = self.having({(*way, name): value})
        return msgspec.structs.replace(found, said={**self.said, self.own((*way, name)): change})

    def takes(self, way: Way, value: object) -> bool:
        """Whether its class makes something else of a field that it does not keep under that name."""
        with suppress(TargetError):
            without = self.having({(*way[:-1], FOREIGN): value}).config()
            return has_changed(without, self.having({way: value}).config(), {FOREIGN, way[-1]})
        return True  # it refuses the value, and so knows the field

    def own(self, way: Way) -> Way:
        """A field as its class calls it, which others call otherwise."""
        for inner, part in parts(self.config()):
            if inner == way[:-1]:
                return (*inner, getattr(type(part), "attribute_map", {}).get(way[-1], way[-1]))
        return way

    def check(self, given: object, where: str) -> None:
        for said in beyond(given):
            raise TargetError(f"{self.target}: {where}: {said}")

    def agree(self, letters: Mapping[str, int]) -> None:
        """`TargetError` if a field was set to a value that a letter which is given says otherwise."""
        config = self.config()
        now = dict(fields(config))
        for way, size in resized(config, letters).items():
            if way in self.said and now.get(".".join(way)) != size:
                letter = next(letter for letter in letters if way in resized(config, {letter: letters[letter]}))
                raise TargetError(f"{self.target}: --{letter} {size} and --set {self.said[way]} do not go together")

    def having(self, fields: Mapping[Way, Any]) -> Recipe:
        raw = self.raw
        unsaid = {way[0] for way in fields if len(way) > 1 and way[0] not in raw}
        for way, part in parts(self.config()) if unsaid else ():
            if (
                len(way) == 1 and way[0] in unsaid
            ):  # where nothing is said of a part it is not always as its own class has it
                raw = {**raw, way[0]: told(part)}
        for way, value in fields.items():
            raw = merged(raw, nested(way, value))
        return msgspec.structs.replace(self, raw=raw)

    def config(self, letters: Mapping[str, int] | None = None) -> Any:
        """A configuration, with these letters at other sizes. `TargetError` with what its class says if it refuses."""
        if letters:
            return self.having(resized(self.config(), letters)).config()
        try:
            with quietly():
                return self.kind.from_dict(
                    json.loads(json.dumps(self.raw))
                )  # it may keep what it is given, and change it
        except Exception as error:
            said = brief(" ".join(str(error).split()))
            raise TargetError(f"{self.target}: {self.kind.__name__} refuses this: {said}") from None

    def letters(self) -> list[str]:
        """The letters that some field sizes, L among them."""
        found = {
            letter
            for _, part in parts(self.config())
            for name, letter in letters_of_names(names_of(part)).items()
            if letter not in OF_INPUT and (type(attribute(part, name)) is int or letter == "F")
        }
        return [letter for letter in (*MODEL_AXES, "L", *PART_AXES) if letter in found]


def told(part: Any) -> dict[str, Any]:
    """What a configuration says that its class does not by itself: not what that makes of the rest, layer by layer."""
    found: dict[str, Any] = part.to_diff_dict()
    for name in [name for name, value in found.items() if isinstance(value, list)]:
        rest = {other: value for other, value in found.items() if other != name}
        with suppress(Exception), quietly():
            if attribute(type(part).from_dict(dict(rest)), name) == found[name]:
                found = rest
    return found


FOREIGN = "of_no_configuration"
"""A field that no class knows: it is kept as it is."""


def has_changed(config: Any, other: Any, but: Collection[str]) -> bool:
    """Whether two configurations differ in more than these attributes."""
    ours, theirs = (
        {".".join((*way, name)): value for way, part in parts(each) for name, value in vars(part).items()}
        for each in (config, other)
    )
    names = {name for name in ours.keys() | theirs.keys() if name.rpartition(".")[2] not in but}
    return any(name not in ours or name not in theirs or ours[name] != theirs[name] for name in names)


def types() -> list[str]:
    """The types of models that transformers knows."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return list(CONFIG_MAPPING.keys())


def kind_of(target: str, raw: Mapping[str, Any]) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    name = raw["model_type"]
    if name not in CONFIG_MAPPING:
        known = hint(name, types())
        if "auto_map" in raw:
            raise TargetError(
                f"{target}: {brief(name)!r} needs code of its own, which is not run; transformers has no such type"
            )
        raise TargetError(f"{target}: transformers has no model of type {brief(name)!r}{known}")
    return CONFIG_MAPPING[name]


def parts(config: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """A configuration, and those that it holds, with the names that lead there."""
    from transformers import PretrainedConfig

    yield way, config
    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            yield from parts(value, (*way, name))


def fields(config: Any) -> Iterator[tuple[str, object]]:
    """All that it says, by dotted names; a dict that a field holds is a part as well."""
    for way, part in parts(config):
        for name, value in vars(part).items():
            if isinstance(value, dict):
                yield from ((".".join((*way, name, str(key))), inner) for key, inner in value.items())
            yield ".".join((*way, name)), value


def names_of(holder: Any) -> list[str]:
    if isinstance(holder, dict):
        return list(holder)
    names = [*vars(holder), *getattr(type(holder), "attribute_map", {})] if hasattr(holder, "__dict__") else []
    return [name for name in names if not name.startswith("_")]


def resized(config: Any, letters: Mapping[str, int]) -> dict[Way, Any]:
    """The fields that have the letters' sizes, or leave F open, with those they are to have.

    Of several sizes for one letter the first that stands in the configuration counts. Fewer layers are the first ones.
    """
    old: dict[str, int] = {}
    found: dict[Way, Any] = {}
    text = text_of(config)
    for way, part in sorted(parts(config), key=lambda each: each[1] is not text):
        fields = vars(part)
        for name, letter in letters_of_names(fields).items():
            value, is_open = fields[name], letter == "F" and fields[name] is None
            if letter not in letters or not (type(value) is int or is_open):
                continue
            if is_open or old.setdefault(letter, value) == value:
                found[(*way, name)] = letters[letter]
        found |= {(*way, name): size for name, size in made(fields, old, letters).items()}
        if "L" in letters and letters["L"] < old.get("L", 0):
            found |= {(*way, name): value for name, value in shortened(fields, old["L"], letters["L"]).items()}
        if "V" in letters:
            found |= {
                (*way, name): letters["V"] - 1 for name, value in fields.items() if outside(name, value, letters["V"])
            }
    return found


def shortened(fields: Mapping[str, Any], layers: int, fewer: int) -> dict[str, Any]:
    """What has an entry for each layer."""
    lists = {name: value for name, value in fields.items() if isinstance(value, list | tuple) and len(value) == layers}
    return {name: list(value[:fewer]) for name, value in lists.items() if not name.startswith("_")}


def moved(config: Any, other: Any) -> dict[str, tuple[int, int]]:
    """The ids of tokens that are others in another configuration, by dotted names: there is no such word there."""
    now = dict(fields(other))
    return {
        name: (value, here)
        for name, value in fields(config)
        if name.endswith(TOKENS) and type(value) is int and type(here := now.get(name)) is int and here != value
    }


TOKENS = ("_token_id", "_token_index")
"""How the name of a field ends that is the id of a token."""


def outside(name: str, value: Any, vocabulary: int) -> bool:
    """Whether a field is the id of a token, and that is in the vocabulary no more."""
    return name.endswith(TOKENS) and type(value) is int and value >= vocabulary


def nested(way: Way, value: Any) -> dict[str, Any]:
    first, *rest = way
    return {first: nested(tuple(rest), value) if rest else value}


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    for name in one.keys() & other.keys():
        if isinstance(one[name], Mapping) and isinstance(other[name], Mapping):
            both[name] = merged(one[name], other[name])
    return both


def fitting(kind: Any, config: Any) -> Any:
    """The configuration, or that inside of it which the class is for, as that of the text of a model that also sees."""
    if isinstance(config, kind.config_class):
        return config
    return next((part for _, part in parts(config) if isinstance(part, kind.config_class)), config)


@context
def quietly(most: int = logging.WARNING) -> Iterator[None]:
    """transformers says much that is about weights."""
    level = logging.root.manager.disable
    logging.disable(most)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def uninitialised() -> AbstractContextManager[object]:
    """Where there are no weights, nothing need be drawn for them."""
    for module in ("transformers.initialization", "transformers.modeling_utils"):  # the second before version 5
        with suppress(ImportError, AttributeError):
            return cast(AbstractContextManager[object], import_module(module).no_init_weights())
    return nullcontext()
