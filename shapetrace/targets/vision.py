"""Targets of the form `timm:NAME` and `torchvision:NAME`: a model of that library, with no weights, given an image.

What its builder takes are options: `--num-classes 10`, or `--set num_classes=10`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

import msgspec

from ..errors import TargetError
from .options import literal, option
from .place import Place, Way, hint

__all__ = ["timm", "torchvision"]

LARGE = {"inception_v3": 299}
"""Of torchvision's those that take larger images than 224 × 224."""


Options = Mapping[str, Any]


class Library(msgspec.Struct, frozen=True):
    """A library of models.

    names    gives those of all of them
    make     gives one, by name and with the options of its builder
    images   gives the sizes of what it takes, but for the batch: an image, two, a video; from the same
    weights  its options that bring weights
    """

    name: str
    names: Callable[[], list[str]]
    make: Callable[..., Any]
    images: Callable[[str, Any, Options], list[tuple[int, ...]]]
    weights: tuple[str, ...]


def timm(target: str, name: str, way: Way) -> Place:
    def names() -> list[str]:
        return list(import_module("timm").list_models())

    def make(name: str, /, **options: Any) -> Any:
        return import_module("timm").create_model(name, pretrained=False, **options)

    def images(_: str, model: Any, options: Options) -> list[tuple[int, ...]]:
        config = getattr(model, "pretrained_cfg", None) or model.default_cfg
        channels, *sides = config.get("input_size", (3, 224, 224))
        sides = (built_for(model) if options else None) or sides
        return [(options.get("in_chans", channels), *sides)]

    return find(target, name, way, Library("timm", names, make, images, ("pretrained",)))


def torchvision(target: str, name: str, way: Way) -> Place:
    def names() -> list[str]:
        return list(import_module("torchvision.models").list_models())

    def make(name: str, /, **options: Any) -> Any:
        models = import_module("torchvision.models")
        parts = signature(models.get_model_builder(name)).parameters.keys() & {"weights_backbone"}  # or they are loaded
        return models.get_model(name, weights=None, **dict.fromkeys(parts), **options)

    def images(name: str, model: Any, options: Options) -> list[tuple[int, ...]]:
        side, kind = LARGE.get(name, 224), type(model).__module__
        sides = (built_for(model) if options else None) or (side, side)
        if ".video" in kind:
            return [(3, 16, *sides)]
        return [(3, 128, 128)] * 2 if ".optical_flow" in kind else [(3, *sides)]

    return find(target, name, way, Library("torchvision", names, make, images, ("weights", "weights_backbone")))


def built_for(model: Any) -> tuple[int, int] | None:
    """The height and width that a model was built for: what embeds its patches, or the model itself, says so."""
    for module in model.modules():
        size = getattr(module, "img_size", None) or getattr(module, "image_size", None)
        if type(size) is int:
            return size, size
        if isinstance(size, tuple | list) and len(size) == 2 and all(type(side) is int for side in size):
            return size[0], size[1]
    return None


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
    from .imports import imported
    from .refusals import refused

    with imported(target, library.name):
        known = library.names()
    if name not in known:
        if not name:
            raise TargetError(f"{target} names no model: it is {library.name}:NAME{hint(name, known, 'there is')}")
        raise TargetError(f"{target}: {library.name} has no model {name!r}{hint(name, known)}")
    mode = None if is_real else Weightless()
    changes = dict(change(text) for text in way.changes)

    def build(B: int = 2, **options: Any) -> object:
        given = chosen(target, library, changes, options)
        words = ", ".join(f"{key}={value!r}" for key, value in given.items())
        with refused(
            f"{target}: {library.name} cannot build {name}({words})",
            "--B is the batch; all else, --NAME VALUE or --set NAME=VALUE, is given to what builds it",
            given.items(),
        ):
            model = built(lambda: library.make(name, **given), mode).eval()
        images = [torch.randn(B, *sizes) for sizes in library.images(name, model, given)]
        is_list = ".detection" in type(model).__module__
        return model, ([list(image) for image in images] if is_list else images)

    build.__name__ = name
    return build


def chosen(target: str, library: Library, changes: Options, options: Options) -> dict[str, Any]:
    """What its builder is given. `TargetError` if that is said in two ways, or is to bring weights."""
    for name in changes.keys() & options.keys():
        if changes[name] != options[name]:
            both = f"--set {name}={changes[name]} and {option(name)} {options[name]}"
            raise TargetError(f"{target}: {both} do not go together")
    given = {**changes, **options}
    for name in library.weights:
        if given.pop(name, None):
            raise TargetError(f"{target}: {option(name)} would bring weights, and nothing is downloaded; leave it out")
    return given


def change(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise TargetError(f"--set {text}: it is a name and its value, --set num_classes=10")
    return name.strip(), literal(value.strip())
