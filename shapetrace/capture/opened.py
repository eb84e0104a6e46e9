"""Functions of torch that are written in Python, opened so that what they call is seen too.

To a function mode such a function is one call: it asks `has_torch_function` first, and hands itself over. A copy whose
globals answer that question with no goes straight on to its body, with the mode on again around it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch.nn.functional as F

__all__ = ["OPENED"]


def opened(function: Any) -> Callable[..., Any]:
    """A copy of `function` that does not ask whether it is overridden. It runs the same code on the same arguments."""
    world = {**function.__globals__, "has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, world, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


OPENED = {function: opened(function) for function in (F.multi_head_attention_forward,)}
