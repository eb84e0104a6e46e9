"""What goes into a model: tokens looked up in a table, positions added to them, rotations of queries and keys."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from ..plumbing import is_float
from .attention import Attention
from .counting import counts_on, is_counted, is_varied, numbers
from .elements import Elements
from .flow import Flow, Node
from .forms import base, trail
from .functions import CASTS, DROPOUTS, JOINS, LAYOUTS, LOOKUPS, PARTS, PICKS, SHAPING, SUMS, TIMES, WAVES

__all__ = ["is_beside", "is_token_lookup", "positions", "rotations", "rows", "tokens"]

NEAR = 24


def is_lookup(node: Node) -> bool:
    return node.name in LOOKUPS and len(node.inputs) >= 2 and is_float(node.meta) and len(node.inputs[1].shape) == 2


def is_token_lookup(node: Node) -> bool:
    """By whole numbers that the model was given, and did not count itself."""
    return is_lookup(node) and node.inputs[0].is_data and not is_counted(node.inputs[0])


def tokens(flow: Flow, elements: Elements) -> list[Node]:
    """Embeddings of tokens: of several that are added up (tokens, and their types) that of the longest table, but for
    one by positions that the model was given."""
    found = [node for node in flow.nodes if is_token_lookup(node)]
    sums = {node.at: {total.at for total in sums_after(node)} for node in found}

    def is_first(node: Node) -> bool:
        others = [other for other in found if other is not node and sums[other.at] & sums[node.at]]
        return all(is_rather(node, other, elements) for other in others)

    return [node for node in found if len(node.shape) >= 2 and is_first(node)]


def is_rather(one: Node, other: Node, elements: Elements) -> bool:
    """Whether of two lookups that are added up the first is that of tokens."""
    of_one, of_other = (numbers(node.inputs[0], elements) for node in (one, other))
    if is_varied(of_one) and is_varied(of_other) and counts_on(of_one) is not counts_on(of_other):
        return counts_on(of_other)
    return rows(other) < rows(one)


def rows(lookup: Node) -> int:
    return lookup.inputs[1].shape[0]


def sums_after(node: Node) -> list[Node]:
    """The sums that an embedding goes into, up to the norm or the first block."""
    found: list[Node] = []
    seen = {node.at}
    queue = [node]
    for one in queue:
        for user in one.users:
            if user.at in seen or len(seen) > NEAR or len(found) > 4:
                continue
            if user.name in SUMS and user.shape[-1:] == node.shape[-1:]:
                found.append(user)
            elif user.name not in LAYOUTS | CASTS | DROPOUTS | TIMES:
                continue
            seen.add(user.at)
            queue.append(user)
    return found


def positions(embedded: Iterable[Node], starts: Iterable[Node], elements: Elements) -> list[Node]:
    """What is added to embeddings of tokens, or else to what the stream begins with, and comes from positions alone.

    starts   the first values of the stream
    """
    found: dict[int, Node] = {}
    for node in embedded:
        for total in sums_after(node):
            for given in map(base, total.inputs):
                if given is not node and (is_learned(given, elements) or is_computed(given)):
                    found[given.at] = given
            found |= placed(total)
    for total in sums_before(starts):
        found |= placed(total)
    return list(found.values())


def placed(total: Node) -> dict[int, Node]:
    """What of a sum is a row for each place: the part of a table rather than the table."""
    found: dict[int, Node] = {}
    for given in total.inputs:
        if is_placed(given, total) and not is_lookup(base(given)):
            while given.name in LAYOUTS | CASTS and given.inputs[0].index >= 0:
                given = given.inputs[0]
            found[given.at] = given
    return found


def is_beside(lookup: Node, starts: Collection[Node]) -> bool:
    """Whether it is a row for each of a batch of sequences that the stream does not begin with: a class is no token."""
    are_longer = bool(starts) and all(len(start.shape) > len(lookup.shape) for start in starts)
    return len(lookup.shape) == 2 and are_longer and lookup not in before(starts)


def sums_before(starts: Iterable[Node]) -> list[Node]:
    """The sums that the stream begins with."""
    return [node for node in before(starts) if node.name in SUMS]


def before(starts: Iterable[Node]) -> list[Node]:
    """What the stream begins with is made of, back to the last projection."""
    queue = list(starts)
    seen = {node.at for node in queue}
    for one in queue:
        made_of: tuple[Node, ...] = ()
        if one.norm_of is not None:
            made_of = (one.norm_of,)
        elif one.name in LAYOUTS | CASTS | DROPOUTS | TIMES | SUMS | JOINS:
            made_of = one.inputs
        for given in made_of:
            if given.is_data and given.at not in seen and len(seen) < NEAR:
                seen.add(given.at)
                queue.append(given)
    return queue


def is_placed(given: Node, total: Node) -> bool:
    """Whether it is a row for each place: a table of them, or a part of one, that depends on nothing the model is given
    and is added to each of the batch, [T, C], [1, T, C], or [T, 1, C]. A bias has one row for all."""
    rank = len(given.shape)
    if given.is_data or not is_float(given.meta) or not 2 <= rank <= len(total.shape) or given.shape[-1] == 1:
        return False
    if given.shape[-1] != total.shape[-1] or trail(given)[-1].name.startswith(("rand", "normal")):  # noise
        return False
    own, others = given.shape[:-1], total.shape[len(total.shape) - rank : -1]
    long = [place for place, size in enumerate(own) if size > 1]
    if not long:  # of one token: a row that was cut from a table
        return own[-1:] == others[-1:] and is_row_of_many(given)
    is_of_all = rank == len(total.shape) and long[0] == 0 and len(long) > 1  # of the batch, too
    return not is_of_all and all(own[place] == others[place] for place in long)


def is_row_of_many(node: Node) -> bool:
    """Whether more rows of the same table are held."""
    while node.inputs and node.name in PARTS | SHAPING:
        before = node.inputs[0]
        is_cut = node.name in PARTS and math.prod(before.shape) > math.prod(node.shape)
        if is_cut and before.shape[-1:] == node.shape[-1:]:
            return True
        node = before
    return False


def is_learned(node: Node, elements: Elements) -> bool:
    """Looked up by positions: counted, or in a buffer that counts no farther than the table is long."""
    if not is_lookup(node):
        return False
    ids = node.inputs[0]
    if is_counted(ids) or (is_token_lookup(node) and counts_on(numbers(ids, elements))):
        return True
    while ids.inputs and (ids.name in SHAPING or ids.name in PARTS):
        ids = ids.inputs[0]
    return ids.is_weight and 2 < math.prod(ids.shape) <= rows(node)


def is_computed(node: Node) -> bool:
    """Sines and cosines, or rows of a table of them that were picked by positions."""
    if not is_float(node.meta) or is_lookup(node):
        return False
    if node.is_rotation:
        return True
    while not node.is_data and node.inputs and node.name in SHAPING | PARTS | TIMES:
        if node.name in PICKS and any(is_counted(given) for given in node.inputs[1:]):
            return True
        node = node.inputs[0]
    return False


def rotations(found: Iterable[Attention]) -> list[Node]:
    """The tables of sines and cosines that queries and keys are multiplied with."""
    tables: dict[int, Node] = {}
    for one in found:
        for node in one.sources.between.values():
            for given in node.inputs if node.name in TIMES else ():
                if given.is_rotation and given.at not in one.sources.between:
                    table = whole_table(given)
                    if table is not None:
                        tables[table.at] = table
    return [tables[at] for at in sorted(tables)]


def whole_table(node: Node) -> Node | None:
    """The table it is a part of: the last form of the shape that the sines had, scaled and cast."""
    steps = [node]
    while node.name not in WAVES:
        before = [given for given in node.inputs if given.is_rotation]
        if len(before) != 1 or len(steps) > 16:
            return None
        node = before[0]
        steps.append(node)
    found = node
    for step in reversed(steps[:-1]):
        if step.name not in CASTS | TIMES or step.shape != node.shape:
            break
        found = step
    return found
