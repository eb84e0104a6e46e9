"""Which dims are what because it is declared: by a user the size of a letter, by the author of a model the names of the
dims that it is given. Where nothing else tells, a dim has the letter of its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .dims import Dim
from .joined import INPUTS, Joined, Row
from .words import Words

__all__ = ["Written", "of_author", "sized"]

Written = Mapping[str, Sequence[str | None]]
"""Key of an input of the model, or of what it returns -> the name of each of its dims; None where it has none."""


def of_author(joined: Joined, words: Words, given: Mapping[str, Row], written: Written) -> dict[Dim, str]:
    """The roots of dims that have one name by what their author has written of the dims of `given`."""
    found: dict[Dim, set[str]] = {}
    for key, names in written.items():
        row = given.get(key, ())
        for dim, name in zip(row, names, strict=True) if len(row) == len(names) else ():
            if name is not None and joined.is_open(dim) and words.sizes.get(name, joined.size(dim)) == joined.size(dim):
                found.setdefault(joined.dims.root(dim), set()).add(name)
    return {root: names.pop() for root, names in found.items() if len(names) == 1}


def sized(
    joined: Joined, words: Words, given: Iterable[Row], declared: Mapping[str, int], told: Collection[str]
) -> dict[Dim, str]:
    """The roots of dims that have a letter only so.

    given   the dims of what the model is given
    told    letters that the axes of the trace have already
    """
    known = {letter: size for letter, size in words.sizes.items() if letter not in INPUTS or letter not in told}
    own = of_size({letter: size for letter, size in declared.items() if letter not in INPUTS}, known)
    found = {root: own[joined.size(root)] for root in unnamed(joined, words) if joined.size(root) in own}
    of_input = of_size({letter: size for letter, size in declared.items() if letter in INPUTS - set(told)}, declared)
    for row in given:
        sizes = [joined.size(dim) for dim in row]
        for dim, size in zip(row, sizes, strict=True):
            if size in of_input and sizes.count(size) == 1 and joined.is_open(dim):
                found[joined.dims.root(dim)] = of_input[size]
    return found | of_heads(joined, words, found)


def of_size(declared: Mapping[str, int], known: Mapping[str, int]) -> dict[int, str]:
    """Of a size that only one known letter has, that letter, if it was declared."""
    count = Counter(known.values())
    own = {letter: size for letter, size in declared.items() if known.get(letter) == size}
    return {size: letter for letter, size in own.items() if count[size] == 1 and size > 1}


def unnamed(joined: Joined, words: Words) -> Iterator[Dim]:
    dims = joined.dims
    for root in set(map(dims.root, range(len(dims.parents)))):
        if joined.is_open(root) and root not in words.counted and words.of(root) is None:
            yield root


def of_heads(joined: Joined, words: Words, found: Mapping[Dim, str]) -> dict[Dim, str]:
    """Where C is cut in two, one of which is heads or their width, the other is the other."""
    letters = {**words.letters, **found}
    pairs = [parts for whole, letter in letters.items() if letter == "C" for parts in joined.cuts.get(whole, ())]
    more: dict[Dim, str] = {}
    for heads, width in (parts for parts in pairs if len(parts) == 2):
        for one, letter, other, its in ((heads, "H", width, "D"), (width, "D", heads, "H")):
            size = joined.size(other)
            is_free = other not in letters and joined.is_open(other) and words.sizes.get(its, size) == size
            if letters.get(one) == letter and is_free:
                more[other] = its
    return more
