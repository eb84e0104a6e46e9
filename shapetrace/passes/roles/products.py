"""Products of activations, and softmax: what attention is made of."""

from __future__ import annotations

from itertools import pairwise

from ..plumbing import is_float
from .flow import Flow, Node
from .functions import DIFFERENCES, FUSED, LAYOUTS, PRODUCTS, QUOTIENTS, SOFTMAX, SUMS, TIMES

__all__ = [
    "contracted",
    "dim_of",
    "factors",
    "is_flip",
    "is_mixing",
    "is_product",
    "is_softmax",
    "pair_of",
    "softmax_of",
    "turns",
]


def is_softmax(node: Node) -> bool:
    """`softmax`, or the same by hand: exponentials over their sum, or of `log_softmax`."""
    return softmax_of(node) is not None


def softmax_of(node: Node) -> Node | None:
    """What softmax is taken of here; None if it is none."""
    name, inputs = node.name, node.inputs
    if name in SOFTMAX:
        return inputs[0] if inputs and node.shape else None
    if name == "exp" and inputs and inputs[0].name == "log_softmax":
        return inputs[0].inputs[0]
    if name == "exp" and inputs and inputs[0].name in DIFFERENCES and len(inputs[0].inputs) == 2:
        x, total = inputs[0].inputs
        return x if total.name == "logsumexp" and x in total.inputs[:1] else None
    if name in QUOTIENTS and len(inputs) == 2:
        top, bottom = inputs
        if bottom.name in SUMS:  # beside what nothing attends to, or a little
            bottom = next((given for given in bottom.inputs if given.name == "sum"), bottom)
        if top.name == "exp" and bottom.name == "sum" and top in bottom.inputs[:1]:
            return top.inputs[0]
    return None


def is_product(node: Node) -> bool:
    """Of two activations; also as the sum of what was multiplied element by element."""
    if node.name in PRODUCTS:
        pair = node.inputs[-2:]
        return len(pair) == 2 and all(is_float(one.meta) and not one.is_weight for one in pair)
    if node.name == "sum" and node.inputs and node.inputs[0].name in TIMES:
        pair = node.inputs[0].inputs
        return len(pair) == 2 and all(one.is_data and one.shape != node.inputs[0].shape for one in pair)
    return False


def is_mixing(node: Node) -> bool:
    """Whether tokens may see others here, or a token its past."""
    return is_product(node) or node.name in MIXING or node.name in FUSED


MIXING = frozenset("conv1d conv2d convolution fft_fft fft_fft2 fft_fftn fft_rfft fft_rfft2 fft_rfftn".split())


def pair_of(product: Node) -> tuple[Node, ...]:
    return product.inputs[0].inputs if product.name == "sum" else product.inputs[-2:]


def factors(product: Node, flow: Flow) -> tuple[Node, Node]:
    """What gives the rows of a product, and what gives its columns."""
    one, other = pair_of(product)
    if product.name == "einsum":
        left, right, result = equation(product, flow)
        return (other, one) if result[-1:] in left and result[-1:] not in right else (one, other)
    return (other, one) if product.name == "rmatmul" else (one, other)


def equation(product: Node, flow: Flow) -> tuple[str, str, str]:
    """The letters of both factors and of the result; empty if they are not all written out."""
    text = flow.calls[product.index].literals.get("0", "").strip("'\"").replace(" ", "")
    terms, arrow, result = text.partition("->")
    left, comma, right = terms.partition(",")
    return (left, right, result) if arrow and comma else ("", "", "")


def contracted(product: Node, flow: Flow) -> int:
    """The size of the dim that a product sums over."""
    one = pair_of(product)[0]
    if product.name == "einsum":
        left, right, result = equation(product, flow)
        shared = [letter for letter in left if letter in right and letter not in result]
        if shared and len(left) == len(one.shape):
            return one.shape[left.index(shared[-1])]
    one = factors(product, flow)[0]
    return one.shape[-1] if one.shape else 0


def dim_of(softmax: Node, flow: Flow) -> int:
    """Over which dim it is taken."""
    literals = flow.calls[softmax.index].literals
    dim = literals.get("dim", literals.get("1", "-1")) if softmax.name in SOFTMAX else "-1"
    return int(dim) if dim.lstrip("-").isdecimal() else -1


def turns(softmax: Node, before: list[Node], after: list[Node], product: Node, flow: Flow) -> bool:
    """Whether the columns of the product before softmax are the queries: its rows are what the product with the values
    sums over; or, where that cannot be told, what softmax is taken over.

    before, after   what lies between the products, with the first and up to the second
    """
    weights = after[-1]
    summed = dim_summed(product, weights, flow)
    if summed is not None and weights.shape[summed] in before[0].shape:
        of_rows, of_columns = (weights.shape[summed] in factor.shape for factor in factors(before[0], flow))
        if of_rows is not of_columns:
            return of_rows
    if summed in (-2, -1) and all(is_flip(*steps) or is_same(*steps) for steps in pairwise(after)):
        is_turned, path = summed == -2, [*before, *after]
    else:
        is_turned, path = dim_of(softmax, flow) in (-2, len(softmax.shape) - 2), before
    for one, other in pairwise(path):
        is_turned ^= is_flip(one, other)
    return is_turned


def dim_summed(product: Node, factor: Node, flow: Flow) -> int | None:
    """Which dim of a factor a product sums over, from the right; None if that are several, or not told."""
    if product.name not in PRODUCTS or len(factor.shape) < 2 or product.inputs[-2] is product.inputs[-1]:
        return None
    is_first = factor is product.inputs[-2]
    if product.name != "einsum":
        return -1 if is_first is (product.name != "rmatmul") else -2
    left, right, result = equation(product, flow)
    own, other = (left, right) if is_first else (right, left)
    found = [place - len(own) for place, letter in enumerate(own) if letter in other and letter not in result]
    return found[0] if len(found) == 1 and len(own) == len(factor.shape) else None


def is_flip(before: Node, after: Node) -> bool:
    """Whether the last two dims change places."""
    one, other = before.meta.stride, after.meta.stride
    return (
        after.name in TURNING
        and one is not None
        and other is not None
        and len(one) == len(other) >= 2
        and one[-2:] == other[:-3:-1]
        and before.shape[-2:] == after.shape[:-3:-1]
        and one[:-2] == other[:-2]
    )


def is_same(before: Node, after: Node) -> bool:
    """Whether the last two dims stay where they are."""
    one, other = before.meta.stride, after.meta.stride
    is_moved = after.name in TURNING and (one is None or other is None or one[-2:] != other[-2:])
    return before.shape[-2:] == after.shape[-2:] and not is_moved


TURNING = LAYOUTS - {"view", "reshape", "contiguous", "clone", "alias", "detach", "unsafe_view", "view_as"}
