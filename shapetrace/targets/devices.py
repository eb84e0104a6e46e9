"""Where a model runs: on a device that is there, or, on fake tensors, on one that is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map_only

from ..capture.weightless import mode_of
from ..errors import TargetError
from .tensors import first_line

__all__ = ["moved", "told"]


def moved(model: nn.Module, args: Any, kwargs: Any, device: str | None) -> tuple[nn.Module, Any, Any]:
    """A model and what it is given, on `device`. `TargetError` if torch cannot reach such a device."""
    if device is None:
        return model, args, kwargs
    mode = mode_of(model)
    try:
        place = torch.device(device)
        if mode is None:
            return model.to(place), *tree_map_only(Tensor, lambda tensor: tensor.to(place), (args, kwargs))
        if absent(device) and not is_built(place.type):
            raise TargetError(
                f"--device {device}: this torch is built without {place.type}, which its fake tensors need as well; "
                f"a build that has it shows the layouts there without the device"
            )
        for module in model.modules():
            move(module, lambda tensor: on(tensor, mode, place))
        return model, *tree_map_only(Tensor, lambda tensor: on(tensor, mode, place), (args, kwargs))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise TargetError(f"--device {device}: {words(error)}") from None


def on(tensor: Tensor, mode: FakeTensorMode, device: torch.device) -> Tensor:
    """A fake tensor of the same form on a device; on the CPU what it is.

    It takes no gradient: without the device torch would end the process where it asks for a stream to compute it on.
    """
    if device.type == "cpu":
        return tensor
    form = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    found = FakeTensor(mode, form, device)
    return nn.Parameter(found, requires_grad=False) if isinstance(tensor, nn.Parameter) else found


def move(module: nn.Module, to: Callable[[Tensor], Tensor]) -> None:
    """Its own tensors; torch cannot convert fake ones in place."""
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is not None:
                tensors[name] = to(tensor)  # type: ignore[assignment]


def words(error: Exception) -> str:
    """What torch says; not all the kinds of device that there are."""
    text = first_line(error)
    return "torch knows no such device" if text.startswith(("Expected one of cpu", "Device string")) else text


def told(device: str | None) -> Iterator[str]:
    """What a reader must know of a trace from that device."""
    if device and torch.device(device).type == "meta":
        yield "meta is no device to run on: fused attention is taken apart there, and more may be copied than elsewhere"
    elif device and absent(device):
        yield (
            f"there is no {device} here: layouts are as torch knows them unseen; "
            f"after fused attention they may differ there"
        )


def absent(device: str) -> bool:
    """Whether torch is without that device."""
    kind = torch.device(device).type
    return kind not in ("cpu", "meta") and not getattr(getattr(torch, kind, None), "is_available", lambda: False)()


def is_built(kind: str) -> bool:
    """Whether this build of torch has what it takes, but for the device itself."""
    built: Any = getattr(getattr(torch.backends, kind, None), "is_built", lambda: False)
    return bool(built())
