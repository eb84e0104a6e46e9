"""Which block of a list is which, where they are alike but for their sizes: equal sizes elsewhere tell.

A block that is put in between, or that stands elsewhere, does not make those after it other ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from .items import Item, Place, Side

__all__ = ["are_exchanged", "contents", "told"]


def contents(items: Sequence[Item], side: Side) -> dict[Place, Hashable]:
    """Of the blocks of a list, if there are several, what is in them to the size."""
    blocks = [item for item in items if item.is_block and not item.is_shell]
    return {item.place: (item.structure, side.content(item.place.at)) for item in blocks} if len(blocks) > 1 else {}


def told(
    item: Item, blocks: Mapping[Place, Hashable], own: Counter[Hashable], others: Counter[Hashable]
) -> tuple[Hashable, bool]:
    """What is in a block, and whether all with that have a like on the other side."""
    content = blocks.get(item.place)
    return content, content is not None and own[content] <= others[content]


def are_exchanged(before: Side, ours: Sequence[Item], after: Side, theirs: Sequence[Item]) -> bool:
    """Whether blocks of one form are of other sizes in one place, of which some may stand elsewhere."""
    own, others = (list(contents(items, side).values()) for items, side in ((ours, before), (theirs, after)))
    return own != others and len(set(own)) > 1
