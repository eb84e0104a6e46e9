"""After every test here nothing of shapetrace may be left on the thread or on any module that the test made."""

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from shapetrace.capture.compiled import WATCHING

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert torch._C._len_torch_function_stack() == 0
    assert _get_current_dispatch_mode() is None
    assert not WATCHING
    for module in [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]:
        parts = vars(module)  # of a copy that failed only some are there
        hooks = [*parts.get("_forward_hooks", {}).values(), *parts.get("_forward_pre_hooks", {}).values()]
        assert not [hook for hook in hooks if "shapetrace" in getattr(hook, "__module__", "")], module
        assert "shapetrace" not in type(module.__dict__.get("_compiled_call_impl")).__module__, module
