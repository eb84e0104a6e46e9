"""Axes that the author of a model has written down: `x: Float[Tensor, "B T C"]`, an annotation of jaxtyping.

jaxtyping itself is not needed here: its annotations are classes that carry the text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, get_args, get_origin

import msgspec

from ..passes.nesting import RETURN, returned_by
from ..schema import Trace
from ..schema import part as part_of

__all__ = ["Annotation", "Returned", "annotated", "fitting", "returned"]


class Annotation(msgspec.Struct, frozen=True):
    """What is written of one tensor: a word for each dim, and the dtypes that it may have; any, if there are none."""

    text: str
    words: tuple[str, ...]
    dtypes: tuple[str, ...]

    def fits(self, shape: Sequence[int], dtype: str) -> bool:
        """Whether a tensor is as written, as far as that is told by numbers and not by names."""
        words = self.along(len(shape))
        is_of_type = not self.dtypes or dtype in self.dtypes
        return is_of_type and words is not None and all(map(is_allowed, words, shape))

    def axes(self, shape: Sequence[int]) -> tuple[str | None, ...]:
        """Of each dim its name; None where it has none, and of all if they are not so many."""
        words = self.along(len(shape))
        return (None,) * len(shape) if words is None else tuple(map(axis, words, shape))

    def along(self, rank: int) -> list[str] | None:
        """A word for each of so many dims; None if there are too many or too few."""
        words = self.words
        many = next((place for place, word in enumerate(words) if is_variadic(word)), None)
        if many is None:
            return [*words] if len(words) == rank else None
        between = rank - len(words) + 1
        return [*words[:many], *repeat("_", between), *words[many + 1 :]] if between >= 0 else None


class Returned(msgspec.Struct, frozen=True):
    """A tensor that a model returned, and what is written of it: its axes, and the annotation if it is not so."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[str | None, ...]
    unlike: str


def annotated(forward: Callable[..., Any]) -> dict[str, list[Annotation]]:
    """Of each parameter of `forward` that says so, what is written of it: the one or the other. Of what it returns that
    stands at "return", and of the parts of a tuple at "return[0]" and so on."""
    for evaluate in (True, False):
        try:
            signature = inspect.signature(forward, eval_str=evaluate)
        except Exception:  # an annotation may be any code
            continue
        parts = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        parts |= dict(parts_of(signature.return_annotation))
        found = {name: list(written_in(each)) for name, each in parts.items()}
        return {name: written for name, written in found.items() if written}
    return {}


def parts_of(returned: object) -> Iterator[tuple[str, object]]:
    is_tuple = get_origin(returned) is tuple
    parts = get_args(returned) if is_tuple else ()
    yield from ((part_of(RETURN, str(place)), each) for place, each in enumerate(parts))
    if not is_tuple:
        yield RETURN, returned


def returned(trace: Trace, written: Mapping[str, Sequence[Annotation]]) -> list[Returned]:
    """What the model returned, as far as something is written of it."""
    found = []
    for name, tensor in returned_by(trace.calls).items():
        if name in written:
            axes, unlike = fitting(written[name], tensor.shape, tensor.dtype)
            found.append(Returned(name, tensor.shape, tensor.dtype, axes, unlike))
    return found


def written_in(annotation: object) -> Iterator[Annotation]:
    """What one says of dims; also of `… | None` and `Annotated[…, …]`."""
    for part in (annotation, *get_args(annotation)):
        text, dtypes = getattr(part, "dim_str", None), getattr(part, "dtypes", ())
        if isinstance(text, str):
            are_names = isinstance(dtypes, tuple | list) and all(isinstance(dtype, str) for dtype in dtypes)
            name = getattr(part, "__name__", repr(text))
            yield Annotation(str(name), tuple(text.split()), tuple(dtypes) if are_names else ())


def fitting(written: Sequence[Annotation], shape: Sequence[int], dtype: str) -> tuple[tuple[str | None, ...], str]:
    """The axes of a tensor by the first of what is written that it is like, or that has as many dims; and what it is
    not like, or ""."""
    for one in written:
        if one.fits(shape, dtype):
            return one.axes(shape), ""
    like = next((one for one in written if one.along(len(shape)) is not None), None)
    axes = (None,) * len(shape) if like is None else like.axes(shape)
    return axes, " | ".join(one.text for one in written)


def is_variadic(word: str) -> bool:
    return word.lstrip("#?") == "..." or word.lstrip("#?").startswith("*")


def is_allowed(word: str, size: int) -> bool:
    """Whether a dim that is written as a number, as in "3" or "rows=3", has it."""
    number = word.lstrip("#?").rpartition("=")[2]
    return not number.isdecimal() or int(number[:20]) == size or (word.startswith("#") and size == 1)


def axis(word: str, size: int) -> str | None:
    """The name in a word of an annotation: "T" of "T=4", and of "#T" if it is more than 1; none in "3" and "T+1"."""
    name = word.lstrip("#?").partition("=")[0]
    is_broadcast = size == 1 and "#" in word
    return name if name.isidentifier() and not name.startswith("_") and not is_broadcast else None
