"""Norms, convolutions and attention: what they were made for, and what they were given."""

from __future__ import annotations

import re

from .fault import Fault, Given, listed, modules

__all__ = ["attention", "attention_batch", "channels", "conv_dims", "kernel", "norm", "norm_channels"]


def norm(fault: Fault) -> str | None:
    """`layer_norm` and `rms_norm` are over the last dims."""
    x, over = fault.tensor("0", "input"), fault.ints(1, "normalized_shape")
    if fault.name not in ("layer_norm", "rms_norm") or x is None or not over:
        return None
    if x.shape[-len(over) :] == tuple(over):
        own = [given for given in (fault.tensor("weight", "2"), fault.tensor("bias", "3")) if given is not None]
        odd = next((given for given in own if given.shape != tuple(over)), None)
        return None if odd is None else f"{fault.name} is over {listed(list(map(str, over)))}, and {odd} is not of it"
    last = listed([x.dim(dim) for dim in range(-min(len(over), len(x.shape)), 0)])
    dims = "the last dim" if len(over) == 1 else f"the last {len(over)} dims"
    wanted = listed([str(size) for size in over])
    said = f"{fault.name} is over {dims}, and was made for {wanted}: {x} has {last} there"
    if len(over) > 1 and x.shape[-1] == over[-1]:
        return f"{said}; over the last dim alone, normalized_shape={over[-1]}, it goes with any length"
    other = [dim for dim in range(len(x.shape) - 1) if len(over) == 1 and x.shape[dim] == over[0]]
    if len(other) == 1:
        turned = f"{x.code}.transpose({other[0]}, -1)"
        return f"{said}; dim {other[0]} is {x.dim(other[0])}: {turned} is wide enough, and turned back after it"
    return said


def channels(fault: Fault) -> str | None:
    """A convolution takes channels in dim 1."""
    x, weight = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if not fault.name.startswith("conv") or x is None or weight is None or "channels" not in fault.text:
        return None
    found = fault.numbers(r"to have (\d+) channels, but got (\d+) channels")
    if found is None or len(x.shape) not in (len(weight.shape), len(weight.shape) - 1):
        return None
    wanted, got = found
    at = 1 if len(x.shape) == len(weight.shape) else 0
    if x.shape[at] != got:
        return None
    said = f"{fault.name} takes {wanted} channels in dim {at}, and {x} has {x.dim(at)} there"
    if x.shape[-1] == wanted and at == 0:
        return f"{said}{without_batch(x, weight)}"
    if x.shape[-1] == wanted:
        turn = "transpose(1, 2)" if len(x.shape) == 3 else "movedim(-1, 1)"
        return f"{said}; its channels are last, {x.dim(-1)}: {x.code}.{turn} puts them there"
    if wanted == 1 and at == 0:
        return f"{said}, without a batch: {x.code}.unsqueeze(1) makes of it a batch with one channel"
    return f"{said}: make it with in_channels={got}, or give it {wanted}"


def without_batch(x: Given, weight: Given) -> str:
    """Of channels in the last dim of what is taken for one without a batch, and may be a batch of rows."""
    turned = f"{x.code}.movedim(-1, 0) puts its channels there, {x.dim(-1)}"
    rows = f"{x.code}.unsqueeze(-1) has {x.dim(-1)} in dim 1, as channels of length 1"
    has_rows = len(x.shape) == 2 and weight.shape[-1] == 1
    if x.axis(0) == "B":
        return f"; {rows}" if has_rows else ""
    said = f"; if dim 0, {x.dim(0)}, is no batch, {turned}"
    return f"{said}; if it is one, {rows}" if has_rows else said


def conv_dims(fault: Fault) -> str | None:
    x, weight = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if not fault.name.startswith("conv") or x is None or weight is None or "(unbatched)" not in fault.text:
        return None
    dims = len(weight.shape)
    if len(x.shape) in (dims, dims - 1):
        return None
    names = ["batch", "channels", *("length", "height", "width")[0 if dims == 3 else 1 :][: dims - 2]]
    wanted = ", ".join(names) if dims < 5 else "batch, channels, depth, height, width"
    return f"{fault.name} takes [{wanted}], {dims} dims, the first of which may be missing; {x} has {len(x.shape)}"


def kernel(fault: Fault) -> str | None:
    x, weight = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if "_pool" in fault.name and x is not None and re.search("output size|too small", fault.text):
        return f"the window of {fault.name} is larger than {x}: give more input, more padding, or a smaller window"
    if not fault.name.startswith("conv") or x is None or weight is None or "Kernel size can't" not in fault.text:
        return None
    window = "×".join(map(str, weight.shape[2:]))
    return f"the kernel of {window} is larger than {x} with its padding: give more input, more padding, or less kernel"


def norm_channels(fault: Fault) -> str | None:
    """Norms over channels, which are dim 1."""
    x = fault.tensor("0", "input")
    own = fault.tensor("weight", "1")
    if fault.name not in ("batch_norm", "group_norm", "instance_norm") or x is None or own is None or len(x.shape) < 2:
        return None
    if len(own.shape) != 1 or x.shape[1] == own.shape[0]:
        return None
    said = f"{fault.name} takes {own.shape[0]} channels in dim 1, and {x} has {x.dim(1)} there"
    if x.shape[-1] == own.shape[0]:
        turn = "transpose(1, 2)" if len(x.shape) == 3 else "movedim(-1, 1)"
        return f"{said}; its channels are last, {x.dim(-1)}: {x.code}.{turn} puts them there"
    return said


def attention(fault: Fault) -> str | None:
    """`nn.MultiheadAttention`: its width, and its masks, which say if batch is first."""
    q, k = fault.tensor("0", "query"), fault.tensor("1", "key")
    if fault.name != "multi_head_attention_forward" or q is None or k is None or len(q.shape) != 3:
        return None
    width = fault.whole(3, "embed_dim_to_check")
    if "embedding dimension" in fault.text and width is not None and q.shape[-1] != width:
        return f"the attention was made with embed_dim={width}, and {q} has {q.dim(-1)} in its last dim"
    v = fault.tensor("2", "value")
    if v is not None and k.shape[:-1] != v.shape[:-1] and len(v.shape) == 3:
        return f"a key has one value: {k} and {v} are equal but for their last dim"
    if v is not None and k.shape != v.shape and "does not match value" in fault.text:
        said = f"the attention was made for keys and values of one width: {k.dim(-1)} in {k}, {v.dim(-1)} in {v}"
        return f"{said}; kdim and vdim give each its own"
    padding, mask = fault.tensor("key_padding_mask"), fault.tensor("attn_mask")
    if "key_padd" in fault.text and padding is not None and len(padding.shape) == 2:
        wanted = (k.shape[1], k.shape[0])
        if padding.shape == wanted:
            return None
        said = f"a padding mask is [{k.dim(1)}, {k.dim(0)}], batch by keys, not {padding}"
        if padding.shape != wanted[::-1]:
            return said
        if batch_first(fault, q) is not False:
            return f"{said}, whose dims are the other way round"
        return f"{said}: the attention reads {q.dim(1)} as batch and {q.dim(0)} as length, as without batch_first=True"
    if "2D attn_mask" in fault.text and mask is not None:
        return masked(fault, q, k, mask)
    heads = fault.whole(4, "num_heads")
    if "3D attn_mask" in fault.text and mask is not None and heads:
        sizes = f"[{q.dim(1)} times {heads} heads = {q.shape[1] * heads}, {q.dim(0)}, {k.dim(0)}]"
        said = f"a mask of attention of 3 dims is {sizes}, not {mask}"
        each = mask.shape == (q.shape[1], q.shape[0], k.shape[0])
        return f"{said}: {mask.code}.repeat_interleave({heads}, 0) gives each head that of its batch" if each else said
    return None


def batch_first(fault: Fault, query: Given) -> bool | None:
    """Whether the module of attention was made so: then it turns its query. None if its query came another way."""
    own = {tensor.number for tensor in fault.trace.calls[modules(fault.trace, fault.index)[-1]].inputs.values()}
    if query.tensor.number in own:
        return False
    index = fault.maker(query.tensor)
    call = None if index is None else fault.trace.calls[index]
    is_turned = call is not None and call.name == "transpose" and call.inputs["0"].number in own
    return True if is_turned else None


def attention_batch(fault: Fault) -> str | None:
    """`nn.MultiheadAttention` of queries and keys whose dim 1, its batch unless told otherwise, is not the same."""
    outer = fault.around("multi_head_attention_forward")
    q, k = outer.get("0"), outer.get("1")
    if q is None or k is None or not len(q.shape) == len(k.shape) == 3 or q.shape[1] == k.shape[1]:
        return None
    is_first = batch_first(fault, q)
    if is_first is None:
        return f"the attention takes dim 1 as batch: {q.dim(1)} of {q} met {k.dim(1)} of {k}"
    if is_first:
        query, key = (f"[{x.dim(1)}, {x.dim(0)}, {x.dim(2)}]" for x in (q, k))
        said = f"the attention takes dim 0 as batch, as batch_first=True has it: {q.dim(1)} of the query {query}"
        said = f"{said} met {k.dim(1)} of the key {key}"
        return f"{said}; transpose(0, 1) of one of them is as the other" if q.shape[1] == k.shape[0] else said
    said = f"the attention takes dim 1 as batch, as without batch_first=True: {q.dim(1)} of {q} met {k.dim(1)} of {k}"
    return f"{said}; is batch_first=True meant?" if q.shape[0] == k.shape[0] else said


def masked(fault: Fault, q: Given, k: Given, mask: Given) -> str | None:
    wanted = (q.shape[0], k.shape[0])
    if mask.shape == wanted:
        return None
    said = f"a mask of attention is [{q.dim(0)}, {k.dim(0)}], queries by keys, not {mask}"
    if mask.shape == (q.shape[1], k.shape[1]) and batch_first(fault, q) is False:
        return f"{said}: the attention takes {q.dim(0)} as length and {q.dim(1)} as batch; is batch_first=True meant?"
    return said
