"""Options that a target has with it: `gpt[norm=post, G=1]` is `gpt --norm post --G 1`.

    target  = where [ "[" [ word { "," word } ] "]" ]
    word    = [ "--" ] name [ "=" text ]

A comma or a bracket within brackets of its own, or within quotes, belongs to the text: `Net[input=x: float32[2, 4]]`.
The names are what the target takes; then what `run` takes for it, as `input`, `seed` and `set`; and of a model that is
made of a configuration any field of that: `hf:gpt2[num_hidden_layers=2]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..errors import TargetError
from .options import is_letter, option, whole

if TYPE_CHECKING:
    from . import Request

__all__ = ["Word", "applied", "split"]

Word = tuple[str, "str | None"]
"""The name of an option and its text; None for one that is only named."""

WORD = re.compile(r"\s*(?:--)?(\w[\w.-]*)\s*(?:=(.*))?", re.DOTALL)
PAIRS = {"(": ")", "[": "]", "{": "}"}
QUOTES = "\"'"
SWITCHES = ("weightless", "ops", "materialise", "stats")


def split(target: str) -> tuple[str, tuple[Word, ...]]:
    """The target itself, and what stands in brackets behind it. `TargetError` if that is no list of options."""
    start = opening(target)
    if start is None:
        return target, ()
    if not start:
        raise TargetError(f"{target} names no target before its options; for example gpt[norm=post]")
    inside = target[start + 1 : -1]
    found: list[Word] = []
    for text in parts(inside) if inside.strip() else ():
        word = WORD.fullmatch(text)
        if word is None:
            raise TargetError(f"{target}: {text.strip()!r} is no option; in brackets stands name=value, …")
        name, value = word.groups()
        found.append((name, None if value is None else unquoted(value.strip())))
    return target[:start], tuple(found)


def opening(target: str) -> int | None:
    """Where the brackets begin that end a target; None if none do."""
    start = found = None
    for place, character, depth in walked(target):
        found = None
        if character == "[" and depth == 0:
            start = place
        elif character == "]" and depth == 0:
            start, found = None, start
    return found


def parts(text: str) -> Iterator[str]:
    """The text between the commas that stand in no brackets and no quotes."""
    begin = 0
    for place, character, depth in walked(text):
        if character == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def walked(text: str) -> Iterator[tuple[int, str, int]]:
    """Each character that is not quoted, its place, and how many brackets are open around it.

    A quote is one where it is closed again, and begins what is given to a name: a path may hold an apostrophe.
    """
    open_: list[str] = []
    resume = 0
    for place, character in enumerate(text):
        if place < resume:
            continue
        if character in QUOTES and text[:place].rstrip().endswith("=") and character in text[place + 1 :]:
            resume = text.index(character, place + 1) + 1
            continue
        if open_ and character == open_[-1]:
            open_.pop()
        yield place, character, len(open_)
        if character in PAIRS:
            open_.append(PAIRS[character])


def unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in QUOTES and text[0] == text[-1] else text


def applied(request: Request, words: Sequence[Word], takes: Collection[str], *, has_fields: bool = False) -> Request:
    """A request with the options of its target, which are stronger than those that it has already.

    takes        what the target itself has options for
    has_fields   whether all else is a field of a configuration
    """
    options, inputs, changes = list(request.options), list[str](), list(request.way.changes)
    own: dict[str, object] = {}
    way: dict[str, object] = {}
    for name, text in words:
        key = name.replace("-", "_")
        switch = key.removeprefix("no_")
        if key in takes or switch in takes or is_letter(key):
            options.append(word(name, text))
        elif key in ("input", "set", "axes", "device", "seed"):
            given = needed(request, name, text)
            if key == "input":
                inputs.append(given)
            elif key == "set":
                changes.append(given)
            elif key == "seed":
                own[key] = seed(request, given)
            else:
                (way if key == "device" else own)[key] = given
        elif switch in SWITCHES and text is None:
            (way if switch == "weightless" else own)[switch] = key == switch
        elif has_fields:
            changes.append(f"{key}={text}" if text is not None else f"{switch}={key == switch}")
        else:
            options.append(word(name, text))
    if inputs:
        own["inputs"] = tuple(inputs)
    way["changes"] = tuple(changes)
    return msgspec.structs.replace(
        request, options=tuple(options), way=msgspec.structs.replace(request.way, **way), **own
    )


def word(name: str, text: str | None) -> str:
    return f"--{name}" if text is None else f"--{name}={text}"


def needed(request: Request, name: str, text: str | None) -> str:
    if text is None:
        raise TargetError(f"{request.target}: {option(name)} needs a value: {name}=…")
    return text


def seed(request: Request, text: str) -> int:
    number = whole(text, most=2**64 - 1)
    if number is None:
        raise TargetError(f"{request.target}: seed is a whole number, not {text!r}")
    return number
