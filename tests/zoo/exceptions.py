"""What the rules for fields get wrong: type or class of a configuration -> fields, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PretrainedConfig

from .sizes import Sizes

FULL = {"rope_type": "default", "rope_theta": 1e4}

EXCEPTIONS: dict[str, tuple[str, Callable[[Sizes], dict[str, Any]]]] = {
    # widths that must agree with each other, and have names of their own
    "squeezebert": ("nothing projects the embedding", lambda z: {"embedding_size": z.C}),
    "reformer": (
        "axial positions fill the width, and the table",
        lambda z: {
            "axial_pos_embds_dim": (z.C // 4, z.C - z.C // 4),
            "axial_pos_shape": (8, 16),
            "attn_layers": ["local", "lsh"],
        },
    ),
    "longcat_flash": ("rotates what it calls head_dim", lambda z: {"head_dim": 8}),
    "dots3_note_text": ("sliding layers have wider heads", lambda z: {"head_dim": 20}),
    "mamba2": ("its heads are those of a state space", lambda z: {"num_heads": z.h, "head_dim": z.d}),
    "FunAsrNanoAdaptorConfig": ("a quarter of the width", lambda z: {"intermediate_size": z.C // 4}),
    "bit": (
        "normalised in 32 groups",
        lambda z: {"embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048]},
    ),
    "hgnet_v2": ("widths in many fields", lambda z: {"hidden_sizes": [256, 512, 1024, 2048]}),
    "textnet": ("widths in many fields", lambda z: {"hidden_sizes": [64, 64, 128, 256, 512], "image_size": 64}),
    "donut-swin": (
        "3, 6, 12 and 24 heads, on a grid halved three times",
        lambda z: {"embed_dim": 24, "window_size": 2},
    ),
    "swin": ("3, 6, 12 and 24 heads, on a grid halved three times", lambda z: {"embed_dim": 24, "window_size": 2}),
    "swinv2": ("3, 6, 12 and 24 heads, on a grid halved three times", lambda z: {"embed_dim": 24, "window_size": 2}),
    "musicgen_decoder": ("streams of sound are rows of the batch", lambda z: {"num_codebooks": 1}),
    "musicgen_melody_decoder": ("streams of sound are rows of the batch", lambda z: {"num_codebooks": 1}),
    # heads that are not grouped
    "GraniteSpeech5EncoderConfig": ("keys are not repeated", lambda z: {"num_key_value_heads": z.H}),
    "esmc": ("refuses grouped heads", lambda z: {"num_key_value_heads": z.H}),
    "moonshine": (
        "counts query heads by key heads",
        lambda z: {"encoder_num_key_value_heads": z.H, "decoder_num_key_value_heads": z.H},
    ),
    "moonshine_streaming": ("counts query heads by key heads", lambda z: {"num_key_value_heads": z.H}),
    # layers that are chosen by number
    "dory": (
        "three parts",
        lambda z: {
            "num_hidden_layers": 3,
            "n_input_layers": 1,
            "n_recurrent_layers": 1,
            "n_output_layers": 1,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        },
    ),
    "jamba": ("one layer of attention in two", lambda z: {"attn_layer_period": 2, "attn_layer_offset": 1}),
    "recurrent_gemma": ("the third layer is attention", lambda z: {"num_hidden_layers": 3}),
    "lfm2_moe": ("no default", lambda z: {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2}),
    "zamba": (
        "layers that share weights: two of them; goes through its heads one by one",
        lambda z: {
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
            "num_hidden_layers": 4,
            "n_mamba_heads": 2,
        },
    ),
    "bamba": ("no attention by default", lambda z: {"attn_layer_indices": [1]}),
    "granitemoehybrid": ("no attention by default", lambda z: {"layer_types": ["linear_attention", "full_attention"]}),
    "gpt_neo": ("layers by kind and count", lambda z: {"attention_types": [[["global", "local"], 1]]}),
    # what has no default that runs
    "esm": ("None is no padding", lambda z: {"pad_token_id": 1}),
    "xmod": ("a language must be named", lambda z: {"default_language": "en_XX"}),
    "dbrx": (
        "attention has no rope_theta",
        lambda z: {
            "attn_config": {"rope_theta": 1e4, "kv_n_heads": z.G, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": z.F, "moe_num_experts": 6, "moe_top_k": 2},
        },
    ),
    "cohere_compass_text": (
        "rotations by kind of layer",
        lambda z: {"rope_parameters": {"full_attention": dict(FULL), "sliding_attention": dict(FULL)}},
    ),
    "gemma4_assistant": (
        "shares all keys and values, and has no embedding for each layer",
        lambda z: {
            "backbone_hidden_size": z.C,
            "text_config": {
                "model_type": "gemma4_text",
                "hidden_size": z.C,
                "intermediate_size": z.F,
                "num_hidden_layers": 2,
                "layer_types": ["sliding_attention", "full_attention"],
                "num_attention_heads": z.H,
                "num_key_value_heads": z.G,
                "head_dim": z.D,
                "global_head_dim": z.D,
                "vocab_size": z.V,
                "vocab_size_per_layer_input": 0,
                "hidden_size_per_layer_input": 0,
                "num_kv_shared_layers": 2,
            },
        },
    ),
    "qwen4_exp_text": (
        "None is no budget",
        lambda z: {
            "indexer_budget": 8,
            "indexer_compress_ratio": 2,
            "indexer_n_heads": z.i,
            "indexer_kv_heads": 1,
            "indexer_head_dim": z.j,
        },
    ),
    "zaya": ("takes one expert", lambda z: {"num_experts_per_tok": 1}),
    "shieldgemma2": ("looks at two logits", lambda z: {"yes_token_index": 11, "no_token_index": 12}),
    "efficientnet": (
        "a picture of 600 pixels, 55 layers",
        lambda z: {"image_size": 64, "depth_coefficient": 0.1, "width_coefficient": 0.5, "hidden_dim": 640},
    ),
    "xlstm": ("keys are rounded up to 64, but not everywhere", lambda z: {"qk_dim_factor": 1.0}),
}


def exception(config: type[PretrainedConfig], sizes: Sizes) -> dict[str, Any]:
    """The fields that are an exception in a configuration of this class."""
    found = EXCEPTIONS.get(config.model_type) or EXCEPTIONS.get(config.__name__)
    return found[1](sizes) if found else {}
