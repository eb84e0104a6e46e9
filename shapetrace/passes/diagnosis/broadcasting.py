"""Two tensors that are taken element by element, and a mask on one: which two axes do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .fault import Fault, Given
from .slices import cut, past_the_end

__all__ = ["assigned", "attention_mask", "broadcast", "grown"]

MISMATCH = r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)"

MOST_WAYS = 100
"""To stand beside the dims of another tensor, before none is looked for."""

NO_PAIRS = frozenset("matmul __matmul__ __rmatmul__ bmm scaled_dot_product_attention expand".split())


def broadcast(fault: Fault) -> str | None:
    """Dims line up from the last one on; each pair must be equal, or one of them 1."""
    sizes = fault.numbers(MISMATCH)
    if fault.name in NO_PAIRS or sizes is None:
        return None
    given = list(fault.given.values())
    for a, b in combinations(given, 2):
        back = clash(a.shape, b.shape)
        if back and {a.shape[-back], b.shape[-back]} == set(sizes[:2]):
            met = (
                f"{fault.name} lines dims up from the last: {a.dim(-back)} of {a} met {b.dim(-back)} of {b}; "
                "they must be equal, or one of them 1"
            )
            advice = cut(fault, a) or cut(fault, b) or grown_first(fault, a, b) or lined_up(a, b)
            mask = fault.tensor("1", "mask")
            if fault.name.startswith("masked_") and mask is not None and mask.tensor.dtype != "bool":
                advice = f"{advice}{'. ' * bool(advice)}And a mask is bool, not {mask.tensor.dtype}"
            return f"{met}. {advice}" if advice else met
    return None


def clash(a: Sequence[int], b: Sequence[int]) -> int:
    """The first dim, counted from the last, in which two shapes do not go together; 0 if they do."""
    pairs = enumerate(zip(reversed(a), reversed(b), strict=False), start=1)
    return next((back for back, (one, other) in pairs if one != other and 1 not in (one, other)), 0)


def lined_up(a: Given, b: Given) -> str:
    """How one of two tensors is to be turned or widened so that they go together; "" if no way is the only one."""
    short, long = sorted((a, b), key=lambda given: len(given.shape))
    if len(short.shape) < len(long.shape):
        index = widened(short, long)
        return f"{short.code}{index} lines up" if index else ""
    for one, other in ((b, a), (a, b)):
        if len(one.shape) < 2:
            continue
        turned = (one.shape[1], one.shape[0], *one.shape[2:])
        if len(one.shape) > 2 and not clash(turned, other.shape):
            return (
                f"The first two dims of {one.name} are the other way round: {one.code}.transpose(0, 1) lines up; "
                "is one of them batch first?"
            )
        if not clash((*one.shape[:-2], one.shape[-1], one.shape[-2]), other.shape):
            return f"{one.code}.transpose(-2, -1) lines up"
    return ""


def widened(short: Given, long: Given, sizes: Sequence[int] | None = None, axes: Sequence[str] | None = None) -> str:
    """What makes `short` as long as `long`, or as these sizes, by dims of size 1: ".unsqueeze(2)", "[:, None, None]".

    Of several ways that one in which all axes with letters stand beside their like, or else the last beside the last.
    """
    sizes = long.shape if sizes is None else sizes
    axes = [long.axis(dim) for dim in range(len(long.shape))] if axes is None else axes
    own = [short.axis(dim) for dim in range(len(short.shape))]
    ways = [
        places
        for places in combinations(range(len(sizes)), len(own))
        if all(size in (sizes[at], 1) for size, at in zip(short.shape, places, strict=True))
    ]
    alike = [
        places
        for places in ways
        if all(
            mine == axes[at] for mine, at in zip(own, places, strict=True) if not (mine.isdigit() or axes[at].isdigit())
        )
    ]
    last = [places for places in alike if places[-1:] == (len(sizes) - 1,)]
    chosen = alike if len(alike) == 1 else last
    if len(chosen) != 1 or len(ways) > MOST_WAYS:
        return ""
    first, *_ = places = chosen[0]
    index = [":" if at in places else "None" for at in range(first, len(sizes))]
    if index.count("None") == 1:
        return f".unsqueeze({index.index('None')})"
    while index[-1] == ":":
        index.pop()
    return f"[{', '.join(index)}]"


def attention_mask(fault: Fault) -> str | None:
    """A mask is of the scores: queries by keys."""
    mask, q, k = fault.tensor("attn_mask", "3"), fault.tensor("0", "query"), fault.tensor("1", "key")
    if fault.name != "scaled_dot_product_attention" or mask is None or q is None or k is None:
        return None
    if min(len(q.shape), len(k.shape)) < 2:
        return None
    scores = (*q.shape[:-1], k.shape[-2])
    back = clash(mask.shape, scores)
    if not back or q.shape[-1] != k.shape[-1]:
        return None
    axes = [q.dim(dim) for dim in range(len(q.shape) - 1)] + [k.dim(-2)]
    said = f"the mask is added to scores of [{', '.join(axes)}], and {mask} has"
    said = f"{said} {mask.dim(-back)} where they have {axes[-back]}"
    letters = [*(q.axis(dim) for dim in range(len(q.shape) - 1)), k.axis(-2)]
    index = widened(mask, q, scores, letters) if len(mask.shape) < len(scores) else ""
    return f"{said}. {mask.code}{index} lines up" if index else said


def assigned(fault: Fault) -> str | None:
    """What is put into a place that has another shape."""
    found = fault.numbers(r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)")
    target, value = fault.tensor("0"), fault.tensor("2")
    if fault.name not in ("__setitem__", "copy_") or found is None or target is None:
        return None
    value = value or fault.tensor("1", "src")
    if value is None:
        return None
    index = fault.call.literals.get("1", "…").strip("()")
    if fault.name == "__setitem__" and (past := next(past_the_end(target.tensor, index, target.name), "")):
        return f"{value} does not fit: {past}"
    place = f"{target.code}[{index}]" if fault.name == "__setitem__" else str(target)
    return f"{value} does not fit into {place}: its {found[1]} must be {found[0]} or 1"


def grown_first(fault: Fault, a: Given, b: Given) -> str:
    """What to write where a tensor with fewer dims is written to: it cannot line up in place."""
    if not is_in_place(fault.name) or a is not fault.tensor("0") or len(a.shape) >= len(b.shape):
        return ""
    index = widened(a, b)
    return f"In place {a.name} cannot grow: {made(fault.name, a, b, index)} lines up" if index else ""


def is_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def made(name: str, x: Given, other: Given, index: str = "") -> str:
    """What a function in place does, written as what makes a new tensor."""
    sign = {"add_": "+", "sub_": "-", "mul_": "*", "div_": "/"}.get(name)
    if sign is None:
        return f"{x.code}{index}.{name.rstrip('_')}({other.name})" if index else name.rstrip("_")
    assigned = f"{x.name} = " if x.name.replace(".", "_").isidentifier() else ""
    return f"{assigned}{x.code if index else x.name}{index} {sign} {other.name}"


def grown(fault: Fault) -> str | None:
    """What is written in place cannot become larger."""
    x, other = fault.tensor("0"), fault.tensor("1", "other")
    if x is None or other is None or "doesn't match the broadcast shape" not in fault.text:
        return None
    return (
        f"{fault.name} writes into {x}, which cannot grow to what {other} makes of it: "
        f"{made(fault.name, x, other)} makes a new tensor"
        if is_in_place(fault.name)
        else None
    )
