"""The letters of axes: their order, and the names that configurations and builders have for their sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .errors import InputError

__all__ = [
    "MODEL_AXES",
    "NAME",
    "ORDER",
    "in_order",
    "is_unknown",
    "letters_of_names",
    "names_in",
    "sizes_in",
    "unknown",
]

ORDER = "BTSCHDGFVPL"
"""As a paper would list them; other letters follow."""

MODEL_AXES = "CHDGFV"
"""Those that are the model's own; the others, but L, are its input's."""

FIELDS = {
    "C": "C hidden_size d_model n_embd n_embed dim model_dim embed_dim emb_dim embedding_dim width hidden_dim",
    "H": "H num_attention_heads n_head n_heads num_heads nhead heads encoder_attention_heads decoder_attention_heads",
    "G": "G num_key_value_heads n_kv_heads num_kv_heads n_kv_head kv_heads",
    "D": "D head_dim d_kv dim_head d_head attention_head_dim",
    "F": "F intermediate_size ffn_dim n_inner d_ff d_inner ff_dim mlp_dim dim_feedforward ffn_hidden_size hidden_dim "
    "encoder_ffn_dim decoder_ffn_dim",
    "V": "V vocab_size n_vocab num_tokens",
    "L": "L num_hidden_layers n_layer n_layers num_layers depth encoder_layers decoder_layers num_decoder_layers",
}
"""Letter -> the names for its size. "hidden_dim" is F beside another name for C."""

NAMES = frozenset(" ".join(FIELDS.values()).split())


ROTATED = "qk_rope_head_dim"
"""The width of the part of a head that is rotated. Where there is one, no one number is the width of a head."""

NAME = re.compile(r"\?\d+|[^\W\d]\w*")
"""A letter within an axis."""


def names_in(axis: str | int) -> list[str]:
    """The letters of an axis: H and D of "H·D". An annotation may have longer names: "batch" and "heads"."""
    return NAME.findall(axis) if isinstance(axis, str) else []


def sizes_in(text: str) -> dict[str, int]:
    """The letters and their sizes in "C=768 H=12". `InputError` if it says anything else."""
    found: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, size = word.partition("=")
        if not name.isidentifier() or not size.isdecimal() or not 0 < int(size[:20]) < 2**63:
            raise InputError(
                f"axes {text!r} cannot be read: {word!r} is no letter and its size\nfor example: C=768 H=12"
            )
        if found.setdefault(name, int(size)) != int(size):
            raise InputError(f"axes {text!r} give {name} two sizes, {found[name]} and {size}")
    return found


def unknown(number: int) -> str:
    """What stands for an axis of the input as long as it is not known which it is."""
    return f"?{number}"


def is_unknown(axis: str | int) -> bool:
    return isinstance(axis, str) and axis.startswith("?") and NAME.fullmatch(axis) is not None


def in_order(letters: Mapping[str, int]) -> dict[str, int]:
    """The same in the order a reader expects: B T S C H D G F V P L, then any others."""
    order = [*ORDER, *letters]
    return {letter: letters[letter] for letter in dict.fromkeys(order) if letter in letters}


def letters_of_names(names: Iterable[str]) -> dict[str, str]:
    """Of some names those that size an axis -> its letter. Any other single capital is the letter that it is."""
    given = list(names)
    known = [name for name in given if name in NAMES]
    found = {name: name for name in given if len(name) == 1 and name.isupper() and name not in FIELDS}
    for letter, fields in FIELDS.items() if known else ():
        there = [name for name in fields.split() if name in known and name not in found]
        found |= dict.fromkeys(there[:-1] if len(there) > 1 and there[-1] == "hidden_dim" else there, letter)
    if ROTATED in given:
        return {name: letter for name, letter in found.items() if letter != "D"}
    return found
