"""linear, matmul, bmm, einsum: which axis met which."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...schema import package_of
from .broadcasting import clash
from .fault import Fault, Given, listed

__all__ = ["are_grouped", "batches", "einsum", "linear", "matmul", "may_group", "pair"]

PRODUCTS = frozenset(
    "matmul __matmul__ __rmatmul__ mm bmm mv addmm baddbmm addbmm scaled_dot_product_attention".split()
)


def linear(fault: Fault) -> str | None:
    """A `Linear` whose input has another width than it was made for."""
    x, weight = fault.tensor("0", "input"), fault.tensor("1", "weight")
    if fault.name != "linear" or x is None or weight is None or not x.shape or len(weight.shape) != 2:
        return None
    if x.shape[-1] == weight.shape[1]:
        return None
    wanted = weight.shape[1]
    said = f"linear takes {weight.dim(1)} in the last dim, and {x} has {x.dim(-1)} there"
    other = [dim for dim in range(len(x.shape) - 1) if x.shape[dim] == wanted]
    if len(other) == 1:
        turned = f"{x.code}.transpose({other[0]}, -1)"
        return f"{said}; dim {other[0]} is {x.dim(other[0])}: is {turned} meant?"
    is_of_layer = package_of(fault.call.source) == "torch"
    if weight.shape[0] == x.shape[-1] and not is_of_layer and not weight.name.endswith("weight"):
        return f"{said}: a weight is [out, in], and {weight.code}.t() is so"
    if len(x.shape) == 4 and x.shape[1] * x.shape[3] == wanted:
        return (
            f"{said}; the heads are not joined: {x.code}.transpose(1, 2).flatten(2) puts {x.dim(1)} beside {x.dim(3)}, "
            f"which makes {wanted}"
        )
    flat = 1
    for dim in reversed(range(1, len(x.shape))):
        flat *= x.shape[dim]
        if flat == wanted and dim < len(x.shape) - 1:
            return f"{said}; dims {dim} to {len(x.shape) - 1} make {wanted}: is {x.code}.flatten({dim}) meant?"
    return f"{said}: make it with in_features={x.shape[-1]}, or give it a tensor that is {wanted} wide"


def pair(fault: Fault) -> tuple[Given, Given] | None:
    """The two tensors that are multiplied; of attention the query and the key, turned."""
    if fault.name not in PRODUCTS:
        return None
    is_added = fault.name in ("addmm", "baddbmm", "addbmm")
    first = fault.tensor("1") if is_added else fault.tensor("0", "input", "query")
    second = fault.tensor("2") if is_added else fault.tensor("1", "other", "mat2", "key")
    if first is None or second is None or not first.shape or not second.shape:
        return None
    return (second, first) if fault.name == "__rmatmul__" else (first, second)


def matmul(fault: Fault) -> str | None:
    found = pair(fault)
    if found is None:
        return None
    a, b = found
    if fault.name == "scaled_dot_product_attention":
        if len(b.shape) < 2 or a.shape[-1] == b.shape[-1]:
            return None
        return f"queries and keys meet in their last dim: {a.dim(-1)} in {a}, {b.dim(-1)} in {b}; they must be equal"
    if fault.name in ("bmm", "mm") and {len(a.shape), len(b.shape)} != {3 if fault.name == "bmm" else 2}:
        dims = 3 if fault.name == "bmm" else 2
        return f"{fault.name} takes two tensors of {dims} dims, not {a} and {b}: matmul takes any"
    inner = -2 if len(b.shape) > 1 else -1
    if a.shape[-1] == b.shape[inner]:
        return None
    said = (
        f"{fault.name} sums over the last dim of {a} and dim {inner} of {b}: "
        f"{a.dim(-1)} met {b.dim(inner)}, and they must be equal"
    )
    if clash(a.shape[:-2], b.shape[:-2]):
        return said
    if len(b.shape) > 1 and b.shape[-1] == a.shape[-1]:
        return f"{said}; {transposed(b)} has {b.dim(-1)} there"
    if len(a.shape) > 1 and a.shape[-2] == b.shape[inner]:
        return f"{said}; {transposed(a)} has {a.dim(-2)} there"
    return said


def transposed(x: Given) -> str:
    """The code of `x` with its last two dims the other way round: without what turned them, or with it."""
    for turn in (".mT", ".transpose(-2, -1)", ".transpose(-1, -2)"):
        if x.name.endswith(turn):
            return x.name.removesuffix(turn)
    return f"{x.code}.transpose(-2, -1)"


def batches(fault: Fault) -> str | None:
    """The dims before the last two, which are not multiplied but must go together."""
    found = pair(fault)
    if found is None or min(len(found[0].shape), len(found[1].shape)) < 3:
        return None
    a, b = found
    for back in range(3, min(len(a.shape), len(b.shape)) + 1):
        one, other = a.shape[-back], b.shape[-back]
        is_broadcast = 1 in (one, other) and fault.name not in ("bmm", "baddbmm")
        is_shared = back == 3 and may_group(fault)
        if one != other and not is_broadcast and not (is_shared and are_grouped(fault, one, other)):
            met = f"{fault.name} runs over dim -{back} of both: {a.dim(-back)} in {a} met {b.dim(-back)} in {b}"
            if is_shared:
                return f"{met}; with enable_gqa=True the second must divide the first"
            extra = "" if fault.name in ("bmm", "baddbmm") else ", or one of them 1"
            return f"{met}; they must be equal{extra}"
    return None


def may_group(fault: Fault) -> bool:
    """Whether keys and values may be fewer than queries."""
    return fault.call.literals.get("enable_gqa") == "True"


def are_grouped(fault: Fault, queries: int, keys: int) -> bool:
    return may_group(fault) and keys > 0 and queries % keys == 0


def einsum(fault: Fault) -> str | None:
    """A letter of the equation that stands for two sizes, for no dim, or for too few."""
    equation = fault.call.literals.get("0", "").strip("'\" ").replace(" ", "")
    if fault.name != "einsum" or not equation or "." in equation:
        return None
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    given = fault.tensors("1") or [fault.given[key] for key in fault.given if key.isdigit()]
    if len(terms) != len(given):
        return f"einsum names {len(terms)} tensors in {left!r}, and was given {len(given)}"
    for term, tensor in zip(terms, given, strict=True):
        if len(term) != len(tensor.shape):
            return f"einsum calls {tensor} {term!r}: {len(term)} letters for {len(tensor.shape)} dims"
    for letter, there in meetings(terms, given):
        sizes = {tensor.shape[dim] for tensor, dim in there}
        if len(sizes - {1}) > 1:
            met = listed([f"{tensor.dim(dim)} in {tensor}" for tensor, dim in there])
            return f"einsum's letter {letter!r} stands for {met}: one letter has one size"
    lost = [letter for letter in right if letter not in left]
    if arrow and lost:
        return f"einsum's result {right!r} has {lost[0]!r}, which no tensor of {left!r} has"
    return None


def meetings(terms: list[str], given: list[Given]) -> Iterator[tuple[str, list[tuple[Given, int]]]]:
    """Each letter, with the dims that it stands for."""
    for letter in dict.fromkeys(re.findall(r"\w", "".join(terms))):
        yield (
            letter,
            [
                (tensor, dim)
                for term, tensor in zip(terms, given, strict=True)
                for dim, name in enumerate(term)
                if name == letter
            ],
        )
