"""What an exception is told where no call of torch failed, but what is written between them."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shapetrace

from .test_failures import IDS, text


class Written(nn.Module):
    """Embeds ids, and goes on with them as a test says."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.token = nn.Embedding(16, 8)
        self.up = nn.Linear(8, 32)
        self.step = step

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        x = self.token(ids)
        y = self.up(x)
        return self.step(x, y)


class Padded(Written):
    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        x = self.token(ids)
        return x.masked_fill(mask[:, None] == 0, 0.0)  # type: ignore[index]


def refused(x: Tensor, y: Tensor) -> None:
    assert x.shape == y.shape


def added(x: Tensor, y: Tensor) -> Any:
    bias = None
    return y + bias


def misspelt(x: Tensor, y: Tensor) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask=None)  # type: ignore[call-arg]


@pytest.mark.parametrize(("step", "end"), [(refused, ""), (added, "\n  bias is None"), (misspelt, "")])
def test_what_python_raises_is_placed_with_the_tensors_made_before_it(step: Any, end: str) -> None:
    assert text(Written(step), IDS) == (
        f"""\
shapetrace: raised in Written
  …/test_failures_of_code.py
    ids  [B, T]      (2, 4)      stride (4, 1)        int64    input of the model
    x    [B, T, 8]   (2, 4, 8)   stride (32, 8, 1)    float32  from token(ids) (test_failures_of_code.py)
    y    [B, T, 32]  (2, 4, 32)  stride (128, 32, 1)  float32  from up(x) (test_failures_of_code.py){end}"""
    )


def test_the_line_of_what_python_raises_is_the_users_innermost() -> None:
    with pytest.raises(AssertionError) as raised:
        shapetrace.trace(Written(refused), IDS)
    assert f"test_failures_of_code.py:{refused.__code__.co_firstlineno + 1}\n" in "".join(raised.value.__notes__)


def test_an_argument_that_was_not_given_is_told() -> None:
    assert text(Padded(refused), IDS).endswith("\n  mask, an argument of forward, is None")


class Renamed(Written):
    """Raises what torch said in words of its own."""

    def forward(self, ids: Tensor) -> Any:
        x = self.token(ids)
        try:
            return x @ self.up(x)
        except RuntimeError as error:
            raise ValueError("no such width") from error


def test_what_is_raised_from_an_error_of_torch_is_explained_as_that_is() -> None:
    assert text(Renamed(refused), IDS) == (
        """\
shapetrace: raised in Renamed, by x @ up(x)
  …/test_failures_of_code.py
    x      [B, T, 8]   (2, 4, 8)   stride (32, 8, 1)    float32  from token(ids) (test_failures_of_code.py)
    up(x)  [B, T, 32]  (2, 4, 32)  stride (128, 32, 1)  float32  from test_failures_of_code.py
  matmul sums over the last dim of x [B=2, T=4, 8] and dim -2 of up(x) [B=2, T=4, 32]: 8 met T=4,
  and they must be equal; x.transpose(-2, -1) has T=4 there"""
    )


def test_the_record_says_what_an_error_was_raised_from_and_why_that_came(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such width") as raised:
        shapetrace.trace(Renamed(refused), IDS)
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    assert trace.error == "ValueError: no such width"
    assert (trace.cause or "").startswith("RuntimeError: ")
    trace.save(tmp_path / "failed.jsonl")
    assert "why: matmul sums over the last dim of x" in str(shapetrace.load(tmp_path / "failed.jsonl"))


class Recovered(Written):
    """Handles what torch said, and fails of something else."""

    def forward(self, ids: Tensor) -> Any:
        x = self.token(ids)
        with suppress(RuntimeError):
            return x @ self.up(x)
        raise ValueError("no such width")


def test_an_error_that_was_handled_explains_no_other() -> None:
    with pytest.raises(ValueError, match="no such width") as raised:
        shapetrace.trace(Recovered(refused), IDS)
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    assert trace.cause is None


def looked_up(id_: int) -> str:
    ids = torch.zeros(2, 4, dtype=torch.long)
    ids[1, 2] = id_
    return text(Written(refused), ids)


def test_an_id_out_of_range_is_told_with_its_place() -> None:
    assert looked_up(16).endswith(
        "input [B=2, T=4] holds 16 at [1, 2], and the rows of the table token.weight are 16, 0 to 15"
    )


def test_an_id_that_a_loss_ignores_is_known() -> None:
    said = " ".join(looked_up(-100).split())
    assert "holds -100 at [1, 2]" in said
    assert said.endswith("; -100 is what a loss ignores in its targets")


def test_under_vmap_no_value_is_read() -> None:
    class Mapped(Written):
        def forward(self, ids: Tensor) -> Any:
            return torch.vmap(self.token)(ids)

    assert "holds a number that is no row of the table" in " ".join(text(Mapped(refused), IDS + 16).split())
