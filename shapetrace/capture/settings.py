"""At which sizes a model is run again, so that each letter can be told from all others.

Input axes take primes. Of the model's own, C = H·D and H = G·r hold at the new sizes too, and a vocabulary only grows,
for the ids that the model was given stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

from ..letters import MODEL_AXES, is_of_input
from ..passes.formulas import Formulas

__all__ = ["NOTHING", "Settings", "Table", "are_apart", "input_settings", "model_settings"]

Settings = tuple[dict[str, int], dict[str, int], dict[str, int]]
"""The sizes for two runs, and for a third that confirms what these tell."""

NOTHING: Settings = ({}, {}, {})

PRIMES = sorted(permutations((3, 5, 7, 11, 13, 17, 19, 23, 29, 31), 3), key=lambda sizes: (max(sizes), sum(sizes)))
PRIMES = [(one, other, third + 1) for one, other, third in PRIMES]
"""Of one letter in three runs, the small ones first: they cost less, and a model may have no room for more. The third
is even: where a length is odd in each run, T+1 may be it rounded up, and one more."""

FACTORS = (2, 3, 5, 7), (3, 2, 7, 5), (4, 5, 3, 2)

Table = Mapping[str, tuple[int, ...]]
"""Letter -> its size now, and in the runs."""


def input_settings(sizes: Mapping[str, int], others: Table | None = None) -> Iterator[Settings]:
    """Other sizes for the axes of the input: the first that the model runs with will do. `others` change, too.

    First primes; then smaller ones, for a model with no room for more; then multiples, for one that works in chunks.
    """
    if not sizes:
        yield NOTHING
        return
    table = others or {}
    yield from first_apart(sizes, [primes(sizes, table)], table)
    if any(size > 3 for size in sizes.values()):
        yield from first_apart(sizes, (smaller(sizes, less, table) for less in permutations((1, 2, 3))), table)
    yield from first_apart(sizes, (multiples(sizes, turn) for turn in range(len(FACTORS[0]))), table)


def first_apart(sizes: Mapping[str, int], several: Iterable[Settings], others: Table) -> Iterator[Settings]:
    """The first of several settings in which each letter changes, and none is confused with another."""
    now, *runs = [{letter: its[run] for letter, its in others.items()} for run in range(4)]
    for settings in several:
        is_whole = all(len({run.get(letter) for run in settings[:2]} | {sizes[letter]}) == 3 for letter in sizes)
        one, other, third = ({**run, **own} for run, own in zip(runs, settings, strict=True))
        if is_whole and are_apart({**now, **sizes}, (one, other, third)):
            yield settings
            return


def are_apart(sizes: Mapping[str, int], settings: Settings) -> bool:
    """Whether no letter of the input has the size of another in one run, or is made of others in all of them.

    At T=5, 4, 3 and B=4, 3, 2 what is T-1 would be called B. Of the model's own, C is H·D on purpose.
    """
    letters = [letter for letter in sizes if all(letter in run for run in settings)]
    table = {letter: (sizes[letter], *(run[letter] for run in settings[:2])) for letter in letters}
    given = {letter: its for letter, its in table.items() if is_of_input(letter)}
    for letter, its in table.items():
        others = {other: its for other, its in (table if letter in given else given).items() if other != letter}
        if any(its[run] == other[run] for other in others.values() for run in (1, 2) if letter in given):
            return False
        if Formulas(others).of(its) is not None:
            return False
    return True


def is_apart(its: tuple[int, ...], table: Table) -> bool:
    """Whether the sizes of a letter are not those of one in the table, nor a multiple, nor more or less by some number;
    `are_apart` is sure of it, and slow."""
    now, first, second, third = its
    for there, its_first, its_second, its_third in table.values():
        if first == its_first or second == its_second or third == its_third:
            return False
        if now * its_first == first * there and now * its_second == second * there:
            return False
        for a, b in ((1, 1), (1, 2), (2, 1)):
            if a * now - b * there == a * first - b * its_first == a * second - b * its_second:
                return False
    return True


def of_each(sizes: Mapping[str, int], size: Callable[[int, str, int], int]) -> Settings:
    """`size` gives that of each letter in a run: it takes the number of the run, the letter, and the letter's place."""
    runs = [{letter: size(run, letter, place) for place, letter in enumerate(sizes)} for run in range(3)]
    return runs[0], runs[1], runs[2]


def primes(sizes: Mapping[str, int], others: Table) -> Settings:
    """Primes for each letter, none of which is any letter's size now; its size itself where there are none left."""
    table = dict(others)
    for letter, now in sizes.items():
        free = (its for its in PRIMES if not {*its} & {*sizes.values()} and is_apart((now, *its), table))
        if (found := next(free, None)) is not None:
            table[letter] = (now, *found)
    return of_each(sizes, lambda run, letter, _: table[letter][run + 1] if letter in table else sizes[letter])


def smaller(sizes: Mapping[str, int], less: Sequence[int], others: Table) -> Settings:
    """A little less of what is more than 3."""
    small = primes({letter: size for letter, size in sizes.items() if size <= 3}, others)

    def size(run: int, letter: str, place: int) -> int:
        now = sizes[letter]
        return max(now - less[(place + run) % len(less)], 2) if now > 3 else small[run][letter]

    return of_each(sizes, size)


def multiples(sizes: Mapping[str, int], turn: int) -> Settings:
    return of_each(sizes, lambda run, letter, place: sizes[letter] * FACTORS[run][(place + turn) % len(FACTORS[run])])


def model_settings(sizes: Mapping[str, int]) -> Iterator[Settings]:
    """Other sizes for the model's own axes: first such as share few factors, then multiples of what they are.

    Widths stay multiples of 8, for kernels that want them aligned, and so that a quarter of D is a whole number. The
    axes that only some models have are not among the multiples.
    """
    if not sizes:
        yield NOTHING
        return
    one, other, third = (coprime(sizes, run) | parts(sizes, run) for run in range(3))
    yield one, other, third
    if not sizes.keys() & set(MODEL_AXES):
        if "h" in sizes:
            yield multiplied(sizes, 0), multiplied(sizes, 1), multiplied(sizes, 2)
        return
    for letters in ("CHDG", "CD"):
        yield (
            widened(sizes, letters, 2, 3, 3, 32),
            widened(sizes, letters, 3, 2, 1, 64),
            widened(sizes, letters, 4, 5, 5, 96),
        )


COPRIME = (5, 2, 8 * 3, 8 * 13, 30), (3, 3, 8 * 2, 8 * 17, 60), (7, 2, 8 * 1, 8 * 19, 90)
"""Key and value heads, for how many query heads each if there are fewer of them now, their width, F, more words."""

STATE = (2, 5, 3), (4, 4, 1), (3, 7, 2)
"""Heads of a state space for each head of attention; its groups; its width for each that a head takes of C. So many
heads of such a width are C times a whole number, which is not the same in all runs."""


def coprime(sizes: Mapping[str, int], run: int) -> dict[str, int]:
    heads, repeats, width, hidden, more = COPRIME[run]
    grouped = sizes.get("G", 0) < sizes.get("H", 0)
    H = heads * repeats if "G" in sizes and grouped else heads
    is_split = sizes.get("C", 0) == sizes.get("H", 0) * sizes.get("D", 0)
    C = H * (width if is_split else width + 8)
    times, groups, wide = STATE[run]
    wanted = {"C": C, "H": H, "D": width, "G": heads, "F": hidden, "V": next_prime(sizes.get("V", 0) + more)}
    wanted |= {"h": H * times, "g": groups, "d": C // H * wide}
    return {letter: wanted[letter] for letter in wanted if letter in sizes}


PARTS = {
    "J": (8 * 10, 8 * 7, 8 * 11),
    "R": (4 * 4, 4 * 2, 4 * 1),
    "U": (8 * 9, 8 * 4, 8 * 7),
    "Q": (8 * 7, 8 * 12, 8 * 5),
    "Z": (8 * 12, 8 * 5, 8 * 13),
    "N": (8 * 2, 8 * 5, 8 * 3),
    "A": (9, 14, 22),
    "M": (8 * 11, 8 * 3, 8 * 8),
    "n": (6, 11, 3),
    "e": (8 * 4, 8 * 9, 8 * 14),
    "k": (8 * 5, 8 * 8, 8 * 3),
    "w": (3, 2, 4),
    "c": (2, 16, 4),
    "i": (12, 7, 5),
    "j": (8 * 4, 8 * 8, 8 * 2),
}
"""Of the axes that only some models have. What is rotated is less than the width of a head. A window is no longer than
what the model is given; a chunk is shorter in one run, and may be longer in another: what is filled up to whole chunks
is not as long as one."""


def parts(sizes: Mapping[str, int], run: int) -> dict[str, int]:
    """Experts stay a multiple of the groups that they are in, and more than each token goes to."""
    found = {letter: its[run] for letter, its in PARTS.items() if letter in sizes}
    E, K = sizes.get("E", 0), sizes.get("K", 0)
    if E > 1:
        found["E"] = E // 4 * (2, 1, 3)[run] if E % 32 == 0 else E * (2, 3, 5)[run]
    if 1 < K < E and found["E"] > MOST_CHOSEN:
        found["K"] = [chosen for chosen in (3, 4, 5, MOST_CHOSEN) if chosen != K][run]
    return found


MOST_CHOSEN = 6
"""Experts that a token goes to, in a run."""


def widened(sizes: Mapping[str, int], letters: str, times: int, others: int, groups: int, more: int) -> dict[str, int]:
    """`times` the heads' width, and `others` times the heads if they are among `letters`; C is what comes of it.

    `groups` times the key and value heads: were it always as often as the heads, H/2 would look like G.
    """
    heads = others if "H" in letters else 1
    factors = {"H": heads, "G": groups, "D": times, "C": heads * times, "F": 2 * others - 1}
    wanted = {letter: sizes[letter] * factors[letter] for letter in factors if letter in sizes}
    wanted["V"] = sizes.get("V", 0) + more
    return {letter: wanted[letter] for letter in MODEL_AXES if letter in sizes and letter in f"{letters}FV"}


MULTIPLES = {"h": (3, 4, 5), "g": (1, 2, 5), "d": (2, 6, 4), "k": (5, 2, 3)}
"""How often what a state space has now, where nothing but that is changed: h·d stays a multiple of C."""


def multiplied(sizes: Mapping[str, int], run: int) -> dict[str, int]:
    return {letter: sizes[letter] * its[run] for letter, its in MULTIPLES.items() if letter in sizes}


def next_prime(number: int) -> int:
    while any(number % factor == 0 for factor in range(2, int(number**0.5) + 1)):
        number += 1
    return number
