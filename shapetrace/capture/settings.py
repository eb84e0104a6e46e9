"""At which sizes a model is run again, so that each letter can be told from all others.

Input axes take primes. Of the model's own, C = H·D and H = G·r hold at the new sizes too, and a vocabulary only grows,
for the ids that the model was given stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MODEL_AXES", "input_settings", "model_settings"]

MODEL_AXES = "CHDGFV"

Settings = tuple[dict[str, int], dict[str, int]]
"""The sizes for two runs."""


def input_settings(sizes: Mapping[str, int]) -> Iterator[Settings]:
    """Other sizes for the axes of the input: the first that the model runs with will do.

    First primes; then smaller ones, for a model with no room for more; then multiples, for one that works in chunks.
    """
    if not sizes:
        yield {}, {}
        return
    first, second = distinct(sizes, (3, 7, 11, 13, 17, 19, 23)), distinct(sizes, (5, 11, 7, 19, 13, 23, 17))
    yield first, second
    if any(size > 3 for size in sizes.values()):
        yield (
            {letter: size - 1 if size > 3 else first[letter] for letter, size in sizes.items()},
            {letter: size - 2 if size > 3 else second[letter] for letter, size in sizes.items()},
        )
    yield multiplied(sizes, (2, 3, 5, 7)), multiplied(sizes, (3, 2, 7, 5))


def multiplied(sizes: Mapping[str, int], factors: Sequence[int]) -> dict[str, int]:
    return {letter: size * factors[place % len(factors)] for place, (letter, size) in enumerate(sizes.items())}


def distinct(sizes: Mapping[str, int], primes: Sequence[int]) -> dict[str, int]:
    """A prime for each letter, none of which is any letter's size now."""
    free = [prime for prime in primes if prime not in sizes.values()]
    return {letter: free[place % len(free)] for place, letter in enumerate(sizes)}


def model_settings(sizes: Mapping[str, int]) -> Iterator[Settings]:
    """Other sizes for the model's own axes: first such as share few factors, then multiples of what they are."""
    if not sizes:
        yield {}, {}
        return
    yield primes(sizes, 5, 2, 2 * 19, 2 * 23, 30), primes(sizes, 3, 3, 2 * 13, 2 * 29, 60)
    yield multiples(sizes, 2, 3, 32), multiples(sizes, 3, 2, 64)


def primes(sizes: Mapping[str, int], heads: int, repeats: int, width: int, hidden: int, more: int) -> dict[str, int]:
    """`heads` key and value heads, each for `repeats` query heads if there are fewer of them now, of `width`."""
    grouped = sizes.get("G", 0) < sizes.get("H", 0)
    H = heads * repeats if "G" in sizes and grouped else heads
    is_split = sizes.get("C", 0) == sizes.get("H", 0) * sizes.get("D", 0)
    C = H * (width if is_split else width - 4)
    wanted = {"C": C, "H": H, "D": width, "G": heads, "F": hidden, "V": next_prime(sizes.get("V", 0) + more)}
    return {letter: wanted[letter] for letter in MODEL_AXES if letter in sizes}


def multiples(sizes: Mapping[str, int], widths: int, hidden: int, more: int) -> dict[str, int]:
    wanted = {letter: size * widths for letter, size in sizes.items() if letter in "CD"}
    wanted |= {"F": sizes.get("F", 0) * hidden, "V": sizes.get("V", 0) + more}
    return {letter: wanted[letter] for letter in "CDFV" if letter in sizes}


def next_prime(number: int) -> int:
    while any(number % factor == 0 for factor in range(2, int(number**0.5) + 1)):
        number += 1
    return number
