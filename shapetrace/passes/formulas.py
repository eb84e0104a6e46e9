"""What a size is made of, read from how it changed: 14 where B=2 and T=7, 33 where B=3 and T=11, is B·T.

A formula is a product of letters, with a whole factor or divisor, or a letter plus or minus a number, a sum of two, or
a product of such a sum with another letter, or what a part leaves of a whole, or how many chunks there are of a length:

    B    B·H    3·C    D/2    T-1    P+T    2·T-1    B·(T-1)    H·(U+R)    D-R    H/G    h·d+2·g·N    T+w-1    ⌈T/c⌉

Of all that fit every run the simplest is taken, and none where two are equally simple: a wrong letter is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import ceil
from operator import mul

from ..letters import PART_AXES, STATE_AXES, is_of_input

__all__ = ["Formulas", "bracketed", "evaluate", "in_formula"]

Sizes = tuple[int, ...]
"""Of one dim, or of one letter, in each of the runs."""

FIRST = "BPSTEKGHghiUZDdkjRCFVJQMANwc"
"""In which order letters stand in a formula: P+T, B·H, H·D."""

JOINED = frozenset({"hd", "gd", "gk", "hk", "hN", "gN", "ij"})
"""Of letters that only some models have those that stand in one product: heads, and what each has."""

WINDOW = "w"
"""What is put before a length to go over it with a window is one less than that."""

CHUNK = "c"
"""A length is filled up to whole chunks."""

MOST_FACTORS = 4
LARGEST_FACTOR, LARGEST_SHARE, LARGE = 8, 4, 16
LARGEST_OFFSET, LARGEST_PREFIX = 8, 4096
"""Beyond these a formula that fits does so by chance; a prefix is what stands before one length, as an image does. Of
what is large now, an eighth is none by chance."""


class Formulas:
    """The formulas of sizes over `letters`, each of which is given with its sizes in the runs."""

    def __init__(self, letters: Mapping[str, Sizes]) -> None:
        changing = [letter for letter, sizes in letters.items() if len(set(sizes)) > 1]
        self.letters = {letter: letters[letter] for letter in sorted(changing, key=in_formula)}
        self.own = {letter: sizes for letter, sizes in self.letters.items() if not is_of_input(letter)}
        self.levels: list[list[Product]] = []
        self.found: dict[Sizes, str | None] = {}

    def of(self, sizes: Sizes) -> str | None:
        """The formula that gives these sizes; None if none does, or two do that are equally simple."""
        if sizes not in self.found:
            self.found[sizes] = self.simplest(sizes)
        return self.found[sizes]

    def simplest(self, sizes: Sizes) -> str | None:
        if len(set(sizes)) == 1 or 0 in sizes:
            return None
        fitting: dict[str, int] = {}
        for least in range(1, MOST_FACTORS + 1):
            fitting |= {word: cost for cost, word in self.fitting(sizes, least)}
            if fitting and min(fitting.values()) <= least:
                break  # what follows is less simple
        best = [word for word, cost in fitting.items() if cost == min(fitting.values())]
        return best[0] if len(best) == 1 else None

    def fitting(self, sizes: Sizes, least: int) -> Iterator[tuple[int, str]]:
        """Of a kind of which the simplest cost `least` those that fit: what each costs, and the formula."""
        for letters, values in self.products(least):
            ratio = constant_ratio(sizes, values)
            if ratio is not None and is_likely(letters, ratio, sizes[0]):
                yield least + (ratio != 1) + (ratio.denominator != 1 != ratio.numerator), scaled(word(letters), ratio)
        if least == 2:
            yield from self.sums(sizes)
        if least == 3:
            yield from self.remainders(sizes)
            yield from self.chunks(sizes)
        if least == 4:
            yield from self.beside(sizes)
        for letter, values in self.letters.items() if least == 4 else ():
            if all(size % value == 0 for size, value in zip(sizes, values, strict=True)):
                rest = tuple(size // value for size, value in zip(sizes, values, strict=True))
                yield from ((2 + cost, f"{letter}·({text})") for cost, text in self.sums(rest))
                yield from ((1 + cost, f"{letter}·{bracketed(text)}") for cost, text in self.chunks(rest))

    def products(self, count: int) -> list[Product]:
        """Each product of so many letters. Of those that only some models have there may be one, or two of a kind."""
        while len(self.levels) < count:
            self.levels.append(list(self.longer(self.levels[-1] if self.levels else [((), ())])))
        return self.levels[count - 1]

    def longer(self, shorter: list[Product]) -> Iterator[Product]:
        names = list(self.letters)
        for letters, values in shorter:
            has = "".join(letter for letter in letters if letter in PART_AXES)
            for letter in names[names.index(letters[-1]) :] if letters else names:
                if not has or letter not in PART_AXES or has + letter in JOINED:
                    its = self.letters[letter]
                    yield (*letters, letter), tuple(map(mul, values, its)) if letters else its

    def sums(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """A length, or twice one, and a number; and two letters, if they are lengths with a number, too.

        The model's own axes go with no number: what is H+4 of 8 heads and 2 for keys and values is H+2·G. Those of a
        state space are no part of a sum, but for a window that goes over a length.
        """
        lengths = [letter for letter in self.letters if letter not in self.own]
        for letter in lengths:
            values = self.letters[letter]
            for factor in (1, 2):
                offset = constant_difference(sizes, [factor * value for value in values])
                if offset and (abs(offset) <= LARGEST_OFFSET or (factor == 1 and 0 < offset <= LARGEST_PREFIX)):
                    yield factor + 1, f"{scaled(letter, Fraction(factor))}{offset:+d}"
        for (one, first), (other, second) in combinations(self.letters.items(), 2):
            offset = sizes[0] - first[0] - second[0]
            if {one, other} & {*STATE_AXES}:
                is_allowed = other == WINDOW and one in lengths and offset == -1
            else:
                is_allowed = not offset or (abs(offset) <= LARGEST_OFFSET and {one, other} <= set(lengths))
            if is_allowed and all(size - a - b == offset for size, a, b in zip(sizes, first, second, strict=True)):
                yield 2 + bool(offset), f"{one}+{other}" + (f"{offset:+d}" if offset else "")

    def remainders(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """What a part leaves of another axis, D-R; and how often one goes into another, H/G."""
        for (one, first), (other, second) in permutations(self.own.items(), 2):
            is_part = other in PART_AXES and not {one, other} & {*STATE_AXES}
            if is_part and all(size + b == a for size, a, b in zip(sizes, first, second, strict=True)):
                yield 3, f"{one}-{other}"
            elif all(size * b == a for size, a, b in zip(sizes, first, second, strict=True)):
                yield 3, f"{one}/{other}"

    def chunks(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """How many chunks there are of a length, the last of which may be filled up; and that and one more."""
        chunk = self.own.get(CHUNK, ())
        for letter, values in self.letters.items() if chunk else ():
            counts = [-(-length // each) for length, each in zip(values, chunk, strict=True)]
            more = constant_difference(sizes, counts)
            if letter not in self.own and more in (0, 1):
                yield 3 + more, f"⌈{letter}/{CHUNK}⌉" + "+1" * more

    def beside(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """What queries, keys and values, or a gate and what it lets through, take side by side: C+2·G·D."""
        widths = self.own.keys() - {WINDOW, CHUNK}
        wide = [each for count in (1, 2) for each in self.products(count) if widths.issuperset(each[0])]
        whole = {values: letters for letters, values in reversed(wide)}
        for letters, values in wide:
            rest = tuple(size - 2 * value for size, value in zip(sizes, values, strict=True))
            if rest in whole and whole[rest] != letters:
                yield 3 + len(letters) + len(whole[rest]), f"{word(whole[rest])}+2·{word(letters)}"


Product = tuple[tuple[str, ...], Sizes]
"""Letters, and the sizes of what they are multiplied."""


def is_likely(letters: tuple[str, ...], ratio: Fraction, size: int) -> bool:
    """Whether a ratio is none that fits by chance. Of heads there are no shares: what is H/2 may be H/G; and nothing is
    a few times as long as a window."""
    if WINDOW in letters and ratio != 1:
        return False
    if ratio.numerator > LARGEST_FACTOR or ratio.denominator > (LARGEST_SHARE if size < LARGE else LARGEST_FACTOR):
        return False
    return ratio.denominator == 1 or not {"H", "h"} & {*letters}


def word(letters: tuple[str, ...]) -> str:
    return "·".join(letters)


def bracketed(axis: str) -> str:
    """An axis as a factor: twice T+1 is 2·(T+1)."""
    return f"({axis})" if "(" not in axis and any(sign in axis for sign in "+-") else axis


def in_formula(letter: str) -> tuple[int, str]:
    """Heads come before their width, as in H·D."""
    place = FIRST.find(letter)
    return place if place >= 0 else len(FIRST), letter


def constant_ratio(sizes: Sizes, values: Sizes) -> Fraction | None:
    size, value = sizes[0], values[0]
    for other, divisor in zip(sizes, values, strict=True):
        if other * value != size * divisor:
            return None
    return Fraction(size, value)


def constant_difference(sizes: Sizes, values: Sequence[int]) -> int | None:
    difference = sizes[0] - values[0]
    return difference if all(size - value == difference for size, value in zip(sizes, values, strict=True)) else None


def scaled(word: str, factor: Fraction) -> str:
    times = f"{factor.numerator}·" if factor.numerator != 1 else ""
    by = f"/{factor.denominator}" if factor.denominator != 1 else ""
    return f"{times}{word}{by}"


TOKEN = re.compile(r"\d+|[^\W\d]\w*|\?\d+|[·/+()⌈⌉-]")

LONGEST = 64
"""Words in a formula: a file may say anything."""


def evaluate(axis: str | int, sizes: Mapping[str, int]) -> int | None:
    """The size of an axis where letters have these sizes; None if a letter has none there, or it is no whole number."""
    if isinstance(axis, int):
        return axis
    words = TOKEN.findall(axis)
    if "".join(words) != axis or len(words) > LONGEST:
        return None
    try:
        value = total(words, sizes)
    except (LookupError, ArithmeticError, ValueError):
        return None
    return int(value) if value.denominator == 1 and not words else None


def total(words: list[str], sizes: Mapping[str, int]) -> Fraction:
    """The value of the words up to where they end or a bracket closes; it takes them away. Raises if they say none."""
    value = term(words, sizes)
    while words and words[0] in "+-":
        sign = 1 if words.pop(0) == "+" else -1
        value += sign * term(words, sizes)
    return value


def term(words: list[str], sizes: Mapping[str, int]) -> Fraction:
    value = factor(words, sizes)
    while words and words[0] in "·/":
        value = value * factor(words, sizes) if words.pop(0) == "·" else value / factor(words, sizes)
    return value


def factor(words: list[str], sizes: Mapping[str, int]) -> Fraction:
    word = words.pop(0)
    if word not in CLOSED:
        return Fraction(int(word) if word.isdecimal() else sizes[word])
    value = total(words, sizes)
    if words.pop(0) != CLOSED[word]:
        raise ValueError("a bracket does not close")
    return value if word == "(" else Fraction(ceil(value))


CLOSED = {"(": ")", "⌈": "⌉"}
