"""The command line in a shell: who reads what it prints, and who does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import Screen

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell")


def shell(line: str, saved: Path) -> Screen:
    """Runs a line of shell in which `shapetrace` is the command and FILE a trace."""
    command = f"shapetrace() {{ '{sys.executable}' -m shapetrace \"$@\"; }}; FILE='{saved}'; {line}"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "line",
    [
        'shapetrace show "$FILE" --all | true',
        "shapetrace --help | true",
        "shapetrace run --help | true",
        'shapetrace show "$FILE" >&-',
        "shapetrace --help >&-",
        "shapetrace models >&-",
    ],
)
def test_that_nobody_reads_what_is_printed_is_no_error(line: str, saved: Path) -> None:
    assert shell(line, saved) == (0, "", "")


def test_the_first_line_can_be_had_alone(saved: Path) -> None:
    status, out, err = shell('shapetrace show "$FILE" --all | head -1', saved)
    assert (status, out.startswith("GPT"), out.count("\n"), err) == (0, True, 1, "")


def test_that_nobody_reads_the_errors_is_no_error_either(saved: Path) -> None:
    assert shell("shapetrace show gone 2>&-", saved) == (2, "", "")
    assert shell("shapetrace show gone 2>&1 | true", saved)[1:] == ("", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ['show "$FILE"', "--help", "models"])
def test_a_full_disk_is_an_error(words: str, saved: Path) -> None:
    message = "shapetrace: the output cannot be written: No space left on device\n"
    assert shell(f"shapetrace {words} > /dev/full", saved) == (2, "", message)
