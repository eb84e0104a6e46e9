"""Fused attention, written out: the scores and weights that the kernel never makes are tensors in the record.

The same mathematics in torch functions, with the dtypes and the dropout of torch's own reference
(`_scaled_dot_product_attention_math`); results are equal within rounding. Random numbers are drawn once for each call,
for weights of their whole shape, as that reference draws them: on the CPU, where fused kernels have no dropout, they
are the numbers that the model would have drawn. What torch refuses, and nested tensors, are left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ..schema import Call
from .tensors import PLAIN

__all__ = ["MATERIALISED", "was_written_out"]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `F.scaled_dot_product_attention` computes."""
    if dropout_p < 0 or not is_plain(query, key, value, attn_mask, is_causal, enable_gqa):
        with torch._C.DisableTorchFunction():  # or it would come here again
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
    device = query.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return written_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    low = torch.get_autocast_dtype(device)
    query, key, value, attn_mask = (lowered(tensor, low) for tensor in (query, key, value, attn_mask))
    with torch.autocast(device, enabled=False):
        return written_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    dtype = query.dtype
    factor = 1 / math.sqrt(query.size(-1)) if scale is None and query.size(-1) else scale or 0.0
    if enable_gqa:  # (B, G, S, D) -> (B, H, S, D)
        heads = query.size(-3)
        key = key if key.size(-3) == heads else key.repeat_interleave(heads // key.size(-3), -3)
        value = value if value.size(-3) == heads else value.repeat_interleave(heads // value.size(-3), -3)
    if dtype in (torch.float16, torch.bfloat16) and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        query, key, value = query.float(), key.float(), value.float()
    scores = query @ key.transpose(-2, -1) * factor  # (B, H, T, S)
    if is_causal:  # the first query sees the first key, also where there are more keys than queries
        attn_mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.softmax(-1)
    if attn_mask is not None and not is_causal and sees_nothing(scores):  # those rows are 0, not 0 / 0
        weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    return weights @ value if value.dtype == dtype else (weights @ value).to(dtype)  # (B, H, T, D)


def is_plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, enable_gqa: bool) -> bool:
    """Whether torch takes these arguments, and so do we; the rest is left to it, and so are its messages."""
    given = [tensor for tensor in (query, key, value, mask) if tensor is not None]
    if any(tensor.is_nested or tensor.layout != torch.strided for tensor in given) or (is_causal and mask is not None):
        return False
    if not query.is_floating_point() or not query.dtype == key.dtype == value.dtype:
        return False
    if min(query.dim(), key.dim(), value.dim()) < 2 or query.size(-1) != key.size(-1):
        return False
    if enable_gqa and not divides(query, key, value):
        return False
    return mask is None or is_mask(mask, query, key)


def divides(query: Tensor, key: Tensor, value: Tensor) -> bool:
    if min(query.dim(), key.dim(), value.dim()) < 3:
        return False
    return all(tensor.size(-3) and query.size(-3) % tensor.size(-3) == 0 for tensor in (key, value))


def is_mask(mask: Tensor, query: Tensor, key: Tensor) -> bool:
    """Whether a mask has a dtype that torch takes, and its shape makes the scores no larger."""
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return False
    room = (query.size(-2), key.size(-2))
    within = zip(reversed(mask.shape[-2:]), reversed(room), strict=False)
    return mask.dim() <= max(query.dim(), key.dim()) and all(size in (1, most) for size, most in within)


def lowered(tensor: Any, dtype: torch.dtype) -> Any:
    """As autocast casts what it gives to attention."""
    if tensor is None or not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(dtype)


def sees_nothing(scores: Tensor) -> bool:
    """Whether some query may see no key at all. Looked up outside of the record; without values, none does."""
    if type(scores) not in PLAIN or scores.is_meta or isinstance(scores, FakeTensor):
        return False
    try:
        with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
            return bool((scores == -math.inf).all(-1).any())
    except RuntimeError:  # under vmap, where there is no one answer
        return True


MATERIALISED: dict[Callable[..., Any], Callable[..., Any]] = {F.scaled_dot_product_attention: attention}
"""What may be run in the place of a function; and it is only run where that was asked for."""


def was_written_out(calls: Sequence[Call]) -> bool:
    """Whether a fused function was run in this way: others ran inside of it."""
    names = {function.__name__ for function in MATERIALISED}
    return any(
        call.name in names and inner.kind == "function" and inner.depth > call.depth for call, inner in pairwise(calls)
    )
