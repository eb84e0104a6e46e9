"""What an index leaves of the dims of a tensor: `x[:, None, 0]` of [B, T, C] is [B, 1, C]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...schema import Call, TensorMeta

__all__ = ["Indexed", "indexed"]

Entry = str | TensorMeta
"""One part of an index: as Python writes it, or a tensor."""

WHOLE = re.compile(r"0?:(:1)?")
PART = re.compile(r"0?:\d+|\d+:")


class Indexed(NamedTuple):
    """
    left     of each dim of the result which it was; None for one that is new or shorter
    picked   the dims of which one place was taken
    sliced   place of a dim of the result that is the start of another up to a number, or its end from there on ->
             that dim, the number, and whether it is the end
    equal    pairs of dims of which the one goes through the other: those of a mask and of what it is laid on; and
             those of indices that are taken together
    """

    left: list[int | None]
    picked: list[int]
    sliced: dict[int, tuple[int, int, bool]]
    equal: list[tuple[int, int]]


def indexed(call: Call, dims: Sequence[int], of: Mapping[int, Sequence[int]]) -> Indexed | None:
    """What a call of `x[…]` leaves of the `dims` of x; None if that cannot be told.

    of   the number of a tensor in the index -> its dims
    """
    entries = list(index(call))
    tensors = [place for place, entry in enumerate(entries) if isinstance(entry, TensorMeta)]
    is_split = tensors and tensors[-1] - tensors[0] >= len(tensors)
    if is_split or (tensors and any(is_number(entry) for entry in entries)) or not all(map(is_plain, entries)):
        return None
    taken = sum(map(width, entries))
    if entries.count("...") > 1 or taken > len(dims):
        return None
    if "..." not in entries:
        entries.append("...")
    found = Indexed([], [], {}, list(together(entries, of)))
    left = list(dims)
    for place, entry in enumerate(entries):
        if isinstance(entry, TensorMeta):
            found.left.extend(looked_up(entries, place, of))
            if entry.dtype == "bool":
                found.equal.extend(zip(dims_of(entry, of), left, strict=False))
            del left[: width(entry)]
        elif entry == "...":
            found.left.extend(left[: len(dims) - taken])
            del left[: len(dims) - taken]
        elif entry == "None":
            found.left.append(None)
        elif is_number(entry):
            found.picked.append(left.pop(0))
        else:
            dim = left.pop(0)
            if PART.fullmatch(entry):
                found.sliced[len(found.left)] = dim, int(entry.strip(":").removeprefix("0:")), entry.endswith(":")
            found.left.append(dim if WHOLE.fullmatch(entry) else None)
    return found


def looked_up(entries: Sequence[Entry], place: int, of: Mapping[int, Sequence[int]]) -> Sequence[int | None]:
    """The dims that tensors next to each other in an index give, where the first of them stands."""
    if place and isinstance(entries[place - 1], TensorMeta):
        return []
    given = tensors_in(entries)
    if given[0].dtype == "bool":
        return [None]
    rank = max(len(tensor.shape) for tensor in given)
    return [next(iter(wide(given, place, of)), None) for place in range(-rank, 0)]


def together(entries: Sequence[Entry], of: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Those dims of indices that must be equal, for they are broadcast."""
    given = tensors_in(entries)
    if len(given) > 1 and all(tensor.dtype != "bool" for tensor in given):
        for place in range(-max(len(tensor.shape) for tensor in given), 0):
            yield from pairwise(wide(given, place, of))


def wide(given: Sequence[TensorMeta], place: int, of: Mapping[int, Sequence[int]]) -> list[int]:
    """The dims at a place from the right that are not of size 1."""
    having = [tensor for tensor in given if len(tensor.shape) >= -place and tensor.shape[place] != 1]
    return [dims[place] for tensor in having if (dims := dims_of(tensor, of))]


def dims_of(tensor: TensorMeta, of: Mapping[int, Sequence[int]]) -> Sequence[int]:
    return of.get(-1 if tensor.number is None else tensor.number, ())


def tensors_in(entries: Sequence[Entry]) -> list[TensorMeta]:
    return [entry for entry in entries if isinstance(entry, TensorMeta)]


def width(entry: Entry) -> int:
    """How many dims it takes the place of."""
    if isinstance(entry, TensorMeta):
        return len(entry.shape) if entry.dtype == "bool" else 1
    return int(entry not in ("None", "..."))


def is_number(entry: Entry) -> bool:
    return isinstance(entry, str) and entry.lstrip("-").isdecimal()


def is_plain(entry: Entry) -> bool:
    return not isinstance(entry, str) or ":" in entry or entry in ("None", "...") or is_number(entry)


def index(call: Call) -> Iterator[Entry]:
    """The parts of the index of a call of `x[…]`."""
    if "1" in call.inputs:
        yield call.inputs["1"]
        return
    text = call.literals.get("1")
    if text is not None:
        yield from pieces(text[1:-1]) if text.startswith("(") else [text]
        return
    found: dict[int, Entry] = {}
    for tensors in (call.inputs, call.literals):
        for key, entry in tensors.items():
            if key.startswith("1["):
                place = key[2:].partition("]")[0]
                found[int(place) if place.isdecimal() and key.endswith(f"[{place}]") else -1] = entry
    yield from (found[place] for place in sorted(found)) if -1 not in found else ["…"]


def pieces(text: str) -> list[str]:
    """The parts of a tuple; of one that holds another a part that is no index."""
    return ["…"] if "(" in text or "[" in text else [part.strip() for part in text.split(",") if part.strip()]
