"""What dims are called: a letter, or what they are the product or the sum of: 3·C, B·H, D/2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..formulas import bracketed, in_formula
from .anchors import SHARING
from .dims import Dim, Dims
from .joined import Joined

__all__ = ["Words"]

MOST_COUNTED = 3
"""Parts that a dim is made of in code: queries, keys and values; a gate and what goes through it."""


class Word(NamedTuple):
    """A number times letters, over another number."""

    factor: int
    letters: tuple[str, ...]
    divisor: int = 1

    def __str__(self) -> str:
        times = [str(self.factor)] if self.factor != 1 else []
        is_alone = self.factor == self.divisor == len(self.letters) == 1
        letters = self.letters if is_alone else map(bracketed, self.letters)
        return "·".join([*times, *letters]) + (f"/{self.divisor}" if self.divisor != 1 else "")


class Words:
    """
    letters   the root of a dim -> its letter
    sizes     the size of each letter
    """

    def __init__(self, joined: Joined, letters: Mapping[Dim, str], sizes: Mapping[str, int]) -> None:
        self.dims: Dims = joined.dims
        self.letters = letters
        self.sizes = sizes
        self.cuts = joined.cuts
        self.counted = {self.dims.root(dim) for dim in self.dims.counted}
        self.sums: dict[Dim, list[list[Dim]]] = {}
        for whole, parts in self.dims.sums:
            self.sums.setdefault(self.dims.root(whole), []).append(list(map(self.dims.root, parts)))
        self.is_split = self.splits_width()
        self.known: dict[Dim, Word | None] = {}
        self.texts: dict[Dim, str | None] = {}
        self.pieces = self.fractions()

    def splits_width(self) -> bool:
        """Whether heads are made of what is as wide as the model; else H·D may be C by chance."""
        root = self.dims.root
        made = [
            root(new)
            for old, new in self.dims.projected
            if self.letters.get(root(old), self.dims.axes[root(old)]) == "C"
        ]
        seen = set(made)
        for dim in made:  # it grows
            parts = {part for row in (*self.cuts.get(dim, ()), *self.sums.get(dim, ())) for part in row} - seen
            seen |= parts
            made.extend(parts)
        return any(self.letters.get(dim) in ("H", "D", "G") for dim in seen)

    def of(self, dim: Dim) -> str | None:
        root = self.dims.root(dim)
        if root not in self.texts:
            found = self.word(root)
            self.texts[root] = None if found is None else str(found)
        return self.texts[root]

    def word(self, root: Dim) -> Word | None:
        if root not in self.known:
            self.known[root] = None  # as long as it is looked for: it may be made of itself
            self.known[root] = self.told(root)
        return self.known[root]

    def told(self, root: Dim) -> Word | None:
        if root in self.letters:
            return Word(1, (self.letters[root],))
        axis = self.dims.axes[root]
        if isinstance(axis, str):
            factor, letters = self.dims.extent(axis)
            if factor == 1:
                return Word(1, letters)
        found = {self.times(parts) for parts in self.cuts.get(root, ())}
        found |= {self.plus(parts) for parts in self.sums.get(root, ())}
        found |= {self.pieces.get(root)}
        found -= {None}
        return found.pop() if len(found) == 1 else None

    def times(self, parts: Iterable[Dim]) -> Word | None:
        factor = 1
        letters: list[str] = []
        for part in parts:
            word = self.word(part)
            if word is not None and word.divisor == 1:
                factor *= word.factor
                letters.extend(word.letters)
            elif word is None and part in self.counted and self.dims.sizes[part] <= MOST_COUNTED:
                factor *= self.dims.sizes[part]
            else:
                return None
        return self.plain(factor, letters)

    def plus(self, parts: list[Dim]) -> Word | None:
        """Of parts that are so many times the same letters: C and 2·C are 3·C."""
        words = [word for word in map(self.word, parts) if word is not None and word.divisor == 1]
        letters = {word.letters for word in words}
        if len(words) < len(parts) or len(letters) != 1:
            return None
        return self.plain(sum(word.factor for word in words), list(letters.pop()))

    def plain(self, factor: int, letters: list[str]) -> Word | None:
        """With H for G·H/G, and C for H·D where that is so; nothing where a number of D may be that of the heads."""
        sizes = self.sizes
        if {"G", SHARING} <= set(letters):
            letters.remove("G")
            letters[letters.index(SHARING)] = "H"
        if factor > 1 and "D" in letters and "H" not in letters and factor % sizes.get("H", 1) == 0:
            return None
        if {"H", "D"} <= set(letters) and sizes["H"] * sizes["D"] == sizes.get("C") and self.is_split:
            letters.remove("H")
            letters.remove("D")
            letters.append("C")
        return Word(factor, tuple(sorted(letters, key=in_formula))) if letters else None

    def fractions(self) -> dict[Dim, Word]:
        """A part of a letter that is always of the same share: halves of D. Heads are shared out as G says."""
        found: dict[Dim, Word] = {}
        for root, letter in self.letters.items():
            if letter == "H":
                continue
            ways = [(parts[0], len(parts)) for parts in self.sums.get(root, ()) if len(set(parts)) == 1]
            for parts in self.cuts.get(root, ()):
                for one, other in (parts, parts[::-1]) if len(parts) == 2 else ():
                    if one in self.counted and one not in self.letters:
                        ways.append((other, self.dims.sizes[one]))
            for part, count in ways:
                if 1 < count <= MOST_COUNTED:
                    found[part] = Word(1, (letter,), count)
        return found
