"""A small model of the same kind, for one that cannot run without its weights."""

from __future__ import annotations

from typing import Any

from ...capture.rebuild import attribute
from .configs import Recipe, names_of, parts, resized

__all__ = ["small"]

LAYERS = """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers
    num_decoder_layers depth""".split()
MOST = {"L": 2, "V": 1000}
PARTS = {"vocab": 1000, "expert": 16, "ffn": 256, "intermediate": 256}
"""What is in the name of a field -> the most that such a field has; experts have a table each, and so have words."""


def small(recipe: Recipe) -> Recipe:
    """Two layers, few words, few experts, and narrow feed-forwards."""
    config = recipe.config()
    fewer = {letter: most for letter, most in MOST.items() if letter in recipe.letters()}
    changes: dict[tuple[str, ...], Any] = {}
    for way, part in parts(config):
        for name in names_of(part):
            size = attribute(part, name)
            if type(size) is int and size > most(name):
                changes[(*way, name)] = most(name)
    return recipe.having({**changes, **resized(config, fewer)})


def most(name: str) -> float:
    """That a field may have."""
    if name in LAYERS:
        return MOST["L"]
    return min((limit for part, limit in PARTS.items() if part in name), default=float("inf"))
