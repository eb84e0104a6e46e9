"""What torch's functions do to dims, by their names. A function that is not here says nothing.

A rule says which dims of what a call is given and of what it makes are equally long at any size, not only at these.
"""

from __future__ import annotations

from collections.abc import Callable

from ...schema import Call
from ..roles.functions import (
    ACTIVATIONS,
    CASTS,
    COMPARISONS,
    DROPOUTS,
    FUSED,
    JOINS,
    NORMS,
    PRODUCTS,
    QUOTIENTS,
    SUMS,
    TIMES,
    short_name,
)
from . import moves, parts, products
from .dims import UNSEEN, Axis, Dim, Dims
from .step import Step

__all__ = ["STANDS_IN", "follow", "moved_in_place"]


def follow(dims: Dims, call: Call) -> dict[str, tuple[Dim, ...]]:
    """Join what `call` says is equally long; gives the dims of the tensors that it stands for and does not make."""
    rule = RULES.get(short_name(call))
    if rule is None or call.error is not None or not call.inputs or call.kind == "module":
        return {}
    step = Step(dims, call)
    if call.note == STANDS_IN and not is_clear(step):
        return {}
    rule(step)
    return step.unmade


STANDS_IN = "its result stands for what it was to be"
"""The note of a call that failed, in a run that went on."""


LINING_UP = PRODUCTS | JOINS | SUMS | TIMES | QUOTIENTS | {"view", "reshape"}
"""Functions that tell by the size of dims which of them are together."""


def is_clear(step: Step) -> bool:
    """Whether dims of one size are one axis, as far as it is known. Where they are not, a call that failed does not
    tell which of them was meant: [B, 6, T=6, D] times [B, T=6, 6, D]. What goes by place alone, as a projection, does.
    """
    if short_name(step.call) not in LINING_UP:
        return True
    axes: dict[int, set[Axis]] = {}
    for row in (*map(step.dims.of, step.call.inputs.values()), *step.made):
        found = [(step.dims.size(dim), step.dims.axes[dim]) for dim in row if step.dims.size(dim) > 1]
        numbers = [size for size, axis in found if not isinstance(axis, str) or axis == UNSEEN]
        if len(set(numbers)) < len(numbers):
            return False
        for size, axis in found:
            axes.setdefault(size, set()).update({axis} - {UNSEEN})
    return all(len(found) < 2 for found in axes.values())


def moved_in_place(call: Call) -> bool:
    """Whether it is another view of itself that a tensor is after the call."""
    name = call.name.rpartition(".")[2]
    return name.endswith("_") and short_name(call) in MOVING


MOVING = frozenset("transpose t swapaxes swapdims squeeze unsqueeze resize resize_as set as_strided".split())

ELEMENTWISE = """
    floor_divide remainder fmod pow rpow exp exp2 expm1 log log2 log10 log1p sqrt rsqrt abs neg negative sign sin cos
    tan atan atan2 sinh cosh reciprocal rsub round floor ceil trunc erfc sinc eq ne logical_and logical_or logical_not
    logical_xor and or xor rand ror rxor invert bitwise_and bitwise_or bitwise_not isnan isinf isfinite maximum minimum
    clamp clip clamp_min clamp_max masked_fill lerp addcmul addcdiv nan_to_num polar complex softsign hardsigmoid
    tanhshrink copysign fmax fmin softmax log_softmax softmin safe_softmax normalize cumsum cumprod logcumsumexp
    contiguous clone detach data alias real imag conj resolve_conj positive requires_grad expand expand_as broadcast_to
    pad constant_pad_nd fill zero copy zeros_like ones_like empty_like full_like rand_like
    randn_like bernoulli dropout2d dropout3d
"""
"""Dims from the right: equal ones stay, and those of size 1 may be widened."""

SAME_SHAPE = """
    flip roll triu tril sort argsort scatter scatter_add index_add index_copy index_fill index_put
    group_norm batch_norm instance_norm prelu masked_scatter long int short bool
"""
"""Functions whose first tensor is of the shape of what they make."""

REDUCTIONS = """
    sum mean var std amax amin argmax argmin logsumexp prod all any norm median nansum nanmean count_nonzero
    linalg_vector_norm
"""

LOSSES = """
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
    soft_margin_loss gaussian_nll_loss poisson_nll_loss cosine_similarity pairwise_distance
"""
"""Functions of two tensors of one shape, which go by the elements of both."""


def table() -> dict[str, Callable[[Step], None]]:
    found: dict[str, Callable[[Step], None]] = {}
    pointwise = ACTIVATIONS | COMPARISONS | DROPOUTS | QUOTIENTS | SUMS | TIMES | NORMS
    for names, rule in (
        ({*CASTS, *SAME_SHAPE.split()}, moves.first),
        (pointwise - {"prelu"}, moves.broadcast),
        (ELEMENTWISE.split(), moves.broadcast),
        ("view reshape flatten unflatten ravel view_as reshape_as unsafe_view".split(), moves.reshape),
        (["where"], moves.choose),
        (["squeeze", "unsqueeze"], moves.squeeze),
        (["repeat", "tile"], moves.repeat),
        (["repeat_interleave"], moves.interleave),
        (["permute"], moves.permute),
        ("transpose swapaxes swapdims".split(), moves.transpose),
        ("mT mH adjoint t H".split(), moves.turned),
        ("T numpy_T".split(), moves.reverse),
        ("movedim moveaxis".split(), moves.movedim),
        ("view_as_complex view_as_real".split(), moves.complex_of),
        ("matmul rmatmul mm bmm mv dot grouped_mm".split(), products.matmul),
        ("addmm baddbmm addmv".split(), products.added_product),
        (["linear"], products.linear),
        (["embedding"], products.embedding),
        ("conv1d conv2d conv3d".split(), products.convolution),
        (["einsum"], products.einsum),
        (["outer"], products.outer),
        (FUSED, products.attention),
        ("cat concat concatenate".split(), parts.join),
        (["stack"], parts.stack),
        ("split chunk tensor_split split_with_sizes".split(), parts.split),
        (["unbind"], parts.unbind),
        (["select"], parts.select),
        ("narrow topk slice".split(), parts.all_but_one),
        (["index_select"], parts.index_select),
        ("gather take_along_dim".split(), parts.gather),
        (["getitem"], parts.getitem),
        (["setitem"], parts.setitem),
        ("lstm gru rnn_tanh rnn_relu".split(), moves.recurrent),
        ("cross_entropy nll_loss cross_entropy_loss nll_loss_nd".split(), parts.of_classes),
        (LOSSES.split(), moves.alike),
        (REDUCTIONS.split(), parts.reduce),
        ("max min".split(), parts.reduce_or_broadcast),
    ):
        found.update(dict.fromkeys(names, rule))
    return found


RULES = table()
