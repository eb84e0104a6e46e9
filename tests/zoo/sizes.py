"""The sizes a model of the zoo is built and run at, by letter."""

from __future__ import annotations

import random
from typing import NamedTuple


class Sizes(NamedTuple):
    """What a run of the zoo is made of. All differ, and none is the product or the double of others by chance.

    B, T, S   of the inputs; a model without a decoder of its own has no S
    H, G, D   heads, key/value heads, and their width; the model's width C is `H * D`
    F, V      feed-forward width and vocabulary
    L         layers, where the configuration does not ask for more of them to have each kind once
    """

    B: int = 3
    T: int = 7
    S: int = 11
    H: int = 4
    G: int = 2
    D: int = 16
    F: int = 88
    V: int = 101
    L: int = 2

    @property
    def C(self) -> int:
        return self.H * self.D


def others(sizes: Sizes, seed: int) -> list[Sizes]:
    """Three other settings, random, of the inputs and the model; each letter differs from one to the next."""
    rng = random.Random(seed)
    while True:
        lengths = rng.sample([2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 17, 19], 9)
        heads = rng.sample([(2, 1), (6, 3), (6, 1), (8, 4), (10, 5)], 3)  # with their key/value heads
        widths, inner, words = rng.sample([8, 24, 32, 40], 3), rng.sample(range(72, 160, 8), 3), rng.sample(WORDS, 3)
        found = [
            Sizes(*lengths[i::3], *heads[i], D=widths[i], F=inner[i], V=words[i], L=sizes.L)  # B, T, S, H, G
            for i in range(3)
        ]
        if all(len({getattr(z, letter) for z in (sizes, *found)}) == 4 for letter in ("H", "G", "C", "F")):
            return found


WORDS = [103, 107, 109, 113]


def same_model(sizes: Sizes, other: Sizes) -> Sizes:
    """The model of the one, with the inputs of the other."""
    return sizes._replace(B=other.B, T=other.T, S=other.S)
