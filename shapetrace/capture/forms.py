"""What the modules of a class have in common, and how they can be watched."""

from __future__ import annotations

import inspect
import sys
from types import MethodType
from typing import Any

import msgspec
import torch
from torch import nn

from .slots import CallSlot

__all__ = ["FUSED", "Form", "form_of", "opaque", "would_fuse"]

FUSIBLE = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
FUSED = (
    "fused unless watched: step by step under a watch, it is equal to rounding, and may differ where there is padding"
)

HOOKED = (*FUSIBLE, nn.DataParallel)
"""Modules that have hooks, and all in them: torch looks for hooks before it fuses, and runs copies with a same slot."""


class Form(msgspec.Struct, frozen=True, gc=False):
    """What the modules of a class have in common: its name, what `forward` takes by position, how it can be watched."""

    name: str
    parameters: tuple[str, ...]
    fusible: bool
    is_hooked: bool
    is_opaque: bool


def form_of(kind: type[nn.Module], forward: Any) -> Form:
    function = inspect.unwrap(forward) if hasattr(forward, "__wrapped__") and callable(forward) else forward
    code = getattr(function, "__code__", None)
    bound = MethodType in (type(forward), type(function))
    names = () if code is None else code.co_varnames[bound : code.co_argcount]
    return Form(
        kind.__name__,
        names,
        fusible=issubclass(kind, FUSIBLE),
        is_hooked=issubclass(kind, HOOKED),
        is_opaque=is_opaque(kind),
    )


def opaque(module: nn.Module) -> str | None:
    """Why what runs inside a module cannot be seen; None if it can."""
    call = module.__dict__.get("_compiled_call_impl")
    while isinstance(call, CallSlot):
        call = call.inner
    if call is not None or is_compiled(type(module)):
        return "compiled: what runs inside is not seen"
    return "scripted: what runs inside is not seen" if isinstance(module, torch.jit.ScriptModule) else None


def is_opaque(kind: type[nn.Module]) -> bool:
    return is_compiled(kind) or issubclass(kind, torch.jit.ScriptModule)


def is_compiled(kind: type[nn.Module]) -> bool:
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # importing it takes as long as torch itself
    return dynamo is not None and issubclass(kind, dynamo.OptimizedModule)


def would_fuse(module: nn.Module) -> bool:
    """Whether torch may run such a module in one fused kernel, which it leaves for a module that has hooks."""
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    return not (torch.is_grad_enabled() and any(parameter.requires_grad for parameter in module.parameters()))
