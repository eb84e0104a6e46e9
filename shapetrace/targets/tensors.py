"""Inputs for a model that came without any, made from specs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .inputs import INTEGERS, Spec, highest, shape
from .options import join, parameters, signature_of
from .place import hint

__all__ = ["as_spec", "example", "first_line", "inputs", "replaced"]

IDS = 10
"""Integers are drawn below this where neither their spec nor an embedding sets a limit."""


def inputs(
    model: nn.Module, specs: Sequence[Spec], letters: Mapping[str, int]
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The tensors of `specs`, as args and kwargs of `model`. `InputError` if it does not take them or needs others."""
    signature = signature_of(model.forward)
    if wrong := misfit([spec.name for spec in specs], signature):
        what, *then = wrong
        raise InputError("\n".join([f"{type(model).__name__} {what}", shown(model, signature), *then]))
    shapes = [shape(spec, letters) for spec in specs]
    made = [(spec.name, draw(spec, sizes, model)) for spec, sizes in zip(specs, shapes, strict=True)]
    kwargs = {name: tensor for name, tensor in made if name is not None}
    return [tensor for name, tensor in made if name is None], kwargs


def replaced(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], specs: Sequence[Spec], letters: Mapping[str, int]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """What a model was to be given, with the tensors of `specs` in the place of others, or beside them.

    Those without a name come in the place of what is given by position.
    """
    given = {**kwargs, **{spec.name: None for spec in specs if spec.name is not None}}
    positional = [spec for spec in specs if spec.name is None]
    whole = signature_of(model.forward)
    named = [each for each in whole.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    signature = whole.replace(parameters=named)  # what takes anything would take what is mistyped as well
    if wrong := misfit([*[None] * max(len(args), len(positional)), *given], signature):
        what, *then = wrong
        raise InputError("\n".join([f"{type(model).__name__} {what}", shown(model, signature), *then]))
    made = {spec: draw(spec, shape(spec, letters), model) for spec in specs}
    own = [made[spec] for spec in positional]
    return [*own, *args[len(own) :]], {
        **kwargs,
        **{spec.name: tensor for spec, tensor in made.items() if spec.name is not None},
    }


def as_spec(name: str, tensor: Tensor) -> str:
    """A tensor as a spec says it."""
    return f"{name}: {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def misfit(given: Sequence[str | None], signature: Signature) -> list[str]:
    """Why a forward cannot be called with inputs of these names, and what then can be done; nothing if it can."""
    takes, rest = parameters(signature)
    names = [name for name in given if name is not None]
    if unknown := [name for name in names if name not in takes and rest is None]:
        return [f"has no input {unknown[0]!r}{hint(unknown[0], takes)}"]
    if twice := [name for name in names if names.count(name) > 1]:
        return [f"is given {twice[0]!r} twice"]
    try:
        bound = signature.bind_partial(*range(len(given) - len(names)), **dict.fromkeys(names)).arguments
    except TypeError as error:
        return [f"cannot be called with these inputs: {error}"]
    missing = [key for key, parameter in takes.items() if parameter.default is Parameter.empty and key not in bound]
    if missing:
        return [f"needs {join(missing)}", f"for example: {' '.join(example(takes[key]) for key in missing)}"]
    return []


def shown(model: nn.Module, signature: Signature) -> str:
    text = str(signature.replace(return_annotation=Signature.empty)).replace("torch.Tensor", "Tensor")
    return textwrap.fill(f"{type(model).__name__}.forward{text}", 78, initial_indent="  ", subsequent_indent="    ")


def example(parameter: Parameter) -> str:
    """How an input may be given, going by its name."""
    name = parameter.name
    if "mask" in name:
        kind = "bool[2, 4]"
    elif re.search(r"(^|_)(ids?|tokens?|targets?|labels?|positions?|index|indices)(_|$)", name):
        kind = "int64[2, 4]"
    else:
        kind = "float32[2, 4, 8]"
    return f"--input '{kind}'" if parameter.kind is Parameter.POSITIONAL_ONLY else f"--input '{name}: {kind}'"


def draw(spec: Spec, sizes: tuple[int, ...], model: nn.Module) -> Tensor:
    """A random tensor, where the model is. `InputError` if torch cannot make it."""
    weight = next(model.parameters(), None)
    try:
        return values(spec, sizes, model).to("cpu" if weight is None else weight.device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"--input {spec.text!r} cannot be made: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """What torch says, without the frames in C++ that may follow it."""
    return str(error).partition("\n")[0]


def values(spec: Spec, sizes: tuple[int, ...], model: nn.Module) -> Tensor:
    dtype = getattr(torch, spec.dtype)
    if spec.dtype == "bool":
        return torch.randint(2, sizes, dtype=dtype)
    if spec.dtype in INTEGERS:
        tables = [
            table.num_embeddings for table in model.modules() if isinstance(table, nn.Embedding | nn.EmbeddingBag)
        ]
        limit = spec.below or min(tables, default=IDS)
        return torch.randint(min(limit, highest(spec.dtype)), sizes).to(dtype)
    if spec.dtype.startswith("float8"):
        return torch.randn(sizes).to(dtype)
    return torch.randn(sizes, dtype=dtype)
