"""The golden traces of the reference models, in `traces/`: what they hold is the same on every machine.

After a change that is meant, `python -m tests.test_golden` writes them anew; review them with `git diff traces/`.
"""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

import shapetrace
from shapetrace.targets import Request, record

TRACES = Path(__file__).parent.parent / "traces"
MODELS = (
    "encoder",
    "gpt",
    "gpt2",
    "gqa",
    "llama",
    "mqa",
    "postln",
    "rope",
    "transformer",
)


def golden(name: str) -> Path:
    return TRACES / f"{name}.jsonl"


@pytest.mark.parametrize("name", MODELS)
def test_a_reference_model_still_gives_its_golden_trace(name: str, tmp_path: Path) -> None:
    fresh = tmp_path / f"{name}.jsonl"
    record(Request(name)).portable().save(fresh)
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (golden(name), fresh))
    changes = "\n".join(unified_diff(before, after, f"traces/{name}.jsonl", "now", n=0, lineterm=""))
    assert before == after, f"{changes}\nif this is meant: python -m tests.test_golden"


def test_there_is_a_golden_trace_of_each_reference_model_and_of_nothing_else() -> None:
    assert sorted(path.name for path in TRACES.iterdir()) == [f"{name}.jsonl" for name in MODELS]


@pytest.mark.parametrize("name", MODELS)
def test_a_golden_trace_holds_nothing_of_the_machine_that_wrote_it(name: str) -> None:
    trace = shapetrace.load(golden(name))
    assert trace == trace.portable()
    assert (trace.torch, trace.device) == (None, "")
    assert all(call.source is None for call in trace.calls)


if __name__ == "__main__":
    for model in MODELS:
        record(Request(model)).portable().save(golden(model))
