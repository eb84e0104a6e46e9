"""What is wrong where a forward failed, in one sentence, in terms of axes: which met which, and what to do.

A rule is a function of the failed call that says a sentence, or None where it does not fit; it never guesses. What
torch says of the same mistake differs between versions, so a rule looks at the shapes first, and at the words only
where these alone do not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...schema import Trace
from . import (
    additions,
    broadcasting,
    counts,
    dims,
    divisions,
    forms,
    heads,
    indices,
    joins,
    kinds,
    layers,
    layouts,
    losses,
    products,
    returned,
    single,
    states,
    unpacking,
    vectors,
)
from .fault import Fault, fault

__all__ = ["diagnosis", "sentence"]

Rule = Callable[[Fault], str | None]

RULES: tuple[Rule, ...] = (
    unpacking.shape_unpacked,
    unpacking.unpacked_parts,
    layers.attention_batch,
    kinds.devices,
    kinds.ids,
    kinds.index_dtype,
    kinds.mask_dtype,
    kinds.target_dtype,
    kinds.whole_numbers,
    kinds.source_dtype,
    kinds.attention_mask,
    kinds.floating,
    kinds.several,
    forms.listed_tensors,
    forms.array,
    forms.two_states,
    forms.one_state,
    returned.nothing,
    returned.several,
    forms.none,
    kinds.dtypes,
    kinds.leaf,
    single.truth,
    single.item,
    single.top,
    single.windows,
    single.normed_alone,
    counts.counted,
    counts.spatial,
    divisions.groups,
    divisions.halves,
    divisions.shuffled,
    divisions.slopes,
    divisions.padding,
    divisions.complex_pairs,
    layouts.crooked_view,
    layouts.invalid_shape,
    layouts.unflattened,
    layouts.expanded,
    layouts.repeated,
    layouts.overlapping,
    products.linear,
    products.matmul,
    heads.whole_turned,
    heads.turned,
    heads.grouped,
    heads.fused,
    heads.values,
    products.batches,
    products.einsum,
    vectors.rows,
    vectors.bilinear,
    vectors.crossed,
    vectors.tensordot,
    vectors.square,
    additions.biased,
    additions.indexed,
    joins.joined,
    joins.stacked,
    joins.split,
    joins.interleaved,
    dims.out_of_range,
    dims.permuted,
    dims.transposed,
    indices.embedded,
    indices.indexed,
    indices.too_many,
    indices.index_mask,
    indices.together,
    indices.put,
    indices.selected,
    indices.reached,
    indices.picked,
    indices.past,
    indices.one_hot,
    losses.class_range,
    losses.classes,
    losses.class_weights,
    losses.probabilities,
    losses.of_pairs,
    losses.same_size,
    layers.norm,
    layers.channels,
    layers.conv_dims,
    layers.kernel,
    layers.norm_channels,
    layers.attention,
    states.recurrent,
    states.state,
    broadcasting.attention_mask,
    broadcasting.grown,
    broadcasting.assigned,
    broadcasting.broadcast,
)
"""The first that fits says what is wrong."""


def diagnosis(trace: Trace) -> str | None:
    """The sentence for a trace that ended in an error; None if it did not, or if nothing is known of this error."""
    found = fault(trace)
    return None if found is None else sentence(found)


def sentence(found: Fault) -> str | None:
    with suppress(Exception):  # a file may say what no torch does: axes of another number than dims, or no numbers
        return next((said for rule in RULES if (said := rule(found)) is not None), None)
    return None
