"""Axes that the author of a model has written down: `x: Float[Tensor, "B T C"]`, an annotation of jaxtyping.

jaxtyping itself is not needed here: its annotations are classes that carry the text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

__all__ = ["annotated_axes"]


def annotated_axes(forward: Callable[..., Any]) -> dict[str, Callable[[int], tuple[str | None, ...]]]:
    """Of each parameter of `forward` that says so, the axes of a tensor of a given rank; None where it names none."""
    for evaluate in (True, False):
        try:
            parameters = inspect.signature(forward, eval_str=evaluate).parameters
        except Exception:  # an annotation may be any code
            continue
        texts = {name: text_in(parameter.annotation) for name, parameter in parameters.items()}
        return {name: reader(text.split()) for name, text in texts.items() if text is not None}
    return {}


def text_in(annotation: object) -> str | None:
    """What one says of dims; also of `… | None` and `Annotated[…, …]`."""
    found = (getattr(part, "dim_str", None) for part in (annotation, *get_args(annotation)))
    return next((text for text in found if isinstance(text, str)), None)


def reader(words: list[str]) -> Callable[[int], tuple[str | None, ...]]:
    many = next((place for place, word in enumerate(words) if word == "..." or word.startswith("*")), None)

    def axes(rank: int) -> tuple[str | None, ...]:
        if many is None:
            return tuple(map(axis, words)) if len(words) == rank else (None,) * rank
        before, after = words[:many], words[many + 1 :]
        between = rank - len(before) - len(after)
        return (*map(axis, before), *(None,) * between, *map(axis, after)) if between >= 0 else (None,) * rank

    return axes


def axis(word: str) -> str | None:
    """The name in a word of an annotation: "T" of "#T" and of "T=4"; none in "3", "_" and "T+1"."""
    name = word.lstrip("#?").partition("=")[0]
    return name if name.isidentifier() and not name.startswith("_") else None
