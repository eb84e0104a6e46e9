"""Bugs of the kind that porting makes, planted in a copy of the reference models."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import shapetrace.models

Plant = Callable[..., ModuleType]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Gives `gpt` of a copy of the models in which each (file, old, new) has replaced a text."""
    name = "ported"

    def planted(*edits: tuple[str, str, str]) -> ModuleType:
        folder = tmp_path / name
        shutil.copytree(Path(shapetrace.models.__file__).parent, folder)
        for file, old, new in edits:
            text = (folder / file).read_text(encoding="utf-8")
            assert text.count(old) == 1, old
            (folder / file).write_text(text.replace(old, new), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return importlib.import_module(f"{name}.gpt")

    yield planted
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]
