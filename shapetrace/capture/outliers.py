"""The number that is no row of a table, read from the tensor that a failed call still holds."""

from __future__ import annotations

from traceback import walk_tb
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import DisableTorchFunction
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ..passes.diagnosis.outlier import Outlier

__all__ = ["outlier"]

LOOKING_UP = "embedding"


def outlier(error: BaseException) -> Outlier | None:
    """The first id of an embedding that failed that is out of range; None if it cannot be read where it lies."""
    codes = [(frame, frame.f_code) for frame, _ in walk_tb(error.__traceback__)]
    held = [frame.f_locals for frame, code in codes if (code.co_filename, code.co_name) == (F.__file__, LOOKING_UP)]
    ids, table = (held[-1].get("input"), held[-1].get("weight")) if held else (None, None)
    if not is_readable(ids) or not is_readable(table) or _get_current_dispatch_mode() is not None:
        return None
    with DisableTorchFunction(), torch.no_grad():
        places = ((ids < 0) | (ids >= table.shape[0])).nonzero()
        if not len(places):
            return None
        place = tuple(places[0].tolist())
        return Outlier(int(ids[place]), place, len(places))


def is_readable(tensor: Any) -> TypeGuard[Tensor]:
    """Whether it is torch's own kind, on the CPU: no fake one, none of `vmap`, none that another device would send."""
    if type(tensor) not in (Tensor, nn.Parameter) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return False
    return tensor.device.type == "cpu" and tensor.layout is torch.strided
