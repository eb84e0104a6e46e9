"""Options of a builder: its parameters, given on the command line as `--C 16 --head untied --no-bias`.

What an option may be is read from the signature: from the annotation, else from the default. An option of one capital
letter is the size of an axis.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import BoundArguments, Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..errors import TargetError, near
from ..letters import letters_of_names

__all__ = ["MOST", "bind", "is_letter", "join", "option", "options", "parameters", "signature_of", "sizes", "whole"]

MOST = 2**63 - 1
"""The largest size that torch has."""

PLAIN = {int: "a whole number", float: "a number", str: "text"}
"""Types that text is read as, in the order they are tried, and what a reader calls them."""

Reader = tuple[str, Callable[[str], object]]
"""What may stand there, and what makes a value of the text: LookupError or ValueError if it is something else."""


def bind(
    name: str,
    signature: Signature,
    tokens: Sequence[str],
    *,
    spare: Collection[str],
    others: Collection[str],
    given: Collection[str] = (),
) -> tuple[BoundArguments, dict[str, int]]:
    """The arguments that `tokens` give a builder called `name`, and the letters among them.

    spare    letters that may be given although the builder does not take them: an input spec uses them
    others   names that are options elsewhere, for the hint when one is mistyped
    given    those of them that were given, which the builder therefore was not
    """
    named, rest = parameters(signature)
    flags = {key for key, parameter in named.items() if bool in kinds(parameter)}
    values: dict[str, object] = {}
    extra: dict[str, object] = {}
    letters: dict[str, int] = {}
    unknown: list[str] = []
    for key, text in pairs(name, tokens, flags):
        if key in named and is_letter(key) and {int, Any} & set(kinds(named[key])):
            values[key] = letters[key] = size(key, text)
        elif key in named:
            values[key] = value(name, named[key], text)
        elif key.removeprefix("no_") in flags:
            values[key.removeprefix("no_")] = not flag(name, key, text)
        elif key in spare:
            letters[key] = size(key, text)
        elif rest is not None and is_letter(key):
            extra[key] = letters[key] = size(key, text)
        elif rest is not None:
            extra[key] = True if text is None else literal(text)
        else:
            unknown.append(key)
    if unknown:
        raise TargetError(refusal(name, unknown, named, others))
    if kept := [key for key in named if key in given and key not in values]:
        first = option(kept[0])
        raise TargetError(
            f"both {name} and `run` take {join(map(option, kept))}; "
            f"what follows -- is for {name}: run {name} -- {first} …"
        )
    missing = [key for key, parameter in named.items() if parameter.default is Parameter.empty and key not in values]
    if missing:
        raise TargetError(f"{name} needs {join(map(option, missing))}; it takes {options(named)}")
    if rest is not None and extra:
        values[rest] = extra
    return BoundArguments(signature, {key: values[key] for key in signature.parameters if key in values}), letters


def signature_of(build: Callable[..., object]) -> Signature:
    """What a callable takes; nothing if that cannot be known."""
    for evaluate in (True, False):
        try:
            return inspect.signature(build, eval_str=evaluate)
        except Exception:  # annotations may raise anything; of what is written in C there is no signature at all
            continue
    return Signature()


def parameters(signature: Signature) -> tuple[dict[str, Parameter], str | None]:
    """What can be given by name, and the name of `**kwargs` if there is one."""
    named = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }
    rest = (key for key, parameter in signature.parameters.items() if parameter.kind is Parameter.VAR_KEYWORD)
    return named, next(rest, None)


def pairs(name: str, tokens: Sequence[str], flags: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """The options of a command line, as names of parameters, each with its text; None if there is none."""
    left = deque(tokens)
    while left:
        token = left.popleft()
        word, equals, text = token.partition("=")
        if not re.fullmatch(r"--\w.*", word):
            raise TargetError(f"{name}: {token!r} is no option; what follows the target is --name VALUE")
        key = word[2:].replace("-", "_")
        if equals:
            yield key, text
        elif key in flags or key.removeprefix("no_") in flags or not left or left[0].startswith("--"):
            yield key, None
        else:
            yield key, left.popleft()


def size(key: str, text: str | None) -> int:
    number = whole(text or "", least=1)
    if number is None:
        raise TargetError(f"--{key} {wrong(text, 'the size of an axis, a whole number from 1 on')}")
    return number


def whole(text: str, *, least: int = 0, most: int = MOST) -> int | None:
    """The number that `text` is, if it is a whole one from `least` to `most`."""
    number = int(text) if text.isdecimal() and len(text) < 40 else -1
    return number if least <= number <= most else None


def wrong(text: str | None, expected: str) -> str:
    return f"needs a value: {expected}" if text is None else f"is {expected}, not {text!r}"


def flag(name: str, key: str, text: str | None) -> bool:
    if text is not None:
        plain = key.removeprefix("no_")
        raise TargetError(f"{name}: {option(key)} takes no value: {option(plain)} or {option('no_' + plain)}")
    return True


def value(name: str, parameter: Parameter, text: str | None) -> object:
    if bool in kinds(parameter):
        return flag(name, parameter.name, text)
    choices = readers(parameter)
    if not choices:
        kind = inspect.formatannotation(parameter.annotation)
        raise TargetError(f"{name}: {option(parameter.name)} is a {kind}, which cannot be given on the command line")
    if text is not None:
        for _, read in choices:
            try:
                return read(text)
            except (LookupError, ValueError):
                continue
    raise TargetError(f"{name}: {option(parameter.name)} {wrong(text, ' or '.join(words for words, _ in choices))}")


def kinds(parameter: Parameter) -> list[object]:
    """The types and literals that a parameter may be; Any if nothing says."""
    annotation = parameter.annotation
    if annotation is Parameter.empty or isinstance(annotation, str):  # a string names what only type checkers import
        return [type(parameter.default) if type(parameter.default) in (bool, str) else Any]
    return list(flatten(annotation))


def flatten(annotation: object) -> Iterator[object]:
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from flatten(part)
    elif origin is Annotated:
        yield from flatten(get_args(annotation)[0])
    else:
        yield annotation


def readers(parameter: Parameter) -> list[Reader]:
    found: list[Reader] = []
    allowed = kinds(parameter)
    for kind in allowed:
        if get_origin(kind) is Literal:
            choices = {str(choice): choice for choice in get_args(kind)}
            found.append((" or ".join(choices), choices.__getitem__))
    found += [(words, read) for read, words in PLAIN.items() if read in allowed]
    if Any in allowed:
        found.append(("a value", literal))
    if found and NoneType in allowed:
        found.insert(0, ("None", {"None": None}.__getitem__))
    return found


def literal(text: str) -> object:
    """The value that Python writes as `text`, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def refusal(name: str, unknown: list[str], named: Collection[str], others: Collection[str]) -> str:
    words = [key for key in unknown if not is_letter(key)]
    meant = dict.fromkeys(option(best) for key in words for best in near(key, [*named, *others], most=1))
    hint = f": did you mean {' and '.join(meant)}?" if meant else ";"
    return f"{name} takes no {join(map(option, unknown))}{hint} it takes {options(named)}"


def join(words: Iterable[str]) -> str:
    """Words as one says them: "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def option(key: str) -> str:
    """How a parameter is written on the command line: "n_heads" as "--n-heads"."""
    return f"--{key.replace('_', '-')}"


def options(keys: Iterable[str]) -> str:
    return " ".join(map(option, keys)) or "no options"


def is_letter(key: str) -> bool:
    return re.fullmatch("[A-Z]", key) is not None


def sizes(bound: BoundArguments) -> dict[str, int]:
    """The axes that a builder's arguments, those left at their defaults too, give a size to."""
    full = BoundArguments(bound.signature, bound.arguments.copy())
    full.apply_defaults()
    _, rest = parameters(bound.signature)
    extra: Mapping[str, object] = full.arguments.pop(rest) if rest is not None else {}
    return {key: given for key, given in {**full.arguments, **extra}.items() if is_letter(key) and type(given) is int}


CHOSEN = "top_k"
"""Of experts those that a token goes to, where a builder has experts; a configuration may mean words by it."""


def sized(bound: BoundArguments) -> dict[str, str]:
    """The parameters of a builder that size an axis, by their names -> its letter."""
    named, _ = parameters(bound.signature)
    names = [name for name, parameter in named.items() if {int, Any} & set(kinds(parameter))]
    found = letters_of_names(names)
    if CHOSEN in names and "E" in found.values() and "K" not in found.values():
        found[CHOSEN] = "K"
    return found


def argument(bound: BoundArguments, name: str) -> int | None:
    """The whole number that a builder is given there, or has as its default; None if it is something else."""
    value = bound.arguments.get(name, bound.signature.parameters[name].default)
    return value if type(value) is int else None
