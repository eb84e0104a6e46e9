"""What a model is given: made from the parameters of its forward."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers import PreTrainedModel

from .sizes import Sizes

RESERVED = 10
"""Ids at either end of the vocabulary that stand for something: beginnings, ends, images, audio."""


def ids(batch: int, length: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(RESERVED, vocabulary - RESERVED, (batch, length))


def mask(batch: int, length: int) -> torch.Tensor:
    """The last row is one shorter than the others."""
    found = torch.ones(batch, length, dtype=torch.long)
    found[-1, -1:] = 0
    return found


def inputs(model: PreTrainedModel, z: Sizes) -> dict[str, Any]:
    """Arguments of one forward; the same for the same sizes."""
    torch.manual_seed(z.B * 10000 + z.T * 100 + z.S)
    takes = inspect.signature(model.forward).parameters
    signal = next((name for name in SIGNALS if name in takes), None)
    decoded = "decoder_input_ids" in takes
    found: dict[str, Any] = {}
    if signal is not None and (model.main_input_name in (signal, "inputs") or "input_ids" not in takes):
        found |= SIGNALS[signal](model.config, z)
    else:
        length = z.S if decoded else z.T
        found["input_ids"] = ids(z.B, length, z.V)
        if "attention_mask" in takes:
            found["attention_mask"] = mask(z.B, length)
    if decoded:
        found["decoder_input_ids"] = ids(z.B, z.T, z.V)
    if "labels" in takes:
        found["labels"] = found.get("decoder_input_ids", found.get("input_ids", torch.zeros(z.B, dtype=torch.long)))
    return found | {name: value for name, value in special(model, z).items() if name in takes}


def special(model: PreTrainedModel, z: Sizes) -> dict[str, Any]:
    """What some types ask for, and their signature does not tell."""
    config = model.config
    if config.model_type == "dia":  # nine streams of sound, last
        return {"decoder_input_ids": ids(z.B, z.T * config.decoder_config.num_channels, z.V).view(z.B, z.T, -1)}
    if config.model_type.endswith("_assistant"):  # goes on from what a larger model has made
        text = config.text_config
        layers = text.per_layer_config if text.is_heterogeneous else [text] * len(text.layer_types)
        past = {
            kind: (torch.randn(z.B, layer.num_key_value_heads, z.S, layer.head_dim),) * 2
            for kind, layer in zip(text.layer_types, layers, strict=True)
        }
        embeddings = torch.randn(z.B, z.T, 2 * config.backbone_hidden_size)
        return {
            "input_ids": None,
            "inputs_embeds": embeddings,
            "attention_mask": mask(z.B, z.S),
            "shared_kv_states": past,
        }
    if config.model_type == "granite_speech5_ctc":  # four frames at once
        return {"input_features": torch.randn(z.B, 64, 4 * config.encoder_config.num_mel_bins)}
    if config.model_type == "omniasr_ctc":  # a channel of its own
        return {"input_values": torch.randn(z.B, 1, 4000)}
    if config.model_type == "kyutai_speech_to_text":
        return {"input_ids": ids(z.B, z.T * (config.num_codebooks + 1), z.V).view(z.B, z.T, -1)}
    if config.model_type == "voxtral_realtime":  # the sound is added to the tokens, one by one
        return {"input_features": torch.randn(z.B, config.audio_config.num_mel_bins, 8 * z.T)}
    if config.model_type == "siglip2":  # patches, of pictures of different sizes
        patch = config.vision_config.num_channels * config.vision_config.patch_size**2
        return {
            "pixel_values": torch.randn(z.B, 16, patch),
            "pixel_attention_mask": torch.ones(z.B, 16, dtype=torch.long),
            "spatial_shapes": torch.full((z.B, 2), 4),
        }
    return {}


def field(config: Any, *names: str, default: int) -> int:
    """The first of these fields that the configuration, or one inside of it, has."""
    inside = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    for each in (config, *inside):
        for name in names:
            value = getattr(each, name, None)
            if isinstance(value, (list, tuple)) and value:
                value = value[0]
            if isinstance(value, int):
                return value
    return default


def pixels(config: Any, z: Sizes) -> dict[str, Any]:
    side = field(config, "image_size", default=64)
    return {"pixel_values": torch.randn(z.B, field(config, "num_channels", default=3), side, side)}


def features(config: Any, z: Sizes) -> dict[str, Any]:
    names = "input_dim", "num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim"
    bins = field(config, *names, default=80)
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):  # channels first, of one length
        return {"input_features": torch.randn(z.B, bins, 2 * config.max_source_positions)}
    return {"input_features": torch.randn(z.B, 64, bins)}


def samples(config: Any, z: Sizes) -> dict[str, Any]:
    if hasattr(config, "frequency_stride"):  # a picture of sound
        return {"input_values": torch.randn(z.B, config.max_length, config.num_mel_bins)}
    return {"input_values": torch.randn(z.B, 4000)}


SIGNALS = {"pixel_values": pixels, "input_values": samples, "input_features": features}
"""Argument that is no text -> what makes it."""
