from collections.abc import Callable
from pathlib import Path

import pytest

import shapetrace
from shapetrace.schema import Trace

TRACES = Path(__file__).parent.parent.parent / "traces"


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Trace]:
    """The golden trace of a reference model."""
    return lambda name: shapetrace.load(TRACES / f"{name}.jsonl")
