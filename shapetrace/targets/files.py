"""Targets of the form `path/file.py:callable`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..errors import TargetError
from .blame import blame
from .place import Place, attribute, hint

__all__ = ["find"]


def find(target: str, where: str, name: str) -> Place:
    """What is called `name` in the file `where`. `TargetError`, with the files that there are, if it is not there."""
    file = Path(where)
    if not file.parent.is_dir():
        raise TargetError(f"{target}: there is no folder {file.parent}")
    if file.suffix != ".py" or not file.is_file():
        others = sorted(other.stem for other in file.parent.glob("*.py"))
        what = f"{file} is no .py file" if file.exists() else f"there is no file {file}"
        folder = "this folder" if file.parent == Path() else str(file.parent)
        raise TargetError(f"{target}: {what}{hint(file.stem, others, f'{folder} has', '.py')}")
    file = Path(os.path.abspath(file))
    root, module = in_package(file)
    return Place(target, partial(load, target, file, module, name), root)


def in_package(file: Path) -> tuple[Path, str]:
    """The folder from which `file` is imported, and its name as a module; "" if it lies in no package."""
    folder = file.parent
    names = [] if file.stem == "__init__" else [file.stem]
    while folder.name and (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if folder == file.parent or any("." in name for name in names):
        return file.parent, ""
    return folder, ".".join(names)


def load(target: str, file: Path, module: str, name: str) -> object:
    alone = f"python -c 'import {module}'" if module else f"python {file.name}"
    with blame(f"{target}: {file.name} raised this while it was imported; `{alone}` must work first"):
        loaded = importlib.import_module(module) if module else execute(file)
    if not loaded.__file__ or not os.path.samefile(loaded.__file__, file):
        raise TargetError(f"{target}: it is the module {module}, but {loaded.__file__} is in use by that name")
    return attribute(target, loaded, name)


def execute(file: Path) -> ModuleType:
    """Import a file that lies in no package, under a name that nothing else has."""
    name = "shapetrace_target_" + re.sub(r"\W", "_", file.stem)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)  # dataclasses, for one, look up the module they are in
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
