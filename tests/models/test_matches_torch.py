"""With the same weights, the models give what torch's own modules give.

Every parameter is random, those of the norms too, so that one left out or put in the wrong place shows. float32 agrees
to 1e-6; float64 agrees to 1e-12, which leaves no room for a difference in what is computed.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from shapetrace.models.attention import MultiHeadAttention, attend
from shapetrace.models.block import Block
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.masks import causal_mask, padding_mask
from shapetrace.models.transformer import DecoderBlock, transformer

CPU = torch.device("cpu")
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    tolerance = 1e-6 if ours.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


@torch.no_grad()
def randomise(module: nn.Module) -> None:
    """Every parameter moved away from where its initialisation put it."""
    for parameter in module.parameters():
        parameter += 0.1 * torch.randn_like(parameter)


@torch.no_grad()
def copy(ours: nn.Module, theirs: nn.Module) -> None:
    """Weights of the same name, of a Linear or a LayerNorm."""
    theirs.load_state_dict(ours.state_dict())


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """torch keeps the three projections in one matrix, q above k above v, as w_qkv does."""
    projections = [ours.w_qkv] if ours.fused else [ours.w_q, ours.w_k, ours.w_v]
    theirs.in_proj_weight.copy_(torch.cat([w.weight for w in projections]))
    theirs.in_proj_bias.copy_(torch.cat([w.bias for w in projections]))
    copy(ours.w_o, theirs.out_proj)


def copy_block(ours: Block, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    copy(ours.norm_1, theirs.norm1)
    copy(ours.feed_forward.w_up, theirs.linear1)
    copy(ours.feed_forward.w_down, theirs.linear2)
    copy(ours.norm_2, theirs.norm2)


def copy_decoder_block(ours: DecoderBlock, theirs: nn.TransformerDecoderLayer) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    copy(ours.norm_1, theirs.norm1)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy(ours.norm_2, theirs.norm2)
    copy(ours.feed_forward.w_up, theirs.linear1)
    copy(ours.feed_forward.w_down, theirs.linear2)
    copy(ours.norm_3, theirs.norm3)


def torch_encoder(blocks: nn.ModuleList, H: int, *, activation: str, norm_first: bool) -> nn.TransformerEncoder:
    """An nn.TransformerEncoder with the weights of our blocks."""
    F, C = blocks[0].feed_forward.w_up.weight.shape
    layer = nn.TransformerEncoderLayer(
        C, H, F, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    theirs = nn.TransformerEncoder(layer, len(blocks), enable_nested_tensor=False)
    theirs.to(blocks[0].norm_1.weight.dtype)
    for our_block, their_layer in zip(blocks, theirs.layers, strict=True):
        copy_block(our_block, their_layer)
    return theirs


def is_padding(ids: Tensor) -> Tensor:
    return ids == 0


# --- attention -------------------------------------------------------------------------------------------------------

MASKS = {
    "none": None,
    "causal": causal_mask(4, CPU),
    "padding": padding_mask(torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0]])),
    "causal and padding": causal_mask(4, CPU) | padding_mask(torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0]])),
}


@dtypes
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attend_is_scaled_dot_product_attention(mask: Tensor | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 4, 4, dtype=dtype)  # (B, H, T, D) each
    seen = None if mask is None else ~mask  # torch's mask is the other way round there: True where a query sees a key
    assert_same(attend(q, k, v, mask), scaled_dot_product_attention(q, k, v, attn_mask=seen))


@dtypes
@pytest.mark.parametrize("qkv", ["fused", "separate"])
def test_self_attention_is_nn_multihead_attention(qkv: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(C=8, H=2, qkv=qkv).to(dtype)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).to(dtype)
    randomise(ours)
    copy_attention(ours, theirs)

    x = torch.randn(2, 4, 8, dtype=dtype)
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0]])
    causal = causal_mask(4, CPU)
    out, _ = theirs(x, x, x, key_padding_mask=is_padding(ids), attn_mask=causal)
    assert_same(ours(x, mask=causal | padding_mask(ids)), out)


@dtypes
def test_cross_attention_is_nn_multihead_attention_with_keys_and_values_from_the_source(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(C=8, H=2).to(dtype)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).to(dtype)
    randomise(ours)
    copy_attention(ours, theirs)

    x, source = torch.randn(2, 4, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)  # T = 4, S = 3
    source_ids = torch.tensor([[5, 6, 7], [5, 6, 0]])
    out, _ = theirs(x, source, source, key_padding_mask=is_padding(source_ids))
    assert_same(ours(x, source, mask=padding_mask(source_ids)), out)


# --- models ----------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_encoder_is_nn_transformer_encoder(training: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, _, batch = encoder(B=2, T=6, C=12, H=3, L=2)
    ours.to(dtype)
    randomise(ours)
    theirs = torch_encoder(ours.blocks, H=3, activation="gelu", norm_first=False)
    ours.train(training)
    theirs.train(training)

    ids = batch["ids"]
    assert is_padding(ids).sum() == 3  # half of the last sentence
    x = ours.token_embedding(ids) + ours.position_embedding.weight[:6]
    with torch.set_grad_enabled(training):  # without gradients, torch's layers take a fused path of their own in eval
        logits, _ = ours(ids)
        out = theirs(x, src_key_padding_mask=is_padding(ids))
        assert_same(logits, linear(out, ours.head.weight))


@dtypes
def test_the_gpt_is_nn_transformer_encoder_with_norm_first_and_a_causal_mask(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, _, batch = gpt(B=2, T=6, C=12, H=3, L=2)
    ours.to(dtype)
    randomise(ours)
    theirs = torch_encoder(ours.blocks, H=3, activation="gelu", norm_first=True)

    ids = batch["ids"]
    logits, _ = ours(ids)
    x = ours.token_embedding(ids) + ours.position_embedding.weight[:6]
    out = theirs(x, mask=causal_mask(6, CPU), is_causal=True)
    assert_same(logits, linear(ours.norm_f(out), ours.head.weight))


@dtypes
def test_the_transformer_is_nn_transformer(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, _, batch = transformer(B=2, T=6, S=5, C=12, H=2, F=20, L=2)
    ours.to(dtype)
    randomise(ours)

    theirs = nn.Transformer(12, 2, 2, 2, 20, dropout=0.0, activation="relu", batch_first=True).to(dtype)
    theirs.encoder.norm = None  # torch adds a norm after each stack; the paper has none
    theirs.decoder.norm = None
    for our_block, their_layer in zip(ours.encoder.blocks, theirs.encoder.layers, strict=True):
        copy_block(our_block, their_layer)
    for our_decoder_block, their_decoder_layer in zip(ours.decoder.blocks, theirs.decoder.layers, strict=True):
        copy_decoder_block(our_decoder_block, their_decoder_layer)

    source_ids, target_ids = batch["source_ids"], batch["target_ids"]
    assert is_padding(source_ids).sum() == 2
    assert is_padding(target_ids).sum() == 2
    logits, _ = ours(source_ids, target_ids)
    out = theirs(
        ours.embed(source_ids),
        ours.embed(target_ids),
        tgt_mask=causal_mask(6, CPU),
        src_key_padding_mask=is_padding(source_ids),
        tgt_key_padding_mask=is_padding(target_ids),
        memory_key_padding_mask=is_padding(source_ids),
    )
    assert_same(logits, linear(out, ours.head.weight))
