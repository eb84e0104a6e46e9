"""The dims of the tensors of a trace, joined where one must be as long as the other whatever the sizes are.

A dim may besides be a product of others, where a view splits or merges it, and a sum of others, where tensors are put
one after another. Dims that `name_axes` has told apart are never joined, and neither is one of size 1, for it may only
be broadcast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise, product
from math import prod

import msgspec

from ...schema import TensorMeta
from ..formulas import bracketed

__all__ = ["UNSEEN", "Axis", "Dim", "Dims"]

Axis = str | int

UNSEEN: Axis = ""
"""The axis of a dim that was in no run but the plain one: it is that of what it is joined with."""

Dim = int
"""The number of a dim; what it is joined with has other numbers."""

ONE: Dim = -1
"""Stands for each part of size 1, as of a single new key and value."""

MOST_ROUNDS = 4
"""How often what was joined is looked at again for what follows from it."""


class Extent(msgspec.Struct, frozen=True, gc=False):
    """How far some dims in a row reach: their size, and that as a number times axes."""

    size: int
    factor: int
    axes: tuple[str, ...]

    def over(self, other: Extent) -> Extent | None:
        """What lies between another and this one; None if that is no whole dim."""
        rest = Counter(self.axes)
        rest.subtract(other.axes)
        if self.size % other.size or self.factor % other.factor or min(rest.values(), default=0) < 0:
            return None
        return Extent(self.size // other.size, self.factor // other.factor, tuple(sorted(rest.elements())))

    @property
    def axis(self) -> Axis:
        times = [str(self.factor)] if self.factor != 1 else []
        letters = self.axes if self.factor == len(self.axes) == 1 else map(bracketed, self.axes)
        return "·".join([*times, *letters]) if self.axes else self.factor


NONE = Extent(1, 1, ())


class Dims:
    """
    products   a dim, and those that it is the product of, outermost first
    sums       a dim, and those that it is the sum of
    counted    dims that the code goes through one by one, like the three of queries, keys and values
    slices     a dim and a place in it -> dims that are its start up to there, or its end
    projected  a dim that a weight takes, and the one that it makes of it
    unseen     the numbers of tensors that were in no run but the plain one
    torn       dims that would have been joined, if they had not another axis
    """

    def __init__(self, unseen: Collection[int | None] = ()) -> None:
        self.unseen = unseen
        self.torn: list[tuple[Dim, Dim]] = []
        self.parents: list[Dim] = []
        self.sizes: list[int] = []
        self.axes: list[Axis] = []
        self.known: dict[tuple[int | None, tuple[Axis, ...]], tuple[Dim, ...]] = {}
        self.moved: set[int | None] = {None}
        self.products: list[tuple[Dim, tuple[Dim, ...]]] = []
        self.sums: list[tuple[Dim, tuple[Dim, ...]]] = []
        self.counted: set[Dim] = set()
        self.projected: set[tuple[Dim, Dim]] = set()
        self.slices: dict[tuple[Dim, int], list[tuple[Dim, bool]]] = {}
        self.extents: dict[Axis, tuple[int, tuple[str, ...]]] = {}

    def of(self, tensor: TensorMeta) -> tuple[Dim, ...]:
        """The dims of a tensor; new ones for each sight of a tensor whose dims are moved in place."""
        axes = tensor.axes or ((UNSEEN,) * len(tensor.shape) if tensor.number in self.unseen else tensor.shape)
        found = self.known.get((tensor.number, axes))
        if found is None or tensor.number in self.moved:
            found = tuple(map(self.new, tensor.shape, axes))
            self.known[tensor.number, axes] = found
        return found

    def new(self, size: int, axis: Axis | None = None) -> Dim:
        self.parents.append(len(self.parents))
        self.sizes.append(size)
        self.axes.append(size if axis is None else axis)
        return len(self.parents) - 1

    def size(self, dim: Dim) -> int:
        return self.sizes[dim]

    def root(self, dim: Dim) -> Dim:
        parents = self.parents
        while parents[dim] != dim:
            parents[dim] = dim = parents[parents[dim]]
        return dim

    def join(self, one: Dim, other: Dim) -> None:
        """Say that two dims are equally long. It is not believed of what is seen to be otherwise."""
        if one == other or self.sizes[one] != self.sizes[other] or self.sizes[one] == 1:
            return
        one, other = self.root(one), self.root(other)
        axes = {self.axes[one], self.axes[other]} - ({UNSEEN} if self.unseen else set())
        if len(axes) < 2:
            first = self.parents[max(one, other)] = min(one, other)
            self.axes[first] = axes.pop() if axes else UNSEEN
        elif self.unseen:
            self.torn.append((one, other))

    def broadcast(self, one: Sequence[Dim], other: Sequence[Dim]) -> None:
        """Join from the right; what is of another size is left out."""
        if one is not other:
            for pair in zip(reversed(one), reversed(other), strict=False):
                self.join(*pair)

    def joined(self, dims: Iterable[tuple[Dim, Dim]]) -> None:
        for one, other in dims:
            self.join(one, other)

    def parts(self, whole: Dim, parts: Sequence[Dim], *, equal: bool) -> None:
        """`whole` is cut into parts, or put together from them; `equal` if they are so at any size."""
        parts = [part for part in parts if self.sizes[part]]
        if len(parts) == 1:
            return self.join(whole, parts[0])
        self.sums.append((whole, tuple(parts)))
        if equal and len({self.sizes[part] for part in parts}) == 1 and len(parts) > 1:
            self.joined((parts[0], part) for part in parts[1:])
            count = self.new(len(parts))
            self.counted.add(count)
            self.products.append((whole, (count, parts[0])))
        return None

    def reshape(self, before: Sequence[Dim], after: Sequence[Dim], *, fine: bool = True) -> None:
        """The same elements in the same order: where both have come equally far, what lies between is the same.

        fine   whether dims may be cut where neither has a border: [B, 8] and [2·B, 4] are B, 2 and 4
        """
        one, other = ([dim for dim in dims if self.axes[dim] != 1] for dims in (before, after))
        alone, others_alone = self.beside_one(before), self.beside_one(after)
        if any(self.sizes[dim] < 1 or self.axes[dim] == UNSEEN for dim in (*one, *other)):
            return
        ends, others = list(self.reach(one)), list(self.reach(other))
        i = j = first = second = 0
        while i < len(ends) and j < len(others):
            size, limit = ends[i].size, others[j].size
            if ends[i] == others[j]:
                if first != i or second != j or (one[i] in alone) == (other[j] in others_alone):
                    self.same(one[first : i + 1], other[second : j + 1], fine)
                first, second = i + 1, j + 1
            i, j = i + (size <= limit), j + (limit <= size)

    def beside_one(self, dims: Sequence[Dim]) -> set[Dim]:
        """Dims next to one of size 1. Where only one side has that, a single head may be hidden in the other:
        [B, T, 1, D] and [B, T, G·D]."""
        pairs = list(pairwise(dims))
        return {one for one, other in (*pairs, *(pair[::-1] for pair in pairs)) if self.axes[other] == 1}

    def same(self, one: Sequence[Dim], other: Sequence[Dim], fine: bool) -> None:
        """Two rows of dims hold the same elements, and have no border in common."""
        if len(one) == len(other) == 1:
            self.join(one[0], other[0])
        elif len(one) == 1:
            self.products.append((one[0], tuple(other)))
        elif len(other) == 1:
            self.products.append((other[0], tuple(one)))
        elif fine:
            self.refine(one, other)

    def refine(self, one: Sequence[Dim], other: Sequence[Dim]) -> None:
        ends = sorted({*self.reach(one), *self.reach(other)}, key=lambda extent: extent.size)
        between = [end.over(start) for start, end in zip([NONE, *ends], ends, strict=False)]
        if len({end.size for end in ends}) < len(ends) or None in between:
            return
        pieces = [self.new(extent.size, extent.axis) for extent in between if extent is not None]
        for dims in (one, other):
            start = 0
            for dim, reach in zip(dims, self.reach(dims), strict=True):
                end = ends.index(reach) + 1
                self.same([dim], pieces[start:end], fine=False)
                start = end

    def repeat(self, whole: Dim, part: Dim) -> None:
        """`whole` is `part` some times over: it is what lies between them times that."""
        reach, start = (next(iter(self.reach([dim]))) for dim in (whole, part))
        between = reach.over(start) if start.size > 1 else None
        if between is not None and between.size > 1:
            self.products.append((whole, (self.new(between.size, between.axis), part)))

    def reach(self, dims: Sequence[Dim]) -> Iterable[Extent]:
        """How far each dim of a row reaches, from its start."""
        size, factor, axes = 1, 1, Counter[str]()
        for dim in dims:
            size *= self.sizes[dim]
            times, letters = self.extent(self.axes[dim])
            factor *= times
            axes.update(letters)
            yield Extent(size, factor, tuple(sorted(axes.elements())))

    def extent(self, axis: Axis) -> tuple[int, tuple[str, ...]]:
        """An axis as a number times others: "2·B" is 2 times B. A sum is one: "2·T+1" is no number times T+1."""
        if axis not in self.extents:
            words = [str(axis)] if any(sign in str(axis) for sign in "(+-") else str(axis).split("·")
            numbers = [int(word) for word in words if word.isdecimal()]
            self.extents[axis] = prod(numbers), tuple(word for word in words if not word.isdecimal())
        return self.extents[axis]

    def halve(self) -> None:
        """A start and an end are the whole; one that is put together the other way round, as rotary positions need it,
        is cut in halves."""
        swapped: set[tuple[Dim, Dim]] = set()
        for (whole, _), parts in self.slices.items():
            for one, other in product(parts, parts):
                if (one[1], other[1]) == (False, True):
                    self.parts(whole, [one[0], other[0]], equal=False)
                    swapped.add((self.root(other[0]), self.root(one[0])))
        for _, joined in self.sums:
            if len(joined) == 2 and (self.root(joined[0]), self.root(joined[1])) in swapped:
                self.join(*joined)

    def take_away(self) -> None:
        """Of two sums that are equally long what is left, once what both have is taken away: a past of keys is as long
        as one of values."""
        ways: dict[Dim, list[Counter[Dim]]] = {}
        for whole, parts in self.sums:
            ones = (ONE if self.sizes[part] == 1 else self.root(part) for part in parts)
            ways.setdefault(self.root(whole), []).append(Counter(ones))
        for first, *others in ways.values():
            for other in others:
                rest = [*(first - other).elements()], [*(other - first).elements()]
                if len(rest[0]) == len(rest[1]) == 1 and ONE not in (*rest[0], *rest[1]):
                    self.join(rest[0][0], rest[1][0])

    def add_up(self) -> None:
        """What is the sum, or the product, of the same is the same; but T·B and B·T lie in another order."""
        sums: dict[tuple[Dim, ...], Dim] = {}
        for whole, parts in self.sums:
            self.join(whole, sums.setdefault(tuple(sorted(map(self.root, parts))), whole))
        products: dict[tuple[Dim, ...], Dim] = {}
        for whole, parts in self.products:
            self.join(whole, products.setdefault(tuple(map(self.root, parts)), whole))

    def settle(self) -> None:
        """Of a dim that is cut in several ways the pieces are the same where the borders are."""
        self.halve()
        for _ in range(MOST_ROUNDS):
            self.take_away()
            self.add_up()
            before = len(self.products)
            ways: dict[Dim, dict[tuple[Dim, ...], None]] = {}
            for whole, parts in self.products:
                ways.setdefault(self.root(whole), {})[tuple(map(self.root, parts))] = None
            self.products = [(whole, parts) for whole, found in ways.items() for parts in found]
            unsettled = [list(found) for found in ways.values() if len(found) > 1]
            for first, *others in unsettled:
                for other in others:
                    self.reshape(first, other, fine=False)
            if len(self.products) == before and not unsettled:
                return
