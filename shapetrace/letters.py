"""The letters of axes: their order, and the names that configurations and builders have for their sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .errors import InputError

__all__ = [
    "FIELDS",
    "MADE",
    "MODEL_AXES",
    "NAME",
    "ORDER",
    "PART_AXES",
    "STATE_AXES",
    "TIED",
    "in_order",
    "is_of_input",
    "is_unknown",
    "letters_of_names",
    "names_in",
    "sizes_in",
    "unknown",
]

ORDER = "BTSCHDGFVPLEKJRUQZNAMnehgdkwcij"
"""As a paper would list them; other letters follow."""

MODEL_AXES = "CHDGFV"
"""Those that are the model's own."""

STATE_AXES = "hgdkwc"
"""Those of a state space or of linear attention, which stand beside attention with its own heads."""

PART_AXES = f"EKJRUQZNAMne{STATE_AXES}ij"
"""Those that only models of some kind have. What is among neither of these, but L, is an axis of the input."""

FIELDS = {
    "C": "C hidden_size d_model n_embd n_embed dim model_dim embed_dim emb_dim embedding_dim width lru_width "
    "hidden_dim",
    "H": "H num_attention_heads n_head n_heads num_heads nhead heads attention_heads encoder_attention_heads "
    "decoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads speech_encoder_attention_heads",
    "G": "G num_key_value_heads n_kv_heads num_kv_heads n_kv_head kv_heads kv_n_heads",
    "D": "D head_dim d_kv dim_head d_head attention_head_dim attention_head_size kv_channels",
    "F": "F intermediate_size ffn_dim n_inner d_ff d_inner ff_dim mlp_dim dim_feedforward ffn_hidden_size hidden_dim "
    "encoder_ffn_dim decoder_ffn_dim speech_encoder_intermediate_size",
    "V": "V vocab_size n_vocab num_tokens",
    "L": "L num_hidden_layers n_layer n_layers num_layers depth encoder_layers decoder_layers num_decoder_layers",
    "E": "num_experts n_routed_experts num_local_experts moe_num_experts n_experts",
    "K": "num_experts_per_tok num_experts_per_token moe_topk moe_top_k top_k_experts",
    "J": "moe_intermediate_size expert_ffn_hidden_size shared_expert_intermediate_size shared_intermediate_size",
    "R": "qk_rope_head_dim rotary_dim",
    "U": "qk_nope_head_dim",
    "Q": "q_lora_rank",
    "Z": "kv_lora_rank",
    "N": "state_size mamba_d_state ssm_state_size d_state",
    "A": "time_step_rank mamba_dt_rank dt_rank",
    "M": "embedding_size word_embed_proj_dim",
    "n": "hc_mult hc_count altup_num_inputs",
    "e": "hidden_size_per_layer_input",
    "h": "mamba_n_heads mamba_num_heads n_mamba_heads linear_num_value_heads linear_num_heads",
    "g": "mamba_n_groups mamba_ngroups n_groups linear_num_key_heads",
    "d": "mamba_d_head mamba_head_dim mamba_headdim linear_value_head_dim linear_head_dim",
    "k": "linear_key_head_dim",
    "w": "conv_kernel d_conv mamba_d_conv linear_conv_kernel_dim short_conv_kernel_size conv_L_cache conv_kernel_size",
    "c": "chunk_size mamba_chunk_size",
    "i": "index_n_heads indexer_n_heads",
    "j": "index_head_dim indexer_head_dim",
}
"""Letter -> the names for its size. "hidden_dim" is F beside another name for C.

E, K, J   experts, those of them that each token goes to, and the width inside one
R, U      the part of a head that is rotated, and that which is not, where a head is said to have both
Q, Z      the ranks of what queries, and what keys and values are projected from
N, A      the state of each channel, and the rank of its time step, in a state space
M         the width of the embedding, where it is another than C
n         the residual streams that go side by side: what hyper-connections call their expansion
e         the width of the embedding that each layer adds of its own
h, g      the heads of a state space or of linear attention, and the groups that share an input, or the heads of keys
d, k      the width of such a head, and that of its keys
w, c      the window of its convolution, and the length of the chunks that it goes by
i, j      the heads of an indexer, that picks the keys which are attended to, and their width
"""

NAMES = frozenset(" ".join(FIELDS.values()).split())

HEADS = "h"
"""The heads, as the paper has them, beside a name for the width of the model; by itself it may be a height."""

ROTATED = "qk_rope_head_dim"
"""Where heads are said to have a part that is rotated, D is the width of their values alone."""

IN_ROTATED = {"head_dim": "R", "v_head_dim": "D"}

OF_STATE = frozenset("conv_kernel d_conv n_groups chunk_size".split())
"""Words that others use as well: for the kernel of any convolution, and whatever goes by groups or in chunks."""

IN_STATE = {"num_heads": "h", "head_dim": "d"}
"""What a state space calls its heads where there are no others."""

MADE = {
    "qk_head_dim": ("U+R",),
    "attention_hidden_size": ("C", "2·C"),
    "mamba_d_ssm": ("h·d",),
    "expand": ("h·d/C",),
    "mamba_expand": ("h·d/C",),
    "swa_num_attention_heads": ("H",),
    "swa_num_key_value_heads": ("G",),
    "num_global_key_value_heads": ("G",),
    "swa_head_dim": ("D",),
    "swa_v_head_dim": ("D",),
    "global_head_dim": ("D",),
}
"""Names for what may be made of axes, and how; layers of another kind may have heads of their own, or the same."""

TIED = {"G": "H", "M": "C", "g": "h", "k": "d"}
"""Letters that are another where they have its size: each query head has keys of its own, or nothing is projected."""

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


def is_of_input(letter: str) -> bool:
    """Whether it is no axis of the model's own."""
    return letter not in MODEL_AXES and letter not in PART_AXES and letter != "L"


def in_order(letters: Mapping[str, int]) -> dict[str, int]:
    """The same in the order a reader expects: B T S C H D G F V P L, then any others."""
    order = [*ORDER, *letters]
    return {letter: letters[letter] for letter in dict.fromkeys(order) if letter in letters}


def letters_of_names(names: Iterable[str]) -> dict[str, str]:
    """Of some names those that size an axis -> its letter. Any other single capital is the letter that it is."""
    given = list(names)
    known = [name for name in given if name in NAMES]
    found = {name: name for name in given if len(name) == 1 and name.isupper() and name not in FIELDS.get(name, "")}
    for letter, fields in FIELDS.items() if known else ():
        there = [name for name in fields.split() if name in known and name not in found]
        found |= dict.fromkeys(there[:-1] if len(there) > 1 and there[-1] == "hidden_dim" else there, letter)
    if HEADS in given and "C" in found.values() and "H" not in found.values():
        found[HEADS] = "H"
    if ROTATED in given:
        found = {name: letter for name, letter in found.items() if letter != "D"}
        found |= {name: letter for name, letter in IN_ROTATED.items() if name in given}
    if "N" not in found.values():
        found = {name: letter for name, letter in found.items() if name not in OF_STATE}
    if "expand" in given and "g" in found.values() and "H" in found.values() and "num_attention_heads" not in given:
        found |= {name: letter for name, letter in IN_STATE.items() if name in given}
    if not {"h", "d"} <= {*found.values()}:
        found = {name: letter for name, letter in found.items() if letter not in "hgdc"}
    return found
