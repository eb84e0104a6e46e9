"""Run a forward that fails on beyond the call that failed, so that what came before it can be told by what comes of it.

In the place of what a call did not give stands a tensor of the shape that it was to have, as far as its arguments say
so: a projection gives as many features as its weight has, whatever it was given; scores that a mask does not fit stay
as they are. Of what may have been meant in two ways nothing is made, and the forward ends there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import permutations
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..passes.roles.functions import (
    CASTS,
    DIFFERENCES,
    FUSED,
    JOINS,
    LOOKUPS,
    LOSSES,
    NORMS,
    OTHER_LOSSES,
    QUOTIENTS,
    SOFTMAX,
    SUMS,
    TIMES,
    plain,
)
from ..passes.widths.rules import STANDS_IN
from ..schema import Trace

__all__ = ["Mended"]

MISTAKES = (RuntimeError, IndexError, TypeError, ValueError)

Args = tuple[Any, ...]

Rule = Callable[[Args, Mapping[str, Any]], Tensor | None]
"""Gives what a call was to give; None if that is not known. What it raises means the same."""


class Mended(TorchFunctionMode):
    """While it is active calls that fail give what stands for their result; so do attentions of `model`, a copy.

    calls   how often each function was called
    made    the functions whose results are such, and by which of their calls
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls = Counter[str]()
        self.made: set[tuple[str, int]] = set()
        for module in model.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.forward = mended_attention(module)  # type: ignore[method-assign]

    def __torch_function__(self, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        self.calls[name] += 1
        place = name, self.calls[name]
        try:
            return func(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except MISTAKES:
            made = stand_in(func, args, kwargs)
            if made is None:
                raise
            self.made.add(place)
            return made

    def marked(self, trace: Trace) -> Trace:
        """A trace of what ran meanwhile: the calls that gave what stands for their result say so."""
        counts = Counter[str]()
        calls = []
        for call in trace.calls:
            counts[call.name] += call.kind == "function"
            is_made = call.kind == "function" and (call.name, counts[call.name]) in self.made
            calls.append(msgspec.structs.replace(call, note=STANDS_IN) if is_made else call)
        return msgspec.structs.replace(trace, calls=tuple(calls))


def stand_in(func: Any, args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
    written = getattr(func, "__name__", "")
    rule = RULES.get(plain(written))
    if rule is None or not args or "out" in kwargs:
        return None
    try:
        with torch._C.DisableTorchFunction():
            made = rule(args, kwargs)
    except Exception:  # the arguments are not what a rule takes them for
        return None
    is_in_place = (written.endswith("_") and not written.endswith("__")) or written.startswith("__i")
    if made is not None and is_in_place:
        first: Tensor = args[0]
        return first if made.shape == first.shape else None
    return made


def mended_attention(module: nn.MultiheadAttention) -> Callable[..., Any]:
    """Its forward. Where that refuses what it is given, each token attends to itself alone."""
    forward = module.forward

    @wraps(forward)
    def run(query: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return forward(query, *args, **kwargs)
        except (*MISTAKES, AssertionError):
            weight = module.v_proj_weight if module.in_proj_weight is None else module.in_proj_weight.chunk(3)[2]
            return F.linear(F.linear(query, weight), module.out_proj.weight), None

    return run


def argument(args: Args, kwargs: Mapping[str, Any], place: int, *names: str, default: Any = None) -> Any:
    found = next((kwargs[name] for name in names if name in kwargs), default)
    return args[place] if place < len(args) else found


def empty(like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    return like.new_zeros(tuple(shape), dtype=dtype)


def unchanged(args: Args, _: Mapping[str, Any]) -> Tensor:
    """The first argument has the shape of the result."""
    return empty(args[0], args[0].shape)


def elementwise(args: Args, _: Mapping[str, Any]) -> Tensor:
    """The larger of the two stays as it is."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    return unchanged((max(tensors, key=lambda tensor: (tensor.is_floating_point(), tensor.numel())),), {})


def laid_out(args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
    """`reshape` in the place of `view`; or with another number in the one place, behind what stays, where it fits."""
    x: Tensor = args[0]
    sizes = list(args[1:] or kwargs["size"])
    sizes = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
    count, given = x.numel(), math.prod(sizes)
    if -1 in sizes or count == given:
        return x.reshape(sizes)
    ways = [
        [*sizes[:place], count * size // given, *sizes[place + 1 :]]
        for place, size in enumerate(sizes)
        if count * size % given == 0 and sizes[: place + 1] != list(x.shape[: place + 1])
    ]
    return x.reshape(ways[0]) if len(ways) == 1 else None


def linear(args: Args, kwargs: Mapping[str, Any]) -> Tensor:
    """Of as many features as the weight has. Heads that were not joined are, if they are wide enough then."""
    x, weight = args[0], argument(args, kwargs, 1, "weight")
    is_split = x.dim() > 3 and x.shape[-1] != weight.shape[1] == x.shape[-1] * x.shape[-2]
    return empty(weight, (*x.shape[: -2 if is_split else -1], weight.shape[0]))


def looked_up(args: Args, kwargs: Mapping[str, Any]) -> Tensor:
    ids, weight = args[0], argument(args, kwargs, 1, "weight")
    return empty(weight, (*ids.shape, weight.shape[1]))


def convolved(name: str) -> Rule:
    def rule(args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
        """Of an image of as many channels as it takes."""
        x, weight, *rest = args
        if x.dim() != weight.dim():
            return None
        groups = argument(args, kwargs, 6, "groups", default=1)
        image = empty(weight, (x.shape[0], weight.shape[1] * groups, *x.shape[2:]))
        made: Tensor = getattr(torch, name)(image, weight, *rest, **kwargs)
        return made

    return rule


def joined(args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
    """As the largest of them, and along the dim of all of them as long as all are together."""
    tensors, dim = list(args[0]), argument(args, kwargs, 1, "dim", "axis", default=0)
    whole = max(tensors, key=Tensor.numel)
    if any(tensor.dim() != whole.dim() for tensor in tensors):
        return None
    shape = list(whole.shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return empty(whole, shape)


def product(args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
    """With the dims of the second in the one order in which they fit; or of heads that are fewer in one."""
    one, other = args[0], argument(args, kwargs, 1, "other", "mat2", "tensor2")
    if min(one.dim(), other.dim()) < 2:
        return None
    first = tuple(range(other.dim()))
    orders = [first, (*first[:-2], first[-1], first[-2]), *permutations(first)]
    for order in orders if one.dim() == other.dim() else orders[:2]:
        turned = [other.shape[dim] for dim in order]
        if turned[-2] == one.shape[-1] and turned[:-2] == list(one.shape[:-2])[-len(turned[:-2]) or one.dim() :]:
            return empty(one, (*one.shape[:-1], turned[-1]))
    if one.shape[:-2] == other.shape[:-2] or other.dim() == 2:
        return empty(one, (*one.shape[:-1], other.shape[-1]))
    if one.shape[-1] == other.shape[-2] and one.dim() == other.dim() > 3:  # the heads of one are not those of the other
        more = map(max, one.shape[:-2], other.shape[:-2])
        return empty(one, (*more, one.shape[-2], other.shape[-1]))
    return None


def attended(args: Args, kwargs: Mapping[str, Any]) -> Tensor | None:
    q, v = (argument(args, kwargs, place, name) for place, name in ((0, "query"), (2, "value")))
    return empty(q, (*q.shape[:-1], v.shape[-1])) if q.dim() == v.dim() else None


def lost(args: Args, kwargs: Mapping[str, Any]) -> Tensor:
    return empty(args[0], (), torch.get_default_dtype())


def table() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, rule in (
        (
            NORMS | SOFTMAX | CASTS | {"masked_fill", "batch_norm", "group_norm", "log_softmax", "tril", "triu"},
            unchanged,
        ),
        (SUMS | DIFFERENCES | TIMES | QUOTIENTS | {"where"}, elementwise),
        ({"view", "reshape"}, laid_out),
        ({"linear"}, linear),
        (LOOKUPS, looked_up),
        (JOINS - {"stack"}, joined),
        ({"matmul", "bmm"}, product),
        (FUSED, attended),
        (LOSSES | OTHER_LOSSES, lost),
    ):
        found.update(dict.fromkeys(names, rule))
    return found | {name: convolved(name) for name in ("conv1d", "conv2d", "conv3d")}


RULES = table()
