"""Models that have a name."""

from pathlib import Path

import pytest

from shapetrace.errors import TargetError
from shapetrace.targets import find, registry
from shapetrace.targets.registry import Summary

REFERENCE = [
    "bert",
    "encoder",
    "gpt",
    "gpt2",
    "gqa",
    "llama",
    "mqa",
    "original",
    "postln",
    "preln",
    "rope",
    "transformer",
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that registers models of its own."""
    info = tmp_path / "zoo-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[shapetrace.models]\n"
        "zebra = zoo_models:zebra\n"
        "GPT = zoo_models:gpt\n"
        "lost = zoo_models:lost\n"
        "gone = zoo_gone:gone\n"
    )
    (tmp_path / "zoo_models.py").write_text(
        "import torch_is_not_imported_to_read_this\n"
        "def zebra(C, L=3, *, stripes=True, spots=False, p=0.5, kind=None, other=len):\n"
        "    '''black and white\n\n    and more'''\n"
        "def gpt(): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_reference_models_are_registered() -> None:
    assert registry.names() == REFERENCE


def test_a_name_is_found_whatever_its_case_and_shown_as_it_is_registered() -> None:
    assert [find(name).target for name in ("gpt", "GPT", "Gpt")] == ["gpt", "gpt", "gpt"]


@pytest.mark.usefixtures("package")
def test_any_package_can_register_models_and_the_exact_name_comes_first() -> None:
    assert registry.names() == sorted([*REFERENCE, "GPT", "gone", "lost", "zebra"])
    assert [find(name).target for name in ("zebra", "GPT", "gpt")] == ["zebra", "GPT", "gpt"]


@pytest.mark.usefixtures("package")
def test_what_is_said_of_a_model_is_read_from_its_source_without_running_it() -> None:
    found = {summary.name: summary for summary in registry.summaries()}
    assert found["gpt"] == Summary(
        "gpt",
        "decoder-only: learned positions, pre-LN, GELU, causal",
        tuple(
            "--B 2, --T 4, --C 8, --H 2, --F, --V 16, --L 2, --G, --norm pre, --norm-kind layer, --positions learned, "
            "--activation gelu, --qkv fused, --attention explicit, --head tied, --no-bias".split(", ")
        ),
    )
    assert found["mqa"] == Summary("mqa", "gpt with multi-query attention: one key and value head")
    assert found["zebra"] == Summary(
        "zebra", "black and white", ("--C", "--L 3", "--no-stripes", "--spots", "--p 0.5", "--kind", "--other")
    )
    assert found["GPT"] == Summary("GPT", "")


@pytest.mark.usefixtures("package")
def test_a_model_whose_source_cannot_be_read_is_listed_with_where_it_should_be() -> None:
    found = {summary.name: summary for summary in registry.summaries()}
    assert found["lost"] == Summary("lost", "zoo_models:lost")
    assert found["gone"] == Summary("gone", "zoo_gone:gone")


def test_an_unknown_name_is_refused_with_the_nearest_and_with_all_forms_of_a_target() -> None:
    with pytest.raises(TargetError) as error:
        find("gtp")
    assert str(error.value) == (
        "no model is called 'gtp': did you mean gpt, gpt2?\n"
        f"  by name              {', '.join(REFERENCE)}\n"
        "  in a file            path/file.py:build\n"
        "  in a module          package.module:build"
    )
