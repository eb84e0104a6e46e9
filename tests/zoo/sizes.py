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


def other_inputs(sizes: Sizes, seed: int) -> Sizes:
    """Other lengths, for the same model."""
    rng = random.Random(seed)
    b, t, s = rng.sample([2, 4, 5, 6, 8, 9, 10, 12, 13, 14], 3)
    return sizes._replace(B=b, T=t, S=s)


def other_model(sizes: Sizes, seed: int) -> Sizes:
    """Other lengths, and another model of the same type."""
    rng = random.Random(seed)
    heads = rng.choice([2, 6, 8])
    return other_inputs(sizes, seed)._replace(
        H=heads,
        G=rng.choice([g for g in (1, 2, 3, 4) if heads % g == 0]),
        D=rng.choice([8, 24, 32]),
        F=8 * rng.choice([9, 13, 17]),
        V=rng.choice([103, 107, 109, 113]),
    )
