"""A target as a source of probes: its builder makes it again at other sizes, and its inputs with it."""

from __future__ import annotations

from torch import nn

from ..capture.choices import Sizes
from ..capture.copied import copied
from ..capture.given import Given, given
from ..capture.probe import Source
from ..capture.rebuild import letters_of
from ..capture.weightless import within
from ..letters import TIED
from .ready import Ready

__all__ = ["source"]


def source(ready: Ready, plain: Given) -> Source | None:
    """None if no option of the builder, and no spec, sizes an axis.

    An option that was left open, as F is, has the size that the configuration of the model says.
    """
    known = letters_of(ready.model)
    sizes = {letter: known.get(letter) if size is None else size for letter, size in ready.takes.items()}
    letters = {letter: size for letter, size in sizes.items() if size is not None}
    if not letters:
        return None
    if "D" in known and {"C", "H"} <= letters.keys():
        letters["D"] = known["D"]
    tied = {  # each query head has keys of its own, at other sizes too
        letter: other
        for letter, other in TIED.items()
        if other in letters and letter in sizes and letters.get(letter, known.get(other)) == letters[other]
    }
    letters = {letter: size for letter, size in letters.items() if letter not in tied}

    def build(new: Sizes) -> tuple[nn.Module, Given]:
        if not new:
            return copied(ready.model), plain
        model, args, kwargs = ready.again(
            {**new, **{letter: new[other] for letter, other in tied.items() if other in new}}
        )
        own = copied(model) if model is ready.model else model  # a target that is a model, or gives one again and again
        return own, given(own.forward, args, kwargs)

    return Source(plain, letters, build, within=within(ready.model))
