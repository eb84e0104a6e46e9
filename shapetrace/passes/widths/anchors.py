"""Which dims are what by the role of their tensor: scores have heads, the residual stream the width of the model.

A letter is told only where all dims that would have it are of one size, over the whole trace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ...schema import Call, Trace
from ..nesting import forward_of
from ..roles.functions import LOOKUPS, short_name
from .dims import Dim
from .joined import Joined

__all__ = ["SHARING", "anchored"]

WIDTHS = (
    (1, ("residual",)),
    (1, ("attn_out", "x")),
    (3, ("norm", "ffn_out")),
    (1, ("token_embedding", "position_embedding")),
)
"""Roles of tensors, of so many dims at least, whose last dim is the width of the model. The first that are there tell
it: an embedding may be of another width, and be projected; and what is pooled into [B, C] is as wide as its last stage.
Of the others those have it that are as wide: what attends in a block that adds nothing to the stream.
"""


RANK_OF_IMAGES = 4

SHARING = "H/G"
"""What stands for the heads of each group."""


def anchored(
    trace: Trace, joined: Joined, told: Collection[str], configured: Mapping[str, int], declared: Mapping[str, int]
) -> dict[Dim, str]:
    """The roots of dims that have a letter by their roles; none where roles contradict each other.

    told         letters that the axes of the trace have already: a plain number is none of these
    configured   sizes of letters that the model has for sure
    declared     sizes of letters, one of which is chosen where there are several
    """
    found: dict[Dim, set[str]] = {}
    root = joined.dims.root
    lengths = lengths_of(joined)
    said = may_be_said(trace, joined) | columns(joined)
    likely = [[dim for dim in joined.last(*roles, least=least) if root(dim) not in said] for least, roles in WIDTHS]
    width = next(filter(None, likely), [])
    wide = set(map(joined.size, width))
    width = [dim for dims in likely for dim in dims if joined.size(dim) in wide] if len(wide) == 1 else width
    for letter, dims in (
        ("C", width),
        ("F", joined.last("ffn_hidden")),
        ("V", vocabulary(trace, joined)),
        *heads(joined, "B" in told, wide, lengths),
        *fixed_lengths(trace, joined),
    ):
        roots = {root(dim) for dim in dims} - (set() if letter in "TS" else lengths)
        sizes = set(map(joined.size, roots))
        if letter in configured:
            sizes &= {configured[letter]}
        elif declared.get(letter) in sizes:
            sizes = {declared[letter]}
        if letter not in told and len(sizes) == 1:
            for dim in roots:
                if joined.size(dim) in sizes:
                    found.setdefault(dim, set()).add(letter)
    return {dim: said.pop() for dim, said in found.items() if len(said) == 1}


def fixed_lengths(trace: Trace, joined: Joined) -> Iterator[tuple[str, list[Dim]]]:
    """T and S where the model itself says how long they are: the patches of an image, the frames of a recording.

    A length is a dim of the stream [B, T, C], too: windows, columns of an image and channels that attend are none. Nor
    are queries that are learned: there are so many of them whatever the model is given.
    """
    root, rows = joined.dims.root, joined.rows("weights")
    stream = {root(row[-2]) for row in joined.rows("residual") if len(row) == 3}
    rows = [row for row in rows if len(row) > 1 and {root(row[-2]), root(row[-1])} <= stream]
    fixed = {root(dim) for row in rows for dim in row[-2:] if joined.is_open(dim)}
    fixed -= learned(trace, joined, fixed) if fixed else set()
    sources = {root(row[-1]) for row in rows if root(row[-2]) != root(row[-1])}
    yield "S", [row[-1] for row in rows if root(row[-1]) in fixed & sources]
    yield "T", [row[-2] for row in rows if root(row[-2]) in fixed - sources]


def learned(trace: Trace, joined: Joined, roots: Collection[Dim]) -> set[Dim]:
    """Those of some dims that parameters have, and neither what the model is given, nor what a function makes of
    tensors that have them not."""
    root, of = joined.dims.root, joined.dims.of
    found = {root(dim) for row in joined.owned for dim in row} & {*roots}
    forward = forward_of(trace.calls)
    for index, call in enumerate(trace.calls) if found else ():
        given = {root(dim) for tensor in call.inputs.values() for dim in of(tensor)}
        if index == forward:
            found -= given
        elif call.kind == "function" and given:
            found -= {root(dim) for tensor in call.outputs.values() for dim in of(tensor)} - given
    return found


def lengths_of(joined: Joined) -> set[Dim]:
    """The roots of dims that are batch or length where there is attention, and of what these are made of: the rows and
    columns of an image."""
    found: set[Dim] = set()
    left = [dim for row in joined.rows("weights", "scores") for dim in beside_heads(joined, row)]
    while left:
        root = joined.dims.root(left.pop())
        if root not in found:
            found.add(root)
            left.extend(part for parts in joined.cuts.get(root, ()) for part in parts)
    return found


def may_be_said(trace: Trace, joined: Joined) -> set[Dim]:
    """The roots of dims that may be a vocabulary: of what a model gives out that is as wide as a table has rows, and as
    nothing before it is."""
    forward = forward_of(trace.calls)
    rows = {call.inputs["1"].shape[0] for call in lookups(trace)}
    if forward is None or not rows:
        return set()
    out = trace.calls[forward].outputs.values()
    ends = {joined.dims.root(row[-1]) for row in map(joined.dims.of, out) if row and joined.size(row[-1]) in rows}
    last = {joined.dims.root(dim) for dim in joined.last("residual", "x", "token_embedding")}
    return ends - last


def vocabulary(trace: Trace, joined: Joined) -> list[Dim]:
    """The rows of the tables that tokens are looked up in, and logits that are as wide; classes are no vocabulary."""
    looked_up = joined.roles.get("token_embedding", {})
    found = [
        joined.dims.of(call.inputs["1"])[0]
        for call in lookups(trace)
        if any(joined.dims.of(tensor) in looked_up for tensor in call.outputs.values())
    ]
    logits = joined.last("logits")
    sizes = set(map(joined.size, logits)) & set(map(joined.size, found))
    return [dim for dim in (*found, *logits) if joined.size(dim) in sizes] if sizes else found


def columns(joined: Joined) -> set[Dim]:
    """The roots of the last dims of images that attention is given: no weight takes them."""
    owned = {joined.dims.root(dim) for row in joined.owned for dim in row}
    return {joined.dims.root(row[-1]) for row in joined.rows("x") if len(row) >= RANK_OF_IMAGES} - owned


def lookups(trace: Trace) -> Iterator[Call]:
    """The calls that look ids up in a table."""
    for call in trace.calls:
        if call.kind == "function" and short_name(call) in LOOKUPS and "1" in call.inputs:
            yield call


def heads(joined: Joined, has_batch: bool, widths: set[int], lengths: set[Dim]) -> Iterator[tuple[str, list[Dim]]]:
    """H, D and G. Lengths are none of them, however a tensor is turned.

    A number of heads is believed only where it stands before their width in a view or a parameter.
    """
    root, size = joined.dims.root, joined.size
    neighbours = set(joined.neighbours())
    width = [dim for dim in joined.last("q") if root(dim) not in lengths]
    inner = {root(row[-1]) for row in joined.rows("q", "v") if row and not joined.is_input(row[-1])} - lengths

    def before_width(dims: Sequence[Dim]) -> list[Dim]:
        return [dim for dim in dims if joined.is_open(dim) and any((root(dim), one) in neighbours for one in inner)]

    rows = joined.rows("weights", "scores")
    found = before_width([dim for row in rows for dim in head(joined, row, has_batch)])
    yield "H", found
    shared = [] if found else list(sharing(joined, neighbours, inner))
    folded = before_width([row[1] for row in rows if is_folded(joined, row)])
    yield "G", [*(group for group, _ in shared), *folded]
    yield SHARING, [each for _, each in shared]
    found = [*found, *(dim for pair in shared for dim in pair), *folded]
    counts = set(map(size, found))
    if counts:
        after = {other for one, other in neighbours if one in set(map(root, found))}
        values = {size(dim) for dim in joined.last("v") if root(dim) in after}
        width = [dim for dim in width if root(dim) in after or size(dim) in values]
    else:  # heads one by one, or a single one: their width is that of a projection, unless it may be C
        owned = {root(dim) for row in joined.owned for dim in row}
        may_be = widths and not widths & set(map(size, width))
        width = [dim for dim in width if may_be and root(dim) in owned]
    sizes = set(map(size, width))
    yield "D", [*width, *(dim for dim in joined.last("v") if size(dim) in sizes)]
    if len(counts) == 1 and not shared and not folded:
        (count,) = counts
        groups = before_width([group(joined, row) for row in joined.rows("k", "v") if len(row) == 4])
        yield "G", [dim for dim in groups if count % size(dim) == 0 and size(dim) != count]
        yield "H", [dim for dim in groups if size(dim) == count]


def group(joined: Joined, row: Sequence[Dim]) -> Dim:
    """Of the dims of keys or values that of their heads: [B, G, S, D], or [B, S, G, D], where S has its letter."""
    return row[-2] if joined.is_open(row[-2]) and not joined.is_open(row[-3]) else row[-3]


def head(joined: Joined, row: Sequence[Dim], has_batch: bool) -> Iterator[Dim]:
    """Of the dims of weights that of the heads: [B, H, T, S]; the only one that has no letter, if there is but one: [T,
    S, B, H]; or what a batch of heads is made of: [2·B, T, S]."""
    if is_folded(joined, row):
        return
    if len(row) == 4 and (alone := only_open(joined, row)) is not None:
        yield alone
    elif len(row) == 4 and not (has_batch and joined.is_open(row[0])):
        yield row[1]
    elif len(row) == 3:
        yield row[0]
        yield from (part for parts in joined.cuts.get(joined.dims.root(row[0]), ()) for part in parts)


def is_folded(joined: Joined, row: Sequence[Dim]) -> bool:
    """Whether the heads of a group are rows of one product, [B, G, 2·T, S]: then what stands there is no H. Where keys
    are as many, three tokens make a step: [B, H, 3·T, 3·T]."""
    q, k = (joined.dims.axes[dim] for dim in row[-2:])
    return len(row) == 4 and q != k and FOLDED.fullmatch(str(q)) is not None


FOLDED = re.compile(r"\d+·[TS]")


def sharing(
    joined: Joined, neighbours: Collection[tuple[Dim, Dim]], widths: Collection[Dim]
) -> Iterator[tuple[Dim, Dim]]:
    """Of weights [B, G, H/G, T, S] the dims of groups, which keys have, and of the heads in each, which they have not.

    Both stand before the width of heads, one after the other.
    """
    root = joined.dims.root
    queries, keys = ({root(dim) for row in joined.rows(*roles) for dim in row} for roles in ("q", "kv"))
    for row in joined.rows("weights", "scores"):
        pair = sorted(row[1:3], key=lambda dim: root(dim) not in keys) if len(row) == 5 else []
        group, each = pair or (0, 0)
        is_pair = root(group) in keys and root(each) in queries - keys and all(map(joined.is_open, pair))
        for one, other in (pair, pair[::-1]) if is_pair else ():
            if (root(one), root(other)) in neighbours and any((root(other), width) in neighbours for width in widths):
                yield group, each


def beside_heads(joined: Joined, row: Sequence[Dim]) -> Sequence[Dim]:
    """Of the dims of weights those that are no heads."""
    alone = only_open(joined, row)
    if len(row) == 4 and alone is not None:
        return [dim for dim in row if dim != alone]
    return [*row[-2:], *(row[:1] if len(row) == 4 else ())]


def only_open(joined: Joined, row: Sequence[Dim]) -> Dim | None:
    """The one dim without a letter; None if there are more."""
    unnamed = [dim for dim in row if joined.is_open(dim)]
    return unnamed[0] if len(unnamed) == 1 else None
