"""What `import shapetrace` gives, and what it does not load for it."""

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import shapetrace
from shapetrace import Call, TensorMeta, Trace


def test_the_public_names_are_sorted() -> None:
    assert shapetrace.__all__ == sorted(shapetrace.__all__)


def test_the_public_names_are_there_and_are_offered_for_completion() -> None:
    assert [name for name in shapetrace.__all__ if not hasattr(shapetrace, name)] == []
    assert set(shapetrace.__all__) <= set(dir(shapetrace))


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError) as error:
        shapetrace.trance  # noqa: B018
    assert str(error.value) == "module 'shapetrace' has no attribute 'trance'"


def test_the_version_is_that_of_the_package() -> None:
    assert shapetrace.__version__ == version("shapetrace")


def test_type_information_is_shipped() -> None:
    assert (files("shapetrace") / "py.typed").is_file()


# --- without torch ----------------------------------------------------------------------------------------------------

NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is imported")

sys.meta_path.insert(0, NoTorch())
"""

Y = TensorMeta((2, 8), (8, 1))
TRACE = Trace("net", calls=(Call("function", "", "relu", 0, {"": "y"}, outputs={"": Y}),))


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What comes of `script` in a Python that raises wherever torch is imported."""
    command = [sys.executable, "-c", NO_TORCH + script, *map(str, arguments)]
    return subprocess.run(command, text=True, capture_output=True)


def test_a_trace_is_loaded_searched_shown_and_saved_without_torch(tmp_path: Path) -> None:
    TRACE.save(tmp_path / "net.jsonl")
    script = """
import shapetrace
trace = shapetrace.load(sys.argv[1])
print(trace[""]["y"].shape)
assert "relu" in str(trace) or "y" in str(trace)
trace.portable().save(sys.argv[2])
print("torch" in sys.modules)
"""
    done = run(script, tmp_path / "net.jsonl", tmp_path / "portable.jsonl")
    assert (done.stdout, done.stderr) == ("(2, 8)\nFalse\n", "")
    assert shapetrace.load(tmp_path / "portable.jsonl") == TRACE.portable()


@pytest.mark.parametrize("name", ["Tap", "attach", "trace", "trace_of"])
def test_that_test_can_fail_for_what_records_a_model_does_import_torch(name: str) -> None:
    done = run(f"import shapetrace; shapetrace.{name}")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: torch is imported\n")
