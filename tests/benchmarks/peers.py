"""What other tools take for the same forward, where they are installed: `pip install -e '.[bench]'`.

Each is run as its own documentation has it, up to the point where its record is there to be looked at.
"""

from __future__ import annotations

import copy
import importlib.util
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["PEERS", "Way"]

Way = Callable[[], object]


def torchinfo(model: nn.Module, ids: torch.Tensor) -> Way:
    import torchinfo

    return lambda: torchinfo.summary(model, input_data=ids, verbose=0)


def torchview(model: nn.Module, ids: torch.Tensor) -> Way:
    import torchview

    inputs = {"input_ids": ids, "use_cache": False}  # it cannot draw the cache that GPT-2 returns
    return lambda: torchview.draw_graph(model, input_data=inputs, device="cpu")


def debug_mode(model: nn.Module, ids: torch.Tensor) -> Way:
    from torch.utils._debug_mode import DebugMode

    def run() -> None:
        with DebugMode(record_torchfunction=True, record_nn_module=True) as mode:
            model(ids)
        mode.debug_string()

    return run


def model_debugger(model: nn.Module, ids: torch.Tensor) -> Way:
    from transformers.model_debugging_utils import model_addition_debugger_context

    model = copy.deepcopy(model)  # it leaves functions of its own in the model

    def run() -> None:
        with tempfile.TemporaryDirectory() as place, model_addition_debugger_context(model, debug_path=place):
            model.forward(ids)

    return run


def torchlens(model: nn.Module, ids: torch.Tensor) -> Way:
    import torchlens

    return lambda: torchlens.trace(model, ids)


PEERS: dict[str, tuple[str, Callable[[Any, torch.Tensor], Way]]] = {
    "torchinfo": ("torchinfo", torchinfo),
    "torchview": ("torchview", torchview),
    "DebugMode": ("torch.utils._debug_mode", debug_mode),
    "HF debugger": ("transformers.model_debugging_utils", model_debugger),
    "torchlens": ("torchlens", torchlens),
}
"""The name of each, the module that it is in, and what makes a way to run it."""


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
