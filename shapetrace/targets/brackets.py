"""Options that a target has with it: `gpt[norm=post, G=1]` is `gpt --norm post --G 1`."""

from __future__ import annotations

import re

from ..errors import TargetError

__all__ = ["split"]

OPTION = re.compile(r"\s*(?:--)?(\w[\w-]*)\s*(?:=(.*))?", re.DOTALL)


def split(target: str) -> tuple[str, tuple[str, ...]]:
    """The target itself, and its options as they would follow it on a command line. `TargetError` if it is neither."""
    where, bracket, inside = target.removesuffix("]").rpartition("[")
    if not target.endswith("]") or not bracket:
        return target, ()
    if not where:
        raise TargetError(f"{target} names no target before its options; for example gpt[norm=post]")
    found: list[str] = []
    for word in inside.split(",") if inside.strip() else ():
        option = OPTION.fullmatch(word)
        if option is None:
            raise TargetError(f"{target}: {word.strip()!r} is no option; in brackets stands name=value, …")
        name, text = option.groups()
        found.append(f"--{name}" if text is None else f"--{name}={text.strip()}")
    return where, tuple(found)
