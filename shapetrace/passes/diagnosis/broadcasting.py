"""Two tensors that are taken element by element, and a mask on one: which two axes do not go together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .fault import Fault, Given

__all__ = ["assigned", "attention_mask", "broadcast", "grown"]

MISMATCH = r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)"

NO_PAIRS = frozenset("matmul __matmul__ __rmatmul__ bmm scaled_dot_product_attention expand".split())


def broadcast(fault: Fault) -> str | None:
    """Dims line up from the last one on; each pair must be equal, or one of them 1."""
    if fault.name in NO_PAIRS or fault.numbers(MISMATCH) is None:
        return None
    given = list(fault.given.values())
    for a, b in combinations(given, 2):
        back = clash(a.shape, b.shape)
        if back:
            return said(fault.name, a, b, back)
    return None


def clash(a: Sequence[int], b: Sequence[int]) -> int:
    """The first dim, counted from the last, in which two shapes do not go together; 0 if they do."""
    pairs = enumerate(zip(reversed(a), reversed(b), strict=False), start=1)
    return next((back for back, (one, other) in pairs if one != other and 1 not in (one, other)), 0)


def said(name: str, a: Given, b: Given, back: int) -> str:
    short, long = sorted((a, b), key=lambda given: len(given.shape))
    met = (
        f"{name} lines dims up from the last: {a.dim(-back)} of {a} met {b.dim(-back)} of {b}; "
        "they must be equal, or one of them 1"
    )
    missing = len(long.shape) - len(short.shape)
    ways = [at for at in range(1, len(short.shape) + 1) if fits(short.shape, at, missing, long.shape)]
    if missing and len(ways) == 1:
        index = [*[":"] * ways[0], *["None"] * missing]
        where = f"{short.name}.unsqueeze({ways[0]})" if missing == 1 else f"{short.name}[{', '.join(index)}]"
        return f"{met}. {where} lines up"
    for one, other in ((b, a), (a, b)):
        if len(one.shape) > 1 and not missing:
            turned = (one.shape[1], one.shape[0], *one.shape[2:])
            if len(one.shape) > 2 and not clash(turned, other.shape):
                return (
                    f"{met}. The first two dims of {one.name} are the other way round: {one.name}.transpose(0, 1) "
                    "lines up; is one of them batch first?"
                )
            if not clash((*one.shape[:-2], one.shape[-1], one.shape[-2]), other.shape):
                return f"{met}. {one.name}.transpose(-2, -1) lines up"
    return met


def fits(short: tuple[int, ...], at: int, missing: int, long: tuple[int, ...]) -> bool:
    """Whether it lines up with as many dims of size 1 in its midst, and equal dims beside them."""
    wide = (*short[:at], *(1,) * missing, *short[at:])
    return all(one in (other, 1) for one, other in zip(wide, long, strict=True)) and wide != long


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
    return f"{said} {mask.dim(-back)} where they have {axes[-back]}"


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
    place = f"{target.name}[{index}]" if fault.name == "__setitem__" else str(target)
    return f"{value} does not fit into {place}: its {found[1]} must be {found[0]} or 1"


def grown(fault: Fault) -> str | None:
    """What is written in place cannot become larger."""
    x, other = fault.tensor("0"), fault.tensor("1", "other")
    if x is None or other is None or "doesn't match the broadcast shape" not in fault.text:
        return None
    return (
        f"{fault.name} writes into {x}, which cannot grow to what {other} makes of it: "
        f"write {fault.name.rstrip('_')}, which makes a new tensor"
        if fault.name.endswith("_") and not fault.name.endswith("__")
        else None
    )
