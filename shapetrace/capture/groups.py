"""Which dims of the input change together: guesses, the most likely first; running the model tells if one is right.

A dim that no guess lets change belongs to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import combinations, count

import msgspec

from ..letters import is_unknown, unknown
from ..passes.bonds import Bonds
from ..passes.meeting import Meeting
from .given import Held

__all__ = ["NONE", "Dim", "Groups", "Ties", "divided", "guesses", "has_cache", "next_letter", "splits", "ties"]

Dim = tuple[int, int]
"""The number of a tensor among those given, and of one of its dims."""

Groups = dict[str, list[Dim]]


class Ties(msgspec.Struct, frozen=True):
    """What the one forward that ran says of the dims: see `Bonds`. Of a dim with no bond it says nothing.

    of   a dim -> its bond
    """

    of: Mapping[Dim, int] = {}
    bonds: Bonds = Bonds()

    def is_fixed(self, dim: Dim) -> bool:
        return self.of.get(dim) in self.bonds.fixed

    def are_cut(self, part: Collection[Dim]) -> bool:
        """Whether a dim outside goes together with one of these, at any size."""
        inside = {self.of[dim] for dim in part if dim in self.of}
        return any(bond in inside and dim not in part for dim, bond in self.of.items())


NONE = Ties()


def ties(held: Sequence[Held], bonds: Bonds) -> Ties:
    """Those of the tensors of an argument, as far as they are what the trace has seen of it. A dim of size 1 is tied to
    nothing: it may be broadcast."""
    numbers: dict[str, list[int]] = {}
    for number, tensor in enumerate(held):
        numbers.setdefault(tensor.name, []).append(number)
    found: dict[Dim, int] = {}
    for name, its in numbers.items():
        rows = bonds.rows.get(name, ())
        for number, row in zip(its, rows, strict=False) if len(its) == len(rows) else ():
            if len(row) == len(held[number].shape):
                found |= {(number, dim): bond for dim, bond in enumerate(row) if held[number].shape[dim] > 1}
    return Ties(found, bonds)


def guesses(held: Sequence[Held], ties: Ties = NONE) -> Iterator[Groups]:
    """Dims of equal size change together, at the same place in each tensor or anywhere.

    The last dim of floats is a width as a rule, then all their dims but the first are, as those of an image; then one
    of them may be a multiple of the length of the integers, as sound is of its tokens; at last nothing but the first
    dim of each tensor is free. None of them changes what is as long as a weight, or one of two that are tied.
    """
    dims = [(number, dim) for number, tensor in enumerate(held) for dim in range(len(tensor.shape))]
    single = first_of_one(held)

    def is_free(number: int, dim: int, floats: int | None) -> bool:
        tensor = held[number]
        if tensor.shape[dim] < 2 and not (dim == single and tensor.shape[dim] == 1):
            return False
        last = len(tensor.shape) if not tensor.is_float else max(len(tensor.shape) - 1, 1) if floats is None else floats
        return dim < last

    seen: list[Groups] = []
    for floats in (None, 1):
        free = [(number, dim) for number, dim in dims if is_free(number, dim, floats)]
        for key in (place_and_size, size_alone):
            seen.append(grouped(held, free, key))
        if floats is None:  # a mask of floats, [B, 1, T, T], [T, T] or [B, T]
            sizes = {held[number].shape[dim] for number, dim in free}
            alike = [
                (n, dim) for n, dim in dims if held[n].shape[dim] in sizes and (dim > 1 or len(held[n].shape) == 2)
            ]
            for start in (0, 1):  # a width may be as large, too, and is that of what comes first
                more = [dim for dim in alike if dim[0] >= start]
                seen.append(grouped(held, sorted({*free, *more}), size_alone))
    first = [dim for dim in dims if dim[1] == 0 and is_free(*dim, 1)]
    lengths = [dim for dim in dims if dim[1] == 1 and not held[dim[0]].is_float and is_free(*dim, 1)]
    groups = grouped(held, [*first, *lengths], place_and_size)
    for multiple in multiples(held, lengths):
        seen.append({letter: [*its, multiple] if its == lengths else its for letter, its in groups.items()})
    seen.append(grouped(held, first, place_and_size))
    found = list(filter(None, (free_of(groups, held, ties) for groups in seen)))
    for index, groups in enumerate(found):
        if groups not in found[:index] and not any(map(ties.are_cut, groups.values())):
            yield groups


def first_of_one(held: Sequence[Held]) -> int | None:
    """The place at which all tensors have one element: a batch of one, before the length or behind it."""
    firsts = [tensor.shape for tensor in held if tensor.shape]
    if all(shape[0] == 1 for shape in firsts):
        return 0
    vectors = [tensor.shape for tensor in held if tensor.is_float and len(tensor.shape) > 2]
    return 1 if vectors and all(len(shape) == 3 and shape[1] == 1 for shape in vectors) else None


def free_of(groups: Groups, held: Sequence[Held], ties: Ties) -> Groups:
    """Without what is as long as a weight; none at all for images, whose rows do not change without their columns."""
    free = {letter: [dim for dim in dims if not ties.is_fixed(dim)] for letter, dims in groups.items()}
    gone = [dim for dims in groups.values() for dim in dims if ties.is_fixed(dim)]
    is_image = not has_cache(held) and any(held[number].is_float and len(held[number].shape) > 3 for number, _ in gone)
    return {} if is_image else {letter: dims for letter, dims in free.items() if dims}


def divided(held: Sequence[Held], groups: Groups, ties: Ties) -> Groups:
    """The groups as far apart as what ran lets them be: lengths of vectors that are not tied are equal by chance.

    What is no such length, as of a mask that is not looked at, goes with what it follows. The first dims of all
    tensors may be one batch: they part only where two of them are dims of one tensor.
    """
    found: Groups = {}
    for letter, dims in groups.items():
        parts = parted(held, dims, ties) if is_unknown(letter) else [dims]
        found[letter] = parts[0]
        for part in parts[1:]:
            found[next_letter({**groups, **found})] = part
    return found


def parted(held: Sequence[Held], dims: list[Dim], ties: Ties) -> list[list[Dim]]:
    carried = dict.fromkeys(bond for dim in dims if (bond := ties.of.get(dim)) in ties.bonds.carried)
    is_length = {bond: all(place for number, place in dims if ties.of.get((number, place)) == bond) for bond in carried}

    def part(one: int, other: int) -> bool:
        return frozenset({one, other}) in ties.bonds.meeting or (is_length[one] and is_length[other])

    if len(carried) < 2 or not all(part(*pair) for pair in combinations(carried, 2)):
        return [dims]
    parts: dict[int, list[Dim]] = {bond: [] for bond in carried}
    latest = next(iter(carried))
    for dim in dims:
        bond = ties.of.get(dim)
        latest = bond if bond in parts else latest
        parts[latest].append(dim)
    if any(map(ties.are_cut, parts.values())):
        return [dims]
    return list(parts.values())


def has_cache(held: Sequence[Held]) -> bool:
    """Whether several tensors are one argument, or several of floats are alike, as keys and values [B, H, P, D] are."""
    shapes = [tensor.shape for tensor in held if tensor.is_float and len(tensor.shape) == 4]
    return len({tensor.name for tensor in held}) < len(held) or len(set(shapes)) < len(shapes)


def multiples(held: Sequence[Held], lengths: Sequence[Dim]) -> Iterator[Dim]:
    """The dims of floats, but the first of each, that are several times as long as all these."""
    sizes = {held[number].shape[dim] for number, dim in lengths}
    size = sizes.pop() if len(sizes) == 1 else 0
    for number, tensor in enumerate(held):
        if tensor.is_float and size > 1:
            yield from ((number, dim) for dim, its in enumerate(tensor.shape) if dim and its > size and its % size == 0)


def place_and_size(dim: int, size: int) -> object:
    return dim, size


def size_alone(dim: int, size: int) -> object:
    return size


def grouped(held: Sequence[Held], dims: Sequence[Dim], key: Callable[[int, int], object]) -> Groups:
    """The groups of dims of the same key; those that are declared are called, and told apart, by their names."""
    found: dict[object, list[Dim]] = {}
    sizes: dict[str, int] = {}
    for number, dim in dims:
        size, name = held[number].shape[dim], held[number].axes[dim]
        is_one = name is not None and sizes.setdefault(name, size) == size
        found.setdefault(name if is_one else key(dim, size), []).append((number, dim))
    return {key if isinstance(key, str) else unknown(place): dims for place, (key, dims) in enumerate(found.items())}


def splits(
    held: Sequence[Held], groups: Groups, letter: str, meeting: Set[Meeting], ties: Ties = NONE
) -> Iterator[Groups]:
    """A group taken apart in two: lengths that are equal may be so by chance.

    Where tensors in it meet, what a decoder is given goes by itself, then what is one tensor given twice, as keys and
    values, then all before the later of two that meet, for masks follow what they are for; then the first tensor, and
    the last. Where one tensor has several dims in the group, there is no telling with which of them the others go.
    """
    dims = groups[letter]
    numbers = list(dict.fromkeys(number for number, _ in dims))
    pairs = [pair for pair in combinations(numbers, 2) if {held[number].name for number in pair} in meeting]
    decoder = [number for number in numbers if of_decoder(held[number].name)]
    same = [[number for number in numbers if one in (number, held[number].twin)] for one in numbers]
    twice = [its for its in same if len(its) > 1]
    before = [numbers[: numbers.index(later)] for _, later in pairs]
    parts = [
        tuple(dim for dim in dims if dim[0] in part)
        for part in (decoder, *twice, *before, numbers[:1], numbers[-1:])
        if any((one in part) != (other in part) for one, other in pairs)
    ]
    if len(numbers) < len(dims) <= MOST_APART:
        parts += [(dims[0], *rest) for count in range(len(dims) - 1) for rest in combinations(dims[1:], count)]
    for part in dict.fromkeys(parts) if is_unknown(letter) else ():
        if part and len(part) < len(dims) and not ties.are_cut(part):
            rest = [dim for dim in dims if dim not in part]
            yield {letter: list(part), **{k: v for k, v in groups.items() if k != letter}, next_letter(groups): rest}


MOST_APART = 6
"""Dims of which each two parts are tried."""


def of_decoder(name: str) -> bool:
    return name.startswith(("decoder", "tgt", "target", "label"))


def next_letter(groups: Groups) -> str:
    return next(letter for letter in map(unknown, count()) if letter not in groups)
