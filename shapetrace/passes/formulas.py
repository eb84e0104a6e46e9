"""What a size is made of, read from how it changed: 14 where B=2 and T=7, 33 where B=3 and T=11, is B·T.

A formula is a product of letters, with a whole factor or divisor, or a letter plus or minus a number, a sum of two, or
a product of such a sum with another letter:

    B    B·H    3·C    D/2    T-1    P+T    2·T-1    B·(T-1)

Of all that fit every run the simplest is taken, and none where two are equally simple: a wrong letter is worse than
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import prod

from ..letters import MODEL_AXES

__all__ = ["Formulas", "evaluate"]

Sizes = tuple[int, ...]
"""Of one dim, or of one letter, in each of the runs."""

FIRST = "BPSTGHDCFV"
"""In which order letters stand in a formula: P+T, B·H, H·D."""

MOST_FACTORS = 4
LARGEST_FACTOR = 8
LARGEST_OFFSET = 8
"""Beyond these a formula that fits does so by chance."""


class Formulas:
    """The formulas of sizes over `letters`, each of which is given with its sizes in the runs."""

    def __init__(self, letters: Mapping[str, Sizes]) -> None:
        changing = [letter for letter, sizes in letters.items() if len(set(sizes)) > 1]
        self.letters = {letter: letters[letter] for letter in sorted(changing, key=in_formula)}
        self.products = [list(products(self.letters, count)) for count in range(1, MOST_FACTORS + 1)]
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
        for word, values in self.products[least - 1]:
            ratio = constant_ratio(sizes, values)
            if ratio is not None and max(ratio.numerator, ratio.denominator) <= LARGEST_FACTOR:
                yield least + (ratio != 1) + (ratio.denominator != 1 != ratio.numerator), scaled(word, ratio)
        if least == 2:
            yield from self.sums(sizes)
        if least == 4:
            yield from self.beside(sizes)
        for letter, values in self.letters.items() if least == 4 else ():
            if all(size % value == 0 for size, value in zip(sizes, values, strict=True)):
                rest = tuple(size // value for size, value in zip(sizes, values, strict=True))
                yield from ((2 + cost, f"{letter}·({word})") for cost, word in self.sums(rest))

    def sums(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """A length, or twice one, and a number; and two letters, if they are lengths with a number, too.

        The model's own axes go with no number: what is H+4 of 8 heads and 2 for keys and values is H+2·G.
        """
        lengths = [letter for letter in self.letters if letter not in MODEL_AXES]
        for letter in lengths:
            values = self.letters[letter]
            for factor in (1, 2):
                offset = constant_difference(sizes, [factor * value for value in values])
                if offset:
                    yield factor + 1, f"{scaled(letter, Fraction(factor))}{offset:+d}"
        for (one, first), (other, second) in combinations(self.letters.items(), 2):
            offset = constant_difference(sizes, [sum(pair) for pair in zip(first, second, strict=True)])
            if offset is not None and (not offset or {one, other} <= set(lengths)):
                yield 2 + bool(offset), f"{one}+{other}" + (f"{offset:+d}" if offset else "")

    def beside(self, sizes: Sizes) -> Iterator[tuple[int, str]]:
        """What queries, keys and values, or a gate and what it lets through, take side by side: C+2·G·D."""
        own = {letter: values for letter, values in self.letters.items() if letter in MODEL_AXES}
        wide = [each for count in (1, 2) for each in products(own, count)]
        whole = {values: word for word, values in reversed(wide)}
        for word, values in wide:
            rest = tuple(size - 2 * value for size, value in zip(sizes, values, strict=True))
            if rest in whole and whole[rest] != word:
                yield 5 + word.count("·") + whole[rest].count("·"), f"{whole[rest]}+2·{word}"


def in_formula(letter: str) -> tuple[int, str]:
    """Heads come before their width, as in H·D."""
    place = FIRST.find(letter)
    return place if place >= 0 else len(FIRST), letter


def products(letters: Mapping[str, Sizes], count: int) -> Iterator[tuple[str, Sizes]]:
    """Each product of so many letters: as it is written, and its sizes."""
    for chosen in combinations_with_replacement(letters, count):
        yield "·".join(chosen), tuple(prod(each) for each in zip(*map(letters.__getitem__, chosen), strict=True))


def constant_ratio(sizes: Sizes, values: Sizes) -> Fraction | None:
    size, value = sizes[0], values[0]
    for other, divisor in zip(sizes, values, strict=True):
        if other * value != size * divisor:
            return None
    return Fraction(size, value)


def constant_difference(sizes: Sizes, values: Sequence[int]) -> int | None:
    difference = sizes[0] - values[0]
    if abs(difference) > LARGEST_OFFSET:
        return None
    return difference if all(size - value == difference for size, value in zip(sizes, values, strict=True)) else None


def scaled(word: str, factor: Fraction) -> str:
    times = f"{factor.numerator}·" if factor.numerator != 1 else ""
    by = f"/{factor.denominator}" if factor.denominator != 1 else ""
    return f"{times}{word}{by}"


TOKEN = re.compile(r"\d+|[^\W\d]\w*|\?\d+|[·/+()-]")

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
    if word != "(":
        return Fraction(int(word) if word.isdecimal() else sizes[word])
    value = total(words, sizes)
    if words.pop(0) != ")":
        raise ValueError("a bracket does not close")
    return value
