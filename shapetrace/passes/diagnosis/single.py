"""Functions that want one number, or that take no more than there is."""

from __future__ import annotations

import math

from .fault import Fault

__all__ = ["item", "normed_alone", "top", "truth", "windows"]


def truth(fault: Fault) -> str | None:
    """`if x:` of many."""
    x = fault.tensor("0")
    if fault.name != "__bool__" or x is None or "more than one value" not in fault.text:
        return None
    count = math.prod(x.shape)
    return f"if, while, and, or and not ask for one yes or no, and {x} holds {count}: x.any() or x.all() of it is one"


def item(fault: Fault) -> str | None:
    x = fault.tensor("0")
    if fault.name not in ("item", "__int__", "__float__", "__index__") or x is None or math.prod(x.shape) == 1:
        return None
    return f"{fault.name} takes one number out of a tensor of one, and {x} holds {math.prod(x.shape)}"


def top(fault: Fault) -> str | None:
    """`topk` of more than there are."""
    x, k, dim = fault.tensor("0", "input"), fault.whole(1, "k"), fault.whole(2, "dim", default=-1)
    if fault.name != "topk" or x is None or k is None or dim is None or not -len(x.shape) <= dim < len(x.shape):
        return None
    if k <= x.shape[dim]:
        return None
    return (
        f"topk was asked for {k} of dim {dim} of {x}, which is {x.dim(dim)}: min({k}, {x.code}.shape[{dim}]) is in it"
    )


def windows(fault: Fault) -> str | None:
    """`Tensor.unfold` with a window that is larger than the dim."""
    x, dim, size = fault.tensor("0"), fault.whole(1, "dimension"), fault.whole(2, "size")
    if fault.name != "unfold" or x is None or dim is None or size is None or not -len(x.shape) <= dim < len(x.shape):
        return None
    if size <= x.shape[dim]:
        return None
    return f"unfold takes windows of {size} from dim {dim} of {x}, which is {x.dim(dim)}: take smaller ones, or pad it"


def normed_alone(fault: Fault) -> str | None:
    """A norm over the batch, of a batch of one."""
    x = fault.tensor("0", "input")
    if x is None or "more than 1 value per channel" not in fault.text or not x.shape:
        return None
    return (
        f"in training {fault.name} takes mean and deviation of each channel over all else, and {x} has one value for "
        "each: give a larger batch, call eval(), or take a norm that is not over the batch"
    )
