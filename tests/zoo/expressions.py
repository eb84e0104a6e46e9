"""What an axis says the size of its dim is: the value of "3·C" where C is 8."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKEN = re.compile(r"\s*(\d+|[^\W\d_]\d*|[·*/+()⌈⌉\-])")


def predict(axis: str | int, sizes: Mapping[str, int]) -> int:
    """The size that an axis has at these sizes of the letters.

    Products with "·", sums and differences, exact quotients, integers, names of one letter, brackets,
    and quotients that are rounded up, "⌈T/c⌉".
    `KeyError` for a letter that has no size, `ValueError` for what is no axis or a quotient that is not exact.
    """
    if isinstance(axis, int):
        return axis
    tokens = TOKEN.findall(axis)
    if "".join(tokens) != re.sub(r"\s", "", axis):
        raise ValueError(f"no axis: {axis!r}")
    value, rest = total(tokens, sizes)
    if rest:
        raise ValueError(f"no axis: {axis!r}")
    return value


def total(tokens: list[str], sizes: Mapping[str, int]) -> tuple[int, list[str]]:
    value, rest = product(tokens, sizes)
    while rest and rest[0] in "+-":
        sign = 1 if rest[0] == "+" else -1
        term, rest = product(rest[1:], sizes)
        value += sign * term
    return value, rest


def product(tokens: list[str], sizes: Mapping[str, int]) -> tuple[int, list[str]]:
    value, rest = atom(tokens, sizes)
    while rest and rest[0] in "·*/":
        factor, after = atom(rest[1:], sizes)
        if rest[0] != "/":
            value *= factor
        elif factor == 0 or value % factor:
            raise ValueError(f"{value} / {factor} is not whole")
        else:
            value //= factor
        rest = after
    return value, rest


def atom(tokens: list[str], sizes: Mapping[str, int]) -> tuple[int, list[str]]:
    if not tokens or tokens[0] in "·*/+-)":
        raise ValueError(f"no axis begins with {tokens[:1]}")
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        value, rest = total(rest, sizes)
        if rest[:1] != [")"]:
            raise ValueError("a bracket is open")
        return value, rest[1:]
    if first == "⌈":
        value, rest = atom(rest, sizes)
        divisor, rest = atom(rest[1:], sizes) if rest[:1] == ["/"] else (0, [])
        if not divisor or rest[:1] != ["⌉"]:
            raise ValueError("what is rounded up is no quotient")
        return -(-value // divisor), rest[1:]
    return int(first) if first.isdigit() else sizes[first], rest
