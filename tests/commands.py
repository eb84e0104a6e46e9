"""A command line, and what it leaves on the screen."""

import os
import subprocess
import sys
from collections.abc import Callable

Screen = tuple[int, str, str]
"""Exit status, stdout, stderr."""

Run = Callable[..., Screen]


def process(*words: str, environment: dict[str, str] | None = None, **options: object) -> Screen:
    """Runs a command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "shapetrace", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **(environment or {})},
        check=False,
        **options,
    )
    return done.returncode, done.stdout, done.stderr
