"""Named variants: the same models with other choices, which any option still changes.

shapetrace run postln
shapetrace run llama --L 4
shapetrace diff preln postln
"""

from functools import partial

from .encoder import encoder
from .gpt import gpt
from .transformer import transformer

preln = partial(gpt, norm="pre")
"""gpt with x + f(norm(x)), as it is anyway"""

postln = partial(gpt, norm="post")
"""gpt with norm(x + f(x)), as in the paper"""

rope = partial(gpt, positions="rope")
"""gpt with rotary positions: nothing added, q and k turned"""

mqa = partial(gpt, H=4, G=1, C=16)
"""gpt with multi-query attention: one key and value head"""

gqa = partial(gpt, H=4, G=2, C=16)
"""gpt with grouped-query attention: two query heads share a key and value head"""

gpt2 = partial(gpt, activation="gelu_tanh")
"""gpt with all choices of GPT-2"""

llama = partial(
    gpt,
    H=4,
    G=2,
    C=16,
    norm_kind="rms",
    positions="rope",
    activation="swiglu",
    qkv="separate",
    attention="explicit",
    head="untied",
    bias=False,
)
"""gpt with all choices of Llama: RMSNorm, RoPE, GQA, SwiGLU"""

bert = partial(encoder)
"""encoder under another name: learned positions, post-LN, GELU"""

original = partial(transformer)
"""transformer under another name: the model of the paper"""
