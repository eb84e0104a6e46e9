import sys
from pathlib import Path

import pytest
from hypothesis import settings

from shapetrace.cli import main
from tests.commands import Run, Screen

settings.register_profile("no deadline", deadline=None)  # one example waits for the disk, the next does not
settings.load_profile("no deadline")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*words: str) -> Screen:
        status = main(words)
        return (status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a GPT, in a file."""
    file = tmp_path_factory.mktemp("saved") / "gpt.jsonl"
    assert main(["run", "gpt", "--output", str(file)]) == 0
    return file
