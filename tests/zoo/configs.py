"""A small random configuration of any model type that transformers knows, made from its default one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .exceptions import exception
from .fields import size_of
from .sizes import Sizes

LAYERS = "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers".split()
MOST_LAYERS = 6

ANYWAY = """head_dim num_key_value_heads n_inner vocab_size ffn_dim n_routed_experts num_experts_per_tok
    n_shared_experts""".split()
"""Set also where the default is None, which is read as what others make of it, or not read at all."""

PYRAMIDS: dict[str, Callable[[int], int]] = {
    "depths": lambda depth: 1,
    "hidden_sizes": lambda width: width // 4,
    "conv_dim": lambda width: width // 16,
}
"""Sizes stage by stage, that hang together with too much else to be made anew."""


def small(model_type: str, sizes: Sizes) -> PretrainedConfig:
    """A configuration of the type at these sizes."""
    kind = CONFIG_MAPPING[model_type]
    try:
        default = kind()
    except Exception:  # some have no default that is valid
        default = kind(**exception(kind, sizes))
    return kind(**shrunk(default, sizes))


def shrunk(config: PretrainedConfig, sizes: Sizes) -> dict[str, Any]:
    """The arguments that make `config` small."""
    kept = kept_layers(config)
    fields = {name: value for name, value in vars(config).items() if not name.startswith("_")}
    found = {name: made for name, value in fields.items() if (made := smaller(name, value, sizes)) is not None}
    if kept:
        found |= {name: len(kept) for name in LAYERS if name in fields}
        count = layers_of(config)
        each = {name: value for name, value in fields.items() if is_sequence(value) and len(value) == count}
        found |= {name: type(value)(value[index] for index in kept) for name, value in each.items()}
    outside = [name for name, value in fields.items() if is_special(name, value) and value >= sizes.V]
    found |= {name: sizes.V - 1 - index for index, name in enumerate(outside)}
    if "qk_rope_head_dim" in found:  # latent attention: head_dim is that, and keys are not grouped
        found.pop("head_dim", None)
        found["num_key_value_heads"] = sizes.H
    return found | exception(type(config), sizes)


def smaller(name: str, value: Any, sizes: Sizes) -> Any:
    """What a field is to be; None if it stays as it is."""
    if isinstance(value, PretrainedConfig):
        return type(value)(**shrunk(value, sizes))
    if name in PYRAMIDS and is_sequence(value):
        return type(value)(map(PYRAMIDS[name], value))
    is_size = isinstance(value, int) and not isinstance(value, bool)
    return size_of(name, sizes) if is_size or (value is None and name in ANYWAY) else None


def is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def is_special(name: str, value: Any) -> bool:
    """The id of a token that stands for something: an end, a picture."""
    return name.endswith(("_token_id", "_token_index")) and isinstance(value, int)


def layers_of(config: PretrainedConfig) -> int:
    return next((n for name in LAYERS if isinstance(n := vars(config).get(name), int)), 0)


def kept_layers(config: PretrainedConfig) -> list[int]:
    """The layers to keep, so that each kind of them is there; none if the configuration does not tell them apart."""
    count = layers_of(config)
    kinds = [
        value
        for value in vars(config).values()
        if is_sequence(value) and len(value) == count and all(isinstance(kind, str) for kind in value)
    ]
    if not kinds or count < 2:
        return []
    first = {kind: index for index, kind in reversed(list(enumerate(zip(*kinds, strict=True))))}
    return sorted({*first.values(), 0, 1})[:MOST_LAYERS]
