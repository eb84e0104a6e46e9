"""Input specs: what a tensor that a model is given looks like, in one line, `ids: int64[B=2, T=4] < 16`.

    spec   = [ name ":" ] dtype "[" [ size { "," size } ] "]" [ "<" limit ]
    size   = number | letter | letter "=" number

name     of a parameter of forward; without one the tensor is given by position
dtype    as torch names it, "float32" or "float"
letter   a capital: its size comes from an option, `--B 2`, or from "B=2" in any of the specs
limit    integers are drawn from 0 up to it, without it

Nothing here knows torch, so a spec is refused before anything slow begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from unicodedata import east_asian_width

import msgspec

from ..errors import InputError, near
from .options import MOST, whole

__all__ = ["Size", "Spec", "declare", "letters_of", "parse", "shape"]

EXAMPLE = "--input 'ids: int64[2, 4]'"

SHORT = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128")
DTYPES = (*FLOATS, *INTEGERS, "bool", *SHORT)


class Size(msgspec.Struct, frozen=True):
    """The size of one dim: a number, a letter, or a letter and the number that it stands for; `at` is its place."""

    at: int
    letter: str | None
    number: int | None


class Spec(msgspec.Struct, frozen=True):
    """One tensor to be made; `below` is what its integers stay below, None if that is left open."""

    text: str
    name: str | None
    dtype: str
    sizes: tuple[Size, ...]
    below: int | None


class Token(msgspec.Struct, frozen=True):
    text: str
    at: int


def parse(text: str) -> Spec:
    """Read a spec. `InputError`, with the place and what was expected there, if it is none."""
    tokens = [Token(match[0], match.start()) for match in re.finditer(r"\w+|[^\w\s]", text)]
    tokens = [*tokens, Token("", len(text)), Token("", len(text))]  # so that there is always a next one
    name = read_name(text, tokens)
    dtype = read_dtype(text, tokens)
    sizes = read_sizes(text, tokens)
    below = read_limit(text, tokens, dtype)
    if tokens[0].text:
        limit = " or a limit, < 100" if dtype in INTEGERS and below is None else ""
        raise unreadable(text, tokens[0].at, f"expected the end{limit}")
    return Spec(text, name, dtype, sizes, below)


def read_name(text: str, tokens: list[Token]) -> str | None:
    first, second = tokens[0], tokens[1]
    if not first.text.isidentifier():
        raise unreadable(text, first.at, "expected the name of an input, or a dtype")
    if second.text == ":":
        del tokens[:2]
        return first.text
    if second.text != "[" and first.text not in DTYPES:
        raise unreadable(text, second.at, f"expected ':' after the name {first.text!r}, then a dtype")
    return None


def read_dtype(text: str, tokens: list[Token]) -> str:
    token = tokens.pop(0)
    if token.text not in DTYPES:
        meant = near(token.text, DTYPES)
        hint = f": did you mean {', '.join(meant)}?" if meant else ", such as float32, int64, bool"
        raise unreadable(text, token.at, f"expected a dtype{hint}")
    return SHORT.get(token.text, token.text)


def read_sizes(text: str, tokens: list[Token]) -> tuple[Size, ...]:
    token = tokens.pop(0)
    if token.text != "[":
        raise unreadable(text, token.at, "expected '[' and the sizes, such as [2, 4]")
    sizes: list[Size] = []
    if tokens[0].text == "]":
        token = tokens.pop(0)
    while token.text != "]":
        sizes.append(read_size(text, tokens))
        token = tokens.pop(0)
        if token.text not in (",", "]"):
            raise unreadable(text, token.at, "expected ',' and another size, or ']'")
    return tuple(sizes)


def read_size(text: str, tokens: list[Token]) -> Size:
    token = tokens.pop(0)
    if token.text.isdecimal():
        return Size(token.at, None, read_number(text, token, 0, MOST, "a size"))
    if not re.fullmatch("[A-Z]", token.text):
        raise unreadable(text, token.at, "expected a size: a whole number, a capital letter, or both, B=2")
    if tokens[0].text != "=":
        return Size(token.at, token.text, None)
    number = read_number(text, tokens[1], 1, MOST, f"the size of {token.text}")
    del tokens[:2]
    return Size(token.at, token.text, number)


def read_limit(text: str, tokens: list[Token], dtype: str) -> int | None:
    if tokens[0].text != "<":
        return None
    if dtype not in INTEGERS:
        raise unreadable(text, tokens[0].at, f"expected the end: only integers take a limit, not {dtype}")
    limit = read_number(text, tokens[1], 1, highest(dtype), "a limit")
    del tokens[:2]
    return limit


def read_number(text: str, token: Token, least: int, most: int, what: str) -> int:
    number = whole(token.text, least=least, most=most)
    if number is None:
        raise unreadable(text, token.at, f"expected {what}, a whole number from {least} to {most}")
    return number


def highest(dtype: str) -> int:
    """The limit that lets in every number of an integer dtype; torch draws below a limit that is an int64 itself."""
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    return min(1 << (bits if dtype.startswith("u") else bits - 1), MOST)


def declare(specs: Iterable[Spec], given: Mapping[str, int]) -> dict[str, int]:
    """The letters that `specs` give a size to. `InputError` if another spec, or `given`, gives a letter another one."""
    declared: dict[str, int] = {}
    for spec in specs:
        for size in spec.sizes:
            if size.letter is None or size.number is None:
                continue
            known = {**declared, **given}.get(size.letter, size.number)
            if known != size.number:
                other = f"--{size.letter} {known}" if size.letter in given else f"{size.letter}={known} elsewhere"
                raise unreadable(spec.text, size.at, f"{size.letter}={size.number} does not go with {other}")
            declared[size.letter] = size.number
    return declared


def shape(spec: Spec, letters: Mapping[str, int]) -> tuple[int, ...]:
    """All sizes of `spec` as numbers. `InputError` if a letter has none."""
    return tuple(resolve(spec, size, letters) for size in spec.sizes)


def resolve(spec: Spec, size: Size, letters: Mapping[str, int]) -> int:
    letter = str(size.letter)
    if size.number is not None and letter not in letters:
        return size.number
    if letter not in letters:
        raise unreadable(spec.text, size.at, f"{letter} has no size: write {letter}=2 here, or give --{letter} 2")
    return letters[letter]


def letters_of(specs: Sequence[Spec], arguments: Sequence[str]) -> dict[str, tuple[str | None, ...]]:
    """Of each of `arguments` that is made of a spec the letter of each dim; those without a name come first."""
    unnamed = [spec for spec in specs if spec.name is None]
    named = [(spec.name, spec) for spec in specs if spec.name is not None]
    return {
        name: tuple(size.letter for size in spec.sizes)
        for name, spec in (*zip(arguments, unnamed, strict=False), *named)
    }


def unreadable(text: str, at: int, expected: str) -> InputError:
    """The error that shows `text` with a mark under `at`; wide characters take two columns."""
    line = "".join(char if char.isprintable() else " " for char in text)
    margin = "".join("  " if east_asian_width(char) in "WF" else " " for char in line[:at])
    return InputError(f"--input cannot be read\n  {line}\n  {margin}^ {expected}\nfor example: {EXAMPLE}")
