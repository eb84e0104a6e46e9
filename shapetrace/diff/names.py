"""What names of modules say of each other by their words: `up_proj` is `up`, and no `gate_proj`."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["is_short_for", "starts", "told_apart", "words"]

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def told_apart(names: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """Of each the words that not all have; of wq, wk and wv the letters."""
    shared = frozenset.intersection(*map(frozenset, names))
    own = [frozenset(each) - shared for each in names]
    if all(len(each) == 1 for each in own):
        alone = [next(iter(each)) for each in own]
        sizes = {len(word) for word in alone}
        varied = [at for at, letters in enumerate(zip(*alone, strict=False)) if len(set(letters)) > 1]
        if len(sizes) == len(varied) == 1:
            return [frozenset({word[varied[0]]}) for word in alone]
    return own


def is_short_for(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether each word of one begins one of the other, or the other way round, and they have as many."""
    ways = (one, other), (other, one)
    is_each = all(any(starts(word, its) for its in theirs) for ours, theirs in ways for word in ours)
    return len(one) == len(other) > 0 and is_each


def starts(word: str, other: str) -> bool:
    """Whether one begins with the other. Of numbers that says nothing."""
    return not (word.isdigit() or other.isdigit()) and (word.startswith(other) or other.startswith(word))
