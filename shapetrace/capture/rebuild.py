"""Build a model again at other sizes, from the configuration that it carries.

The configuration is its attribute `config`, an object or a dict, and its class is built of one: `type(model)(config)`.
Which axis a field of it sizes is told by the field's name; these are the names that the field of research uses. The
axes of the input are not among them: `T` in a configuration is the longest length there may be.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from ..letters import MADE, ROTATED, TIED, letters_of_names
from ..passes.formulas import evaluate

__all__ = ["attribute", "letters_of", "made", "rebuilt", "text_of", "undisputed"]

OF_INPUT = frozenset("BTSP")

DEEPEST = 4
"""How far a configuration holds others that are looked at."""


def letters_of(model: nn.Module) -> dict[str, int]:
    """The axes that the configuration of a model sizes; of several sizes for one letter the first that stands in it."""
    return sized(model)[0]


def undisputed(model: nn.Module) -> dict[str, int]:
    """Those of one size in all parts of it: which part runs, an encoder of images or the text, it does not tell."""
    found, disputed = sized(model)
    return {letter: size for letter, size in found.items() if letter not in disputed}


def sized(model: nn.Module) -> tuple[dict[str, int], set[str]]:
    """The letters, and those of which a part has another size."""
    found: dict[str, int] = {}
    disputed = set[str]()
    is_whole = True
    config = attribute(model, "config")
    text = text_of(config)
    for part in sorted(parts(config), key=lambda part: part is not text):
        fields = fields_of(part)
        is_whole = is_whole and ROTATED not in fields
        for name, letter in letters_of_names(fields).items():
            size = fields[name]
            if letter in OF_INPUT or type(size) is not int or size <= 0:
                continue
            if found.setdefault(letter, size) != size:
                disputed.add(letter)
    if is_whole and {"C", "H"} <= found.keys() and found["C"] % found["H"] == 0:
        found.setdefault("D", found["C"] // found["H"])
        disputed |= {"D"} if disputed & {"C", "H"} else set()
    return {letter: size for letter, size in found.items() if size != found.get(TIED.get(letter, ""))}, disputed


def text_of(config: Any) -> Any:
    """The part that is the text's, where a configuration says which: a model of text and images has its width."""
    try:
        return config.get_text_config()
    except Exception:  # it is the user's, or says nothing, or has two
        return None


def attribute(thing: object, name: str) -> Any:
    """An attribute of the user's, or None: it may be a property, and raise."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def rebuilt(model: nn.Module, old: Mapping[str, int], new: Mapping[str, int]) -> nn.Module:
    """A model of the same class, from the same configuration but for the letters of `new`; with weights of its own.

    Raises whatever the class raises: that it takes no configuration, or refuses these sizes.
    """
    other = type(model)(changed(model.config, old, new))
    like = next((parameter for parameter in model.parameters() if parameter.is_floating_point()), torch.empty(0))
    if isinstance(like, FakeTensor):
        for module in other.modules():  # which torch cannot convert in place
            for name, parameter in module._parameters.items():
                if parameter is not None and parameter.is_floating_point():
                    module._parameters[name] = nn.Parameter(parameter.to(like.device, like.dtype))
        return other.train(model.training)
    return other.to(like.device, like.dtype).train(model.training)


def changed(config: Any, old: Mapping[str, int], new: Mapping[str, int]) -> Any:
    """A copy of `config` with the sizes of `new` in the fields that have those of `old`, or leave F open."""
    whole = copy.deepcopy(config)
    for part in parts(whole):
        fields = fields_of(part)
        sizes = {
            name: new[each]
            for name, letter in letters_of_names(fields).items()
            for each in (letter, TIED.get(letter, letter))
            if each in new and (fields[name] == old.get(each) or (each == "F" and fields[name] is None))
        }
        sizes |= made(fields, old, new)
        if part is whole and is_frozen(part):
            return dataclasses.replace(part, **sizes)  # it may check its fields
        for name, size in sizes.items():
            if isinstance(part, dict):
                part[name] = size
            elif is_frozen(part):
                object.__setattr__(part, name, size)
            else:
                setattr(part, name, size)
    return whole


def made(fields: Mapping[str, Any], old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
    """Of the fields that are made of letters those that are others now, where the letters make a whole number."""
    fitting = [
        (name, formula)
        for name, formulas in MADE.items()
        for formula in formulas
        if name in fields and evaluate(formula, old) == fields[name]
    ]
    sizes = {name: evaluate(formula, {**old, **new}) for name, formula in fitting}
    return {name: size for name, size in sizes.items() if size is not None and size != fields[name]}


def is_frozen(config: Any) -> bool:
    parameters: Any = getattr(type(config), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def parts(config: object, deep: int = 0) -> Iterator[Any]:
    """A configuration, and those that it holds: an encoder's, a decoder's."""
    fields = fields_of(config)
    if not fields:
        return
    yield config
    family = set(type(config).__mro__) - {object}
    values = list(fields.values()) if deep < DEEPEST else []
    related = {kind for kind in set(map(type, values)) if family.intersection(kind.__mro__)}
    for value in values if related else ():
        if type(value) in related:
            yield from parts(value, deep + 1)


def fields_of(config: Any) -> dict[str, Any]:
    """The names and values in it; none if it is not the kind of thing that has any."""
    if issubclass(type(config), type):  # for `isinstance` would ask an attribute of the user's class
        return {}
    if issubclass(type(config), dict):
        return {name: value for name, value in config.items() if isinstance(name, str)}
    held = getattr(config, "__dict__", None)
    if isinstance(held, dict) and held:
        return held
    named = dataclasses.fields(config) if dataclasses.is_dataclass(config) else ()
    return {field.name: getattr(config, field.name) for field in named if hasattr(config, field.name)}
