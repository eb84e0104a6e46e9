"""Functions that multiply: what they sum over is equally long in both."""

from __future__ import annotations

from ..roles.functions import short_name
from .dims import Dim, Dims
from .step import Row, Step


def matmul(step: Step) -> None:
    one, other = step.given("0", "input"), step.given("1", "mat2", "other", "vec", "tensor")
    if one is not None and other is not None:
        one, other = (other, one) if short_name(step.call) == "rmatmul" else (one, other)
        product(step.dims, one, other, step.result)


def product(dims: Dims, one: Row, other: Row, made: Row) -> None:
    """[…, m, k] by [k], [k, n] or […, k, n]; and [k] by those."""
    if not one or not other:
        return
    dims.join(one[-1], other[-2] if len(other) > 1 else other[-1])
    if len(other) == 2:
        dims.projected.add((one[-1], other[-1]))
    if len(one) > 1 and len(other) > 1:
        dims.broadcast(one[:-1], made[:-1])
        dims.join(other[-1], made[-1])
        dims.broadcast(other[:-2], made[:-2])
    elif len(one) > 1:
        dims.broadcast(one[:-1], made)
    elif len(other) > 1:
        dims.broadcast([*other[:-2], other[-1]], made)


def added_product(step: Step) -> None:
    """addmm(x, one, other) and the like: their product, and x."""
    x, one, other = step.given("0", "input"), step.given("1", "mat1", "batch1", "mat"), step.given(*SECOND)
    if x is not None and one is not None and other is not None:
        product(step.dims, one, other, step.result)
        step.dims.broadcast(x, step.result)


SECOND = ("2", "mat2", "batch2", "vec")


def linear(step: Step) -> None:
    x, weight, bias = step.given("0", "input"), step.given("1", "weight"), step.given("2", "bias")
    made = step.result
    if not x or not made or weight is None or len(weight) != 2:
        return
    step.dims.join(weight[0], made[-1])
    step.dims.broadcast(bias or [], made[-1:])
    if len(made) == len(x):
        step.dims.broadcast(x[:-1], made[:-1])
        step.dims.join(x[-1], weight[1])
        step.dims.projected.add((weight[1], weight[0]))


def embedding(step: Step) -> None:
    ids, table, made = step.given("0", "input"), step.given("1", "weight"), step.result
    if step.call.kind == "function" and ids is not None and table is not None and len(made) == len(ids) + 1:
        step.dims.broadcast([*ids, table[-1]], made)


def convolution(step: Step) -> None:
    """Channels; how many there are of what is beside them may be another number after it."""
    x, weight, bias = step.given("0", "input"), step.given("1", "weight"), step.given("2", "bias")
    made = step.result
    if x is None or weight is None or not len(x) == len(made) == len(weight):
        return
    step.dims.join(x[0], made[0])
    step.dims.join(weight[0], made[1])
    step.dims.broadcast(bias or [], made[1:2])
    if step.number("groups", "6", default=1) == 1:
        step.dims.join(x[1], weight[1])
        step.dims.projected.add((weight[1], weight[0]))


def einsum(step: Step) -> None:
    """Each letter is one dim, and dots are dims from the right."""
    equation = step.literal("0", "equation")
    if not isinstance(equation, str):
        return
    sides, arrow, end = equation.replace(" ", "").partition("->")
    terms = [*sides.split(","), *([end] if arrow else [])]
    rows = [*map(step.dims.of, step.call.inputs.values()), *([step.result] if arrow else [])]
    if len(terms) != len(rows):
        return
    found: dict[str, Dim] = {}
    dots: Row = ()
    if len(terms) == 3 and "." not in equation:
        taken, kept = set(terms[0]) & set(terms[1]), set(terms[1]) - set(terms[0])
        pairs = dict(zip(terms[1], rows[1], strict=False))
        step.dims.projected.update(
            (pairs[one], pairs[other]) for one in taken for other in kept if {one, other} <= pairs.keys()
        )
    for term, row in zip(terms, rows, strict=True):
        left, dotted, right = term.partition("...")
        end_at = len(row) - len(right)
        for letter, dim in (*zip(left, row, strict=False), *zip(right, row[end_at:], strict=False)):
            step.dims.join(found.setdefault(letter, dim), dim)
        if dotted:
            step.dims.broadcast(row[len(left) : end_at], dots)
            dots = max(dots, row[len(left) : end_at], key=len)


def attention(step: Step) -> None:
    """scaled_dot_product_attention: what it gives, and the scores and weights that it does not make."""
    q, k, v, made = step.given("0", "query"), step.given("1", "key"), step.given("2", "value"), step.result
    if q is None or k is None or v is None or min(map(len, (q, k, v, made))) < 2:
        return
    step.dims.join(q[-1], k[-1])
    step.dims.join(k[-2], v[-2])
    step.dims.broadcast(q[:-1], made[:-1])
    step.dims.broadcast(k[:-2], made[:-2])
    step.dims.broadcast(v[:-2], made[:-2])
    step.dims.join(v[-1], made[-1])
    scores = (*q[:-1], k[-2])
    step.dims.broadcast(step.given("3", "attn_mask") or [], scores)
    step.unmade.update(dict.fromkeys(step.call.unmade, scores))


def outer(step: Step) -> None:
    one, other = step.given("0", "input"), step.given("1", "vec2", "other")
    if one and other and len(one) == len(other) == 1:
        step.dims.broadcast([one[0], other[0]], step.result)
