"""What does not fit raises while models are tried at other sizes, also where torch lets it run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from shapetrace.capture.misfits import NoMisfits

CALLS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "by position": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "by name": lambda q, k, v: F.scaled_dot_product_attention(query=q, value=v, key=k),
    "the op itself": lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_there_are_as_many_keys_as_values(call: Callable[..., Any], batch: tuple[int, ...]) -> None:
    with FakeTensorMode(), NoMisfits():
        q, k, v = (torch.empty(*batch, size, 8) for size in (4, 5, 6))
        call(q, k, k[..., :7])  # of another width
        with pytest.raises(RuntimeError) as caught:
            call(q, k, v)
    assert str(caught.value) == f"there are not as many keys {(*batch, 5, 8)} as values {(*batch, 6, 8)}"


def test_all_else_is_told_by_torch() -> None:
    with NoMisfits(), pytest.raises(RuntimeError, match="must match the size"):
        torch.zeros(2, 4) + torch.zeros(2, 5)
