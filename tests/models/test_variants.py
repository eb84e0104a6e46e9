"""The variants against implementations that nobody here wrote, with the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from shapetrace.models import variants
from shapetrace.models.attention import MultiHeadAttention
from shapetrace.models.config import Config
from shapetrace.models.feed_forward import SwiGLU
from shapetrace.models.gpt import GPT, gpt
from shapetrace.models.positions import RotaryEncoding

SIZES = {"B": 2, "T": 5, "C": 16, "H": 4, "V": 32, "L": 2}


def logits(model: nn.Module, ids: Tensor) -> Tensor:
    found: Tensor = model(ids)[0]
    return found


@torch.no_grad()
def test_gpt2_with_the_weights_of_hugging_faces_gives_its_logits() -> None:
    ours, _, batch = variants.gpt2(**SIZES)
    config = GPT2Config(n_embd=16, n_head=4, n_layer=2, vocab_size=32, n_positions=1024, bos_token_id=0, eos_token_id=0)
    theirs = GPT2LMHeadModel(config).eval()
    ours.token_embedding.weight.copy_(theirs.transformer.wte.weight)
    ours.position_embedding.weight.copy_(theirs.transformer.wpe.weight)
    for block, other in zip(ours.blocks, theirs.transformer.h, strict=True):
        pairs = [
            (block.norm_1, other.ln_1),
            (block.norm_2, other.ln_2),
        ]
        for norm, like in pairs:
            norm.weight.copy_(like.weight)
            norm.bias.copy_(like.bias)
        attention, mlp = block.attention, block.feed_forward
        for linear, conv in [  # their Conv1D keeps its weight the other way round
            (attention.w_qkv, other.attn.c_attn),
            (attention.w_o, other.attn.c_proj),
            (mlp.w_up, other.mlp.c_fc),
            (mlp.w_down, other.mlp.c_proj),
        ]:
            linear.weight.copy_(conv.weight.T)
            linear.bias.copy_(conv.bias)
    torch.testing.assert_close(logits(ours, batch["ids"]), theirs(batch["ids"]).logits)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["explicit", "sdpa"])
def test_llama_with_the_weights_of_hugging_faces_gives_its_logits(attention: str) -> None:
    ours, _, batch = variants.llama(**SIZES, G=2, F=24, attention=attention)
    config = LlamaConfig(
        hidden_size=16,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
        num_hidden_layers=2,
        vocab_size=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    theirs = LlamaForCausalLM(config).eval()
    ours.token_embedding.weight.copy_(theirs.model.embed_tokens.weight)
    ours.head.weight.copy_(theirs.lm_head.weight)
    for block, other in zip(ours.blocks, theirs.model.layers, strict=True):
        for one, like in [
            (block.attention.w_q, other.self_attn.q_proj),
            (block.attention.w_k, other.self_attn.k_proj),
            (block.attention.w_v, other.self_attn.v_proj),
            (block.attention.w_o, other.self_attn.o_proj),
            (block.feed_forward.w_gate, other.mlp.gate_proj),
            (block.feed_forward.w_up, other.mlp.up_proj),
            (block.feed_forward.w_down, other.mlp.down_proj),
        ]:
            one.weight.copy_(like.weight)
    torch.testing.assert_close(logits(ours, batch["ids"]), theirs(batch["ids"]).logits)


@pytest.mark.parametrize("G", [1, 2, 4])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_fused_attention_gives_the_logits_of_the_explicit_one(norm: str, G: int) -> None:
    explicit, _, batch = gpt(**SIZES, G=G, norm=norm)
    fused = GPT(Config(C=16, H=4, F=64, V=32, L=2, G=G, norm=norm, attention="sdpa"))
    fused.load_state_dict(explicit.state_dict())
    torch.testing.assert_close(logits(fused, batch["ids"]), logits(explicit, batch["ids"]))


def test_as_many_key_heads_as_heads_are_multi_head_attention() -> None:
    grouped, plain = MultiHeadAttention(8, 2, G=2), MultiHeadAttention(8, 2)
    grouped.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 8)
    assert torch.equal(grouped(x), plain(x))


def test_heads_of_a_group_see_the_same_keys_and_values() -> None:
    # Keys and values of 1 head for 2, against 2 heads whose projections hold that one twice.
    shared, own = MultiHeadAttention(4, 2, G=1), MultiHeadAttention(4, 2)
    weights = shared.state_dict()
    twice = {key: torch.cat([weights[key]] * 2) for key in weights if key[:3] in ("w_k", "w_v")}
    own.load_state_dict({**weights, **twice})
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(shared(x), own(x))


def test_after_rope_q_times_k_depends_on_the_positions_only_through_their_difference() -> None:
    rotary = RotaryEncoding(context=16, D=8)
    q, k = torch.randn(8), torch.randn(8)
    everywhere = [rotary(x.expand(1, 1, 16, 8)) for x in (q, k)]  # the same vector at every position
    products = (everywhere[0] @ everywhere[1].transpose(-2, -1))[0, 0]
    for distance in range(-15, 16):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert products.diagonal(1)[0] != products.diagonal(-1)[0]


def test_rope_turns_and_keeps_lengths_and_leaves_position_0() -> None:
    rotary, x = RotaryEncoding(context=4, D=6), torch.randn(2, 3, 4, 6)
    torch.testing.assert_close(rotary(x).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotary(x)[:, :, 0], x[:, :, 0])


def test_swiglu_is_silu_of_the_gate_times_what_goes_up() -> None:
    # C = F = 1, all weights 1: silu(2) · 2 = 2 / (1 + e⁻²) · 2 = 3.5232
    layer = SwiGLU(1, 1)
    for weight in layer.parameters():
        nn.init.ones_(weight)
    assert layer(torch.tensor([2.0])).item() == pytest.approx(3.5232, abs=1e-4)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "none"])
def test_without_positions_alone_the_order_of_what_came_before_does_not_matter(positions: str) -> None:
    # One layer: the last token sees a set of tokens. More layers would see the causal mask.
    torch.manual_seed(0)
    model, *_ = gpt(T=4, L=1, positions=positions)
    for weight in model.parameters():
        nn.init.normal_(weight)  # away from the small tables, so that order counts
    one, other = logits(model, torch.tensor([[1, 2, 3, 4]])), logits(model, torch.tensor([[2, 1, 3, 4]]))
    assert torch.allclose(one[0, -1], other[0, -1], atol=1e-5) == (positions == "none")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({}, "decoder-only · pre-LN · learned positions"),
        ({"norm": "post", "positions": "sinusoidal"}, "decoder-only · post-LN · sinusoidal positions"),
        ({"H": 4, "G": 1}, "decoder-only · pre-LN · learned positions · MQA"),
        ({"positions": "none", "attention": "sdpa"}, "decoder-only · pre-LN · no positions · fused attention"),
    ],
)
def test_a_model_says_what_was_chosen(choices: dict[str, object], said: str) -> None:
    model, *_ = gpt(**choices)
    assert model.description == said


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"H": 4, "G": 3, "C": 16}, "H=4 is not divisible by G=3: take H=6 or another multiple of G"),
        ({"norm": "middle"}, "norm='middle' is unknown: choose 'pre' or 'post'"),
        ({"C": 6, "positions": "rope"}, "rope turns pairs of channels, and D = C / H = 3 is odd: take C=8"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(choices: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError) as error:
        gpt(**choices)
    assert str(error.value) == said
