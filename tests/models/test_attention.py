import math

import pytest
import torch
from torch import Tensor, nn

from shapetrace.models.attention import MultiHeadAttention, attend
from shapetrace.models.masks import causal_mask, padding_mask

# Three tokens and one query, D = 2.
q = torch.tensor([[1.0, 0.0]])
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def weights_of(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """The weights themselves: where the values are the rows of the identity, weights @ v is weights."""
    return attend(q, k, torch.eye(k.shape[-2]), mask)


def test_the_weights_are_the_softmax_of_the_scores_divided_by_the_root_of_D() -> None:
    # scores = [1·1+0·0, 1·0+0·1, 1·1+0·1] = [1, 0, 1], divided by √2: [0.707, 0, 0.707]
    # exp: [2.028, 1, 2.028], which sum to 5.056; so [2.028, 1, 2.028] / 5.056
    torch.testing.assert_close(weights_of(q, k), torch.tensor([[0.401, 0.198, 0.401]]), atol=5e-4, rtol=0)


def test_the_raw_scores_can_be_read_back_from_the_weights() -> None:
    # softmax keeps differences: ln(w_i / w_j) = (score_i - score_j) / √2, and the second score is 0
    weights = weights_of(q, k)
    scores = (weights / weights[:, 1:2]).log() * math.sqrt(2)
    torch.testing.assert_close(scores, torch.tensor([[1.0, 0.0, 1.0]]))


def test_the_output_is_the_values_averaged_by_the_weights() -> None:
    # 0.401·[1, 0] + 0.198·[0, 1] + 0.401·[1, 1] = [0.401 + 0.401, 0.198 + 0.401]
    torch.testing.assert_close(attend(q, k, v), torch.tensor([[0.802, 0.599]]), atol=5e-4, rtol=0)


def test_the_module_gives_the_same_numbers_when_every_projection_is_the_identity() -> None:
    attention = MultiHeadAttention(C=2, H=1)
    for w in (attention.w_q, attention.w_k, attention.w_v, attention.w_o):
        nn.init.eye_(w.weight)
        nn.init.zeros_(w.bias)
    out = attention(q[None], k[None])  # the keys are the values here: k1 = v1, k2 = v2, k3 = v3
    torch.testing.assert_close(out, torch.tensor([[[0.802, 0.599]]]), atol=5e-4, rtol=0)


def test_under_a_causal_mask_equal_scores_are_shared_among_a_position_and_those_before_it() -> None:
    zeros = torch.zeros(4, 2)  # every score is 0
    weights = weights_of(zeros, zeros, causal_mask(4, zeros.device))
    expected = [[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [1 / 4, 1 / 4, 1 / 4, 1 / 4]]
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_under_a_causal_mask_the_weights_above_the_diagonal_are_exactly_0_and_rows_sum_to_1() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 4, 4)  # (B, H, T, D)
    weights = weights_of(q, k, causal_mask(4, q.device))
    assert weights.shape == (2, 2, 4, 4)  # (B, H, T, T)
    assert (weights.triu(diagonal=1) == 0).all()
    assert (weights.tril() > 0).sum() == 2 * 2 * (1 + 2 + 3 + 4)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 4))


def test_padding_gets_a_weight_of_exactly_0_and_the_rest_sums_to_1() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 4, 4), torch.randn(2, 2, 3, 4)  # T = 4 queries, S = 3 keys
    source_ids = torch.tensor([[5, 6, 7], [5, 6, 0]])
    weights = weights_of(q, k, padding_mask(source_ids))
    assert weights.shape == (2, 2, 4, 3)  # (B, H, T, S)
    assert (weights[1, :, :, 2] == 0).all()
    assert (weights[0] > 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 4))


def test_a_mask_before_softmax_leaves_the_same_weights_as_not_having_the_key_at_all() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 4, 4), torch.randn(1, 1, 3, 4)
    masked = weights_of(q, k, torch.tensor([False, False, True]))
    torch.testing.assert_close(masked[..., :2], weights_of(q, k[:, :, :2]))


def test_each_head_attends_in_its_own_D_channels_and_fills_its_own_D_channels_of_concat() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(C=4, H=2)
    nn.init.eye_(attention.w_o.weight)
    nn.init.zeros_(attention.w_o.bias)
    x = torch.randn(2, 3, 4)
    q, k, v = attention.w_q(x), attention.w_k(x), attention.w_v(x)
    heads = [attend(q[..., :2], k[..., :2], v[..., :2]), attend(q[..., 2:], k[..., 2:], v[..., 2:])]
    torch.testing.assert_close(attention(x), torch.cat(heads, dim=-1))


def test_one_fused_projection_gives_what_three_separate_ones_with_its_rows_give() -> None:
    torch.manual_seed(0)
    fused, separate = MultiHeadAttention(C=8, H=2, qkv="fused"), MultiHeadAttention(C=8, H=2)
    with torch.no_grad():
        for w, weight, bias in zip(
            (separate.w_q, separate.w_k, separate.w_v),
            fused.w_qkv.weight.split(8),
            fused.w_qkv.bias.split(8),
            strict=True,
        ):
            w.weight.copy_(weight)
            w.bias.copy_(bias)
        separate.w_o.load_state_dict(fused.w_o.state_dict())
    x = torch.randn(2, 4, 8)
    torch.testing.assert_close(fused(x), separate(x))


def test_a_fused_projection_refuses_a_second_input() -> None:
    attention = MultiHeadAttention(C=8, H=2, qkv="fused")
    with pytest.raises(ValueError) as error:
        attention(torch.zeros(2, 4, 8), torch.zeros(2, 3, 8))
    assert str(error.value) == (
        "a fused projection makes q, k and v from one input: build with qkv='separate' for a source"
    )


@pytest.mark.parametrize("qkv", ["fused", "separate"])
def test_a_batch_of_no_sentences_and_a_sentence_of_no_tokens_go_through(qkv: str) -> None:
    attention = MultiHeadAttention(C=8, H=2, qkv=qkv)
    assert attention(torch.zeros(0, 4, 8)).shape == (0, 4, 8)
    assert attention(torch.zeros(2, 0, 8)).shape == (2, 0, 8)
