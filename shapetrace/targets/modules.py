"""Targets of the form `package.module:callable`; the current folder counts as installed."""

from __future__ import annotations

import importlib
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

from ..errors import TargetError
from .blame import blame
from .place import Place, attribute, hint, importable

__all__ = ["find"]


def find(target: str, module: str, name: str) -> Place:
    """What is called `name` in a module. `TargetError`, with the nearest modules, if there is no such module."""
    if not re.fullmatch(r"\w+(\.\w+)*", module):
        raise TargetError(f"{target}: {module!r} is no name of a module; one looks like package.module")
    place = Place(target, partial(load, target, module, name), Path.cwd())
    with importable(place.folder):
        top = module.partition(".")[0]
        if top not in sys.modules and find_spec(top) is None:
            raise TargetError(absent(target, module))
    return place


def load(target: str, module: str, name: str) -> object:
    with blame(f"{target}: {module} raised this while it was imported; `python -c 'import {module}'` must work first"):
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # it is there, and what it imports is not
            raise TargetError(absent(target, module)) from None
    return attribute(target, loaded, name)


def absent(target: str, module: str) -> str:
    """What to say where a module is not found: how far its name leads, and what there is in its place."""
    parent, _, name = module.rpartition(".")
    while parent and parent not in sys.modules:
        parent, _, name = parent.rpartition(".")
    if not parent:
        others = [found.name for found in iter_modules()]
        return f"{target}: there is no module {name!r}, neither installed nor in the current folder{hint(name, others)}"
    others = [found.name for found in iter_modules(getattr(sys.modules[parent], "__path__", []))]
    return f"{target}: there is no module {name!r} in {parent}{hint(name, others, 'it has')}"
