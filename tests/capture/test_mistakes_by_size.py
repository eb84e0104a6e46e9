"""Sizes that go with more than one mistake: only what the record says is said of it, and nothing where it does not."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from .mistakes import B, C, H, Net, Step, T, said

S = 9


def of_sizes(one: tuple[int, ...], other: tuple[int, ...]) -> Step:
    """A fused attention of tensors that were never split."""

    def step(net: Net, x: Tensor, ids: Tensor) -> Tensor:
        q, k = torch.zeros(one), torch.zeros(other)
        return F.scaled_dot_product_attention(q, k, k)

    return step


def product_of(one: tuple[int, ...], other: tuple[int, ...]) -> Step:
    def step(net: Net, x: Tensor, ids: Tensor) -> Tensor:
        a, b = torch.zeros(one), torch.zeros(other)
        return a @ b

    return step


def split(net: Net, x: Tensor, part: int, heads: int = H) -> Tensor:
    """[B, T, H, D], not turned yet."""
    width = heads * (C // H)
    return net.qkv(x)[..., part * C : part * C + width].view(*x.shape[:2], heads, C // H)


def crossed(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = split(net, x, 0), split(net, torch.zeros(B, S, C), 1)
    return F.scaled_dot_product_attention(q, k, k)


def crossed_by_hand(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = split(net, x, 0), split(net, torch.zeros(B, S, C), 1)
    return q @ k.transpose(-2, -1)


def as_long_as_heads(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    memory = torch.zeros(B, H, C)
    q, k = split(net, memory, 0).transpose(1, 2), split(net, memory, 1, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, k, k)


def all_in_one(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k, _ = net.qkv(x).view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
    q, k = q * 2 + q.roll(1, -1), k[:, :2]
    return q @ k.mT


def masked_groups(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k, mask = torch.zeros(2, 8, 5, 4), torch.zeros(2, 2, 5, 4), torch.zeros(3, 3)
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask, enable_gqa=True)


def groups_left_over(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = torch.zeros(2, 8, 5, 4), torch.zeros(2, 3, 5, 4)
    return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)


def attention_of(batch_first: bool, **masks: Tensor) -> Step:
    def step(net: Net, x: Tensor, ids: Tensor) -> Tensor:
        net.attention.batch_first = batch_first
        result: Tensor = net.attention(x, x, x, **masks)[0]
        return result

    return step


def pairs(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    a, b, y = torch.zeros(3, 4), torch.zeros(3, 4), torch.zeros(2)
    return F.cosine_embedding_loss(a, b, y)


def rows_into(kernel: int, *shape: int) -> Step:
    def step(net: Net, x: Tensor, ids: Tensor) -> Tensor:
        weight = torch.zeros(4, C, *[kernel] * (len(shape) - 1))
        rows = x[:, 0] if len(shape) == 2 else torch.zeros(shape)
        return F.conv1d(rows, weight) if len(shape) == 2 else F.conv2d(rows, weight)

    return step


FUSED = "scaled_dot_product_attention runs over dim -3 of both"

SAID: dict[str, tuple[Step, str]] = {
    "lengths, and as many heads": (
        of_sizes((2, 5, 4, 6), (2, 7, 4, 6)),
        f"{FUSED}, where the heads are to be: 5 in q [2, 5, 4, 6] met 7 in k [2, 7, 4, 6]; dim 2 is the same in both, "
        "4: are the heads there, and a transpose(1, 2) of q and k missing?",
    ),
    "heads, or lengths": (
        of_sizes((2, 8, 8, 8), (2, 2, 8, 8)),
        f"{FUSED}, where the heads are to be: 8 in q [2, 8, 8, 8] met 2 in k [2, 2, 8, 8]; if these are heads, "
        "enable_gqa=True shares each of k with 4; if they are lengths, a transpose(1, 2) is missing",
    ),
    "heads that cannot be lengths": (
        of_sizes((2, 8, 5, 8), (2, 2, 7, 8)),
        "8 heads of q [2, 8, 5, 8] met 2 of k [2, 2, 7, 8]: enable_gqa=True shares each with 4, "
        "or repeat_interleave(4, 1) of keys and values",
    ),
    "one of them turned": (
        of_sizes((2, 4, 5, 8), (2, 7, 4, 8)),
        f"{FUSED}, where the heads are to be: 4 in q [2, 4, 5, 8] met 7 in k [2, 7, 4, 8]; "
        "is a transpose(1, 2) of one of them missing?",
    ),
    "neither": (
        of_sizes((2, 8, 5, 8), (2, 3, 7, 8)),
        f"{FUSED}: 8 in q [2, 8, 5, 8] met 3 in k [2, 3, 7, 8]; they must be equal, or one of them 1",
    ),
    "a product of four dims": (
        product_of((2, 10, 7, 5), (2, 4, 5, 9)),
        "matmul runs over dim -3 of both: 10 in a [2, 10, 7, 5] met 4 in b [2, 4, 5, 9]; "
        "they must be equal, or one of them 1",
    ),
    "a product of which one divides the other": (
        product_of((2, 4, 7, 5), (2, 2, 5, 9)),
        "matmul runs over dim -3 of both: 4 in a [2, 4, 7, 5] met 2 in b [2, 2, 5, 9]; "
        "they must be equal, or one of them 1",
    ),
    "a transpose that would not go with the heads": (
        product_of((2, 3, 5, 4), (2, 5, 3, 4)),
        "matmul sums over the last dim of a [2, 3, 5, 4] and dim -2 of b [2, 5, 3, 4]: 4 met 3, and they must be equal",
    ),
    "neither was turned after its split": (
        crossed,
        f"{FUSED}, where the heads are to be: T=6 in q [B=2, T=6, 4, 4] met 9 in k [2, 9, 4, 4]; "
        "the heads are dim 2 of q and of k: is a transpose(1, 2) missing?",
    ),
    "neither was turned, by hand": (
        crossed_by_hand,
        "matmul runs over dim -3 of both, where the heads are to be: T=6 in q [B=2, T=6, 4, 4] met 9 in "
        "k.transpose(-2, -1) [2, 9, 4, 4]; the heads are dim 2 of q, dim 3 of k.transpose(-2, -1): "
        "is a transpose(1, 2) missing?",
    ),
    "as long as there are heads": (
        as_long_as_heads,
        "4 heads of q [2, 4, 4, 4] met 2 of k [2, 2, 4, 4]: enable_gqa=True shares each with 2, "
        "or repeat_interleave(2, 1) of keys and values",
    ),
    "split with the parts, and rotated": (
        all_in_one,
        "4 heads of q [B=2, 4, T=6, 4] met 2 of k.mT [B=2, 2, 4, T=6]: k.mT.repeat_interleave(2, 1) has 4",
    ),
    "heads that are shared, and a mask": (
        masked_groups,
        "the mask is added to scores of [2, 8, 5, 5], and mask [3, 3] has 3 where they have 5",
    ),
    "heads that cannot be shared": (
        groups_left_over,
        f"{FUSED}: 8 in q [2, 8, 5, 4] met 3 in k [2, 3, 5, 4]; with enable_gqa=True the second must divide the first",
    ),
    "a mask of the batch, batch first": (
        attention_of(True, attn_mask=torch.zeros(B, B)),
        "a mask of attention is [T=6, T=6], queries by keys, not attn_mask [2, 2]",
    ),
    "a mask of the length, length first": (
        attention_of(False, attn_mask=torch.zeros(T, T)),
        "a mask of attention is [B=2, B=2], queries by keys, not attn_mask [6, 6]: the attention takes B=2 as length "
        "and T=6 as batch; is batch_first=True meant?",
    ),
    "a padding mask turned, batch first": (
        attention_of(True, key_padding_mask=torch.zeros(T, B).bool()),
        "a padding mask is [B=2, T=6], batch by keys, not mask [6, 2], whose dims are the other way round",
    ),
    "a padding mask, length first": (
        attention_of(False, key_padding_mask=torch.zeros(B, T).bool()),
        "a padding mask is [T=6, B=2], batch by keys, not mask [2, 6]: the attention reads T=6 as batch "
        "and B=2 as length, as without batch_first=True",
    ),
    "targets of pairs": (
        pairs,
        "cosine_embedding_loss has a target for each row: 3 rows of a [3, 4] met 2 of y [2]",
    ),
    "a batch of rows as a length": (
        rows_into(1, B, C),
        "conv1d takes 16 channels in dim 0, and rows [B=2, 16] has B=2 there; rows.unsqueeze(-1) has 16 in dim 1, "
        "as channels of length 1",
    ),
    "a batch of rows that is shorter than the kernel": (
        rows_into(3, B, C),
        "conv1d takes 16 channels in dim 0, and rows [B=2, 16] has B=2 there",
    ),
    "an image with its channels last": (
        rows_into(3, 7, 7, C),
        "conv2d takes 16 channels in dim 0, and rows [7, 7, 16] has 7 there; if dim 0, 7, is no batch, "
        "rows.movedim(-1, 0) puts its channels there, 16",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_no_more_is_said_than_is_known(name: str) -> None:
    step, wanted = SAID[name]
    assert said(step) == wanted
