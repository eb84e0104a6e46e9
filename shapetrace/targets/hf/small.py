"""A small model of the same kind, for one that cannot run without its weights."""

from __future__ import annotations

from typing import Any

from ...capture.rebuild import attribute
from .configs import Recipe, parts, resized

__all__ = ["small"]

LAYERS = """num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers
    num_decoder_layers depth""".split()
MOST = {"L": 2, "V": 1000}


def small(recipe: Recipe) -> Recipe:
    """Two layers and few words."""
    config = recipe.config()
    fewer = {letter: most for letter, most in MOST.items() if letter in recipe.letters()}
    changes: dict[tuple[str, ...], Any] = {}
    for way, part in parts(config):
        for name in LAYERS:
            size = attribute(part, name)
            if type(size) is int and size > MOST["L"]:
                changes[(*way, name)] = MOST["L"]
    return recipe.having({**resized(config, fewer), **changes})
