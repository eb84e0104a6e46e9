"""Targets of the form `timm:NAME` and `torchvision:NAME`: a model of that library, with no weights, given an image.

What its builder takes are options: `--num-classes 10`, or `--set num_classes=10`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

import msgspec

from ..errors import TargetError
from .blame import blame
from .options import literal
from .place import Place, Way, hint

__all__ = ["timm", "torchvision"]

LARGE = {"inception_v3": 299}
"""Of torchvision's those that take larger images than 224 × 224."""


class Library(msgspec.Struct, frozen=True):
    """A library of models.

    names    gives those of all of them
    make     gives one, by name and with the options of its builder
    images   gives the sizes of what it takes, but for the batch: an image, two, a video
    """

    name: str
    names: Callable[[], list[str]]
    make: Callable[..., Any]
    images: Callable[[str, Any], list[tuple[int, ...]]]


def timm(target: str, name: str, way: Way) -> Place:
    def names() -> list[str]:
        return list(import_module("timm").list_models())

    def make(name: str, **options: Any) -> Any:
        return import_module("timm").create_model(name, pretrained=False, **options)

    def images(_: str, model: Any) -> list[tuple[int, ...]]:
        return [tuple(model.default_cfg.get("input_size", (3, 224, 224)))]

    return find(target, name, way, Library("timm", names, make, images))


def torchvision(target: str, name: str, way: Way) -> Place:
    def names() -> list[str]:
        return list(import_module("torchvision.models").list_models())

    def make(name: str, **options: Any) -> Any:
        models = import_module("torchvision.models")
        parts = signature(models.get_model_builder(name)).parameters.keys() & {"weights_backbone"}  # or they are loaded
        return models.get_model(name, weights=None, **dict.fromkeys(parts), **options)

    def images(name: str, model: Any) -> list[tuple[int, ...]]:
        side, kind = LARGE.get(name, 224), type(model).__module__
        if ".video" in kind:
            return [(3, 16, side, side)]
        return [(3, 128, 128)] * 2 if ".optical_flow" in kind else [(3, side, side)]

    return find(target, name, way, Library("torchvision", names, make, images))


def find(target: str, name: str, way: Way, library: Library, reason: bool = False) -> Place:
    if find_spec(library.name) is None:
        raise TargetError(
            f"{target}: this needs {library.name}, which is not installed: pip install 'shapetrace[{library.name}]'"
        )
    is_real = reason or way.weightless is False
    return Place(
        target,
        partial(builder, target, name, way, library, is_real),
        registered=True,
        weightless=True,
        guesses=True,
        instead=None if is_real or way.weightless or way.device else partial(find, target, name, way, library, True),
        note="{reason}; this run is not weightless" if reason else "",
    )


def builder(target: str, name: str, way: Way, library: Library, is_real: bool) -> Callable[..., object]:
    import torch

    from ..capture.weightless import Weightless, built
    from .refusals import refused

    with blame(f"{target}: {library.name} raised this while it was imported"):
        known = library.names()
    if name not in known:
        if not name:
            raise TargetError(f"{target} names no model: it is {library.name}:NAME{hint(name, known, 'there is')}")
        raise TargetError(f"{target}: {library.name} has no model {name!r}{hint(name, known)}")
    mode = None if is_real else Weightless()
    changes = dict(change(text) for text in way.changes)

    def build(B: int = 2, **options: Any) -> object:
        given = {**changes, **options}
        words = ", ".join(f"{key}={value!r}" for key, value in given.items())
        with refused(
            f"{target}: {library.name} cannot build {name}({words})",
            "--B is the batch; all else, --NAME VALUE or --set NAME=VALUE, is given to what builds it",
            given.items(),
        ):
            model = built(lambda: library.make(name, **given), mode).eval()
        images = [torch.randn(B, *sizes) for sizes in library.images(name, model)]
        is_list = ".detection" in type(model).__module__
        return model, ([list(image) for image in images] if is_list else images)

    build.__name__ = name
    return build


def change(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise TargetError(f"--set {text}: it is a name and its value, --set num_classes=10")
    return name.strip(), literal(value.strip())
