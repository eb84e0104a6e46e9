"""What a model of transformers is given: made from what it says it takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...capture.rebuild import attribute

__all__ = ["inputs", "lengths"]

SIGNALS = ("pixel_values", "input_values", "input_features")
"""The main input of models that take no text."""

RESERVED = 10
"""Ids at either end of the vocabulary that stand for something: beginnings, ends, images."""


def takes(kind: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(kind.forward).parameters


def signals(kind: Any, config: Any) -> list[str]:
    """The inputs of it that are no text: all that a model that compares has, else the one that stands for text."""
    found = [name for name in SIGNALS if name in takes(kind)]
    if hasattr(config, "projection_dim") and hasattr(config, "text_config"):
        return found
    is_text = "input_ids" in takes(kind) and kind.main_input_name not in (*found, "inputs")
    return [] if is_text else found[:1]


def has_text(kind: Any, config: Any) -> bool:
    is_pair = hasattr(config, "projection_dim") and hasattr(config, "text_config")
    return "input_ids" in takes(kind) and (is_pair or not signals(kind, config))


def lengths(kind: Any, config: Any) -> dict[str, int]:
    """The letters of the input, and their sizes where nobody says another."""
    is_decoded = "decoder_input_ids" in takes(kind)
    found = {"B": 2}
    if is_decoded or has_text(kind, config):
        found["T"] = 8
    if is_decoded and has_text(kind, config):
        found["S"] = 6
    return found


def inputs(model: Any, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of one forward. Integers are random, of what is no integer too."""
    kind, config = type(model), model.config
    batch, length = sizes["B"], sizes.get("T", 8)
    found: dict[str, Any] = {}
    for name in signals(kind, config):
        found |= MAKERS[name](model, batch)
    vocabulary = smallest(model)
    if has_text(kind, config):
        own = sizes.get("S", length)
        found["input_ids"] = ids(batch, own, vocabulary)
        if "attention_mask" in takes(kind):
            found["attention_mask"] = torch.ones(batch, own, dtype=torch.long)
    if "decoder_input_ids" in takes(kind):
        found["decoder_input_ids"] = ids(batch, length, vocabulary)
    return found | special(model, batch, length)


def ids(batch: int, length: int, vocabulary: int) -> Tensor:
    low = RESERVED if vocabulary > 4 * RESERVED else 0
    return torch.randint(low, max(vocabulary - low, low + 1), (batch, length))


def smallest(model: Any) -> int:
    """The ids that there are."""
    from .configs import parts

    found = (attribute(part, "vocab_size") for _, part in parts(model.config))
    return min((size for size in found if type(size) is int and size > 1), default=RESERVED)


def field(config: Any, *names: str, default: int) -> int:
    """The first of these fields that the configuration, or one inside of it, has."""
    from .configs import parts

    for _, part in parts(config):
        for name in names:
            value = attribute(part, name)
            if isinstance(value, list | tuple) and value:
                value = value[0]
            if type(value) is int:
                return value
    return default


def pixels(model: Any, batch: int) -> dict[str, Tensor]:
    config = model.config
    side = field(config, "image_size", default=224)
    sizes = attribute(config, "image_size")
    height, width = sizes if isinstance(sizes, list | tuple) and len(sizes) == 2 else (side, side)
    return {
        "pixel_values": floats(model, batch, field(config, "num_channels", "in_channels", default=3), height, width)
    }


def features(model: Any, batch: int) -> dict[str, Tensor]:
    config = model.config
    names = "input_dim", "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_size"
    bins = field(config, *names, default=80)
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):  # channels first, of one length
        return {"input_features": floats(model, batch, bins, 2 * config.max_source_positions)}
    return {"input_features": floats(model, batch, 64, bins)}


def samples(model: Any, batch: int) -> dict[str, Tensor]:
    config = model.config
    if hasattr(config, "frequency_stride"):  # a picture of sound
        return {"input_values": floats(model, batch, config.max_length, config.num_mel_bins)}
    return {"input_values": floats(model, batch, 4000)}


MAKERS = {"pixel_values": pixels, "input_values": samples, "input_features": features}


def floats(model: Any, *sizes: int) -> Tensor:
    """Of the dtype of the model."""
    return torch.randn(sizes).to(next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32))


def special(model: Any, batch: int, length: int) -> dict[str, Any]:
    """What some types ask for, and their signature does not tell."""
    from .configs import parts

    config = model.config
    if config.model_type == "dia" and "decoder_input_ids" in takes(type(model)):  # nine streams of sound, last
        streams = config.decoder_config.num_channels
        return {"decoder_input_ids": ids(batch, length * streams, smallest(model)).view(batch, length, -1)}
    books = [
        part.num_codebooks for _, part in parts(config) if {"num_codebooks", "audio_channels"} <= vars(part).keys()
    ]
    if books:  # a row for each
        name = "decoder_input_ids" if "decoder_input_ids" in takes(type(model)) else "input_ids"
        return {name: ids(batch * books[0], length, smallest(model))}
    if config.model_type == "kyutai_speech_to_text":
        return {"input_ids": ids(batch, length * (config.num_codebooks + 1), smallest(model)).view(batch, length, -1)}
    return {}
