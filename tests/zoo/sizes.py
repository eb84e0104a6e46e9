"""The sizes a model of the zoo is built and run at, by letter."""

from __future__ import annotations

import random
from typing import NamedTuple


class Sizes(NamedTuple):
    """What a run of the zoo is made of. All differ, and none is the product or the double of others by chance.

    B, T, S   of the inputs; a model without a decoder of its own has no S
    H, G, D   heads, key/value heads, and their width; the model's width C is `H * D`
    F, V      feed-forward width and vocabulary
    E, K, J   experts, those of them that a token goes to, and the width inside one
    R, U      the parts of a head that are rotated and that are not
    Q, Z      ranks of queries, and of keys and values
    N, A      a state space's state, and the rank of its time step
    M         width of the embedding, where it may be another
    h, g, d   heads of a state space or of linear attention, its groups or heads of keys, and the width of a head
    k         width of its keys, where it may be another
    w, c      window of its convolution, and length of its chunks
    i, j      heads of an indexer, and their width
    n, e      residual streams side by side, and the width of the embedding that each layer adds
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
    E: int = 6
    K: int = 2
    J: int = 40
    R: int = 8
    U: int = 12
    Q: int = 36
    Z: int = 28
    N: int = 10
    A: int = 6
    M: int = 20
    h: int = 16
    g: int = 4
    d: int = 8
    k: int = 18
    w: int = 4
    c: int = 5
    i: int = 3
    j: int = 26
    n: int = 5
    e: int = 14
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
        parts = {letter: rng.sample(its, 3) for letter, its in PARTS.items()}
        many = rng.sample(MANY, 3)
        found = [
            Sizes(
                *lengths[i::3],  # B, T, S
                *heads[i],
                D=widths[i],
                F=inner[i],
                V=words[i],
                L=sizes.L,
                h=heads[i][0] * many[i] // 4,
                g=rng.choice([each for each in (1, 2, 3, 5) if heads[i][0] * many[i] // 4 % each == 0]),
                d=widths[i] * 8 // many[i],
                **{letter: its[i] for letter, its in parts.items()},
            )
            for i in range(3)
        ]
        if all(
            len({getattr(z, letter) for z in (sizes, *found)}) == 4 for letter in ("H", "G", "C", "F", "h", "d", *PARTS)
        ):
            return found


WORDS = [103, 107, 109, 113]

MANY = [2, 4, 8, 16]
"""Quarters of heads that a state space has for each of attention: its width is always twice that of the model, for many
configurations say so."""

PARTS = {
    "E": [7, 8, 9, 12],
    "K": [1, 3, 4, 5],
    "J": [24, 48, 56, 64],
    "R": [2, 4, 6],
    "U": [8, 14, 18, 22],
    "Q": [24, 30, 44, 50],
    "Z": [16, 20, 34, 46],
    "N": [5, 8, 12, 14],
    "A": [3, 4, 5, 8],
    "M": [12, 28, 36, 44],
    "k": [10, 14, 22, 26],
    "w": [2, 3, 5, 6],
    "c": [3, 4, 6, 8],
    "i": [2, 5, 6, 7],
    "j": [12, 18, 30, 34],
    "n": [2, 3, 4, 6],
    "e": [10, 20, 22, 38],
}
"""The sizes that axes of some models may have elsewhere. What is rotated is no more than the least width of a head."""


def same_model(sizes: Sizes, other: Sizes) -> Sizes:
    """The model of the one, with the inputs of the other."""
    return sizes._replace(B=other.B, T=other.T, S=other.S)
