"""A library that cannot be imported, or that lacks another, is a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapetrace.errors import TargetError
from shapetrace.targets.imports import imported
from shapetrace.targets.refusals import remedy
from tests.commands import process


def broken(folder: Path, name: str, code: str) -> dict[str, str]:
    """An environment in which the library `name` is this code."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("target", "library"), [("hf:bert", "transformers"), ("hf:", "transformers"), ("timm:resnet18", "timm")]
)
def test_a_library_that_breaks_is_named_with_what_it_raised(tmp_path: Path, target: str, library: str) -> None:
    environment = broken(tmp_path, library, 'raise RuntimeError("operator nms does not exist")\n')
    assert process("run", target, environment=environment) == (
        2,
        "",
        f"shapetrace: {target}: {library} cannot be imported\n"
        f"  RuntimeError: operator nms does not exist ({tmp_path.as_posix()}/{library}/__init__.py, line 1)\n"
        f"`python -c 'import {library}'` must work first\n",
    )


def test_what_a_library_of_an_extra_lacks_comes_with_the_extra(tmp_path: Path) -> None:
    environment = broken(tmp_path, "timm", "import nowhere.layers\n")
    assert process("run", "timm:resnet18", environment=environment) == (
        2,
        "",
        "shapetrace: timm:resnet18: timm cannot be imported\n"
        f"  ModuleNotFoundError: No module named 'nowhere' ({tmp_path.as_posix()}/timm/__init__.py, line 1)\n"
        "pip install 'shapetrace[timm]' brings nowhere\n",
    )


def test_of_what_is_imported_late_the_first_cause_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(tmp_path, "torn", 'raise RuntimeError("torn")\n')
    monkeypatch.syspath_prepend(tmp_path)

    def late() -> None:
        try:
            __import__("torn")
        except RuntimeError as error:
            raise ImportError("Could not import module 'BertModel'") from error

    with pytest.raises(TargetError) as caught, imported("hf:bert", "transformers"):
        late()
    assert str(caught.value) == (
        "hf:bert: transformers cannot be imported\n"
        f"  RuntimeError: torn ({tmp_path.as_posix()}/torn/__init__.py, line 1)\n"
        "`python -c 'import torn'` must work first"
    )


def test_what_no_import_raises_passes() -> None:
    with pytest.raises(KeyError), imported("hf:bert", "transformers"):
        raise KeyError("x")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ImportError("X requires the timm library but it was not found in your environment: `pip install timm`."),
            "pip install 'shapetrace[timm]' brings timm",
        ),
        (
            ImportError("X requires the essentia library but it was not found. `pip install essentia==2.1b6`"),
            "pip install essentia brings it",
        ),
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), "a is not installed"),
        (ImportError("cannot import name 'b' from 'a'", name="a"), None),
        (ValueError("pip install timm"), None),
    ],
)
def test_how_to_get_what_is_not_there(error: Exception, said: str | None) -> None:
    assert remedy(error) == said
