"""The files themselves: what they import, and that each explains its letters."""

import ast
import re
from pathlib import Path

import pytest

import shapetrace.models

FILES = sorted(Path(shapetrace.models.__file__).parent.glob("*.py"))
files = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def foreign_imports(source: str) -> set[str]:
    """What is imported beside torch, a few modules of the standard library and the files of the same folder."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level != 1:
            names.add("." * node.level + (node.module or ""))
    home = {"torch", "math", "typing", "dataclasses", "collections", "functools"}
    return {name for name in names if name.split(".")[0] not in home}


def unexplained_letters(source: str) -> set[str]:
    """Single capitals that the code or its comments use and that the legend at the top does not have."""
    tree = ast.parse(source)
    legend = set(re.findall(r"(?:^|  )([A-Z])  (?=\S)", ast.get_docstring(tree) or "", flags=re.MULTILINE))
    in_code = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    in_code |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    in_shapes = {letter for shape in re.findall(r"# \(([^)]*)\)", source) for letter in re.findall("[A-Z]", shape)}
    return {name for name in in_code | in_shapes if re.fullmatch("[A-Z]", name)} - legend


@files
def test_a_model_file_imports_torch_and_its_neighbours_only(file: Path) -> None:
    assert foreign_imports(file.read_text(encoding="utf-8")) == set()


@files
def test_every_letter_is_in_the_legend_at_the_top_of_its_file(file: Path) -> None:
    assert unexplained_letters(file.read_text(encoding="utf-8")) == set()


def test_the_first_of_these_tests_can_fail() -> None:
    assert foreign_imports("import torch.nn\nimport rich\nfrom .. import errors\nfrom shapetrace import trace") == {
        "rich",
        "..",
        "shapetrace",
    }


def test_the_second_of_these_tests_can_fail() -> None:
    assert unexplained_letters('"""\nB  batch    T  length\n"""\ndef f(B, C): return T  # (B, H)') == {"C", "H"}
