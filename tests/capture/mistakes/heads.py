"""Heads, masks, caches and tables, as people mistake them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from . import B, C, H, Mistake, Net, T


def into_cache(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    k = net.heads(x, 1)
    cache = torch.zeros(B, H, 8, C // H)
    cache[:, :, 4 : 4 + T] = k
    return cache


def into_larger_cache(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    cache = torch.zeros(B, H, 10, C // H)
    cache[:, :, 4 : 4 + T] = net.heads(x, 1)
    return cache


def added_to(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q = net.heads(x, 0).flatten(0, 1)
    slopes = torch.zeros(H, 1, T)
    return torch.baddbmm(slopes, q, q.mT)


def fused(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = net.heads(x, 0), net.heads(x, 1)[:, :2]
    return F.scaled_dot_product_attention(q, k, k)


def fused_in_groups(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = net.heads(x, 0), net.heads(x, 1)[:, :2]
    return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)


def padded(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, pad = net.heads(x, 0), ids > 0
    return F.scaled_dot_product_attention(q, q, q, attn_mask=pad)


def padded_right(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, pad = net.heads(x, 0), ids > 0
    return F.scaled_dot_product_attention(q, q, q, attn_mask=pad[:, None, None])


def in_groups(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = net.heads(x, 0), net.heads(x, 1)[:, :2]
    return q @ k.mT


def not_transposed(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = net.heads(x, 0), net.heads(x, 1).transpose(1, 2)
    return q @ k.mT


def all_turned(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k = net.heads(x, 0), net.heads(x, 1)
    return q @ k.T


def not_joined(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q = net.heads(x, 0)
    return net.head(q)


def masked_by_floats(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    mask = torch.ones(T - 1, T - 1).triu(1)
    weights = net.heads(x, 0) @ net.heads(x, 1).mT
    return weights.masked_fill(mask, 0)


MISTAKES = {
    "a mask turned over, without a dim for heads": Mistake(
        lambda net, x, ids: net.heads(x, 0).masked_fill(~(ids == 0), 0.0),
        "masked_fill lines dims up from the last: 4 of y.transpose(1, 2) [B=2, 4, T=6, 4] met T=6 of "
        "~(ids == 0) [B=2, T=6]; they must be equal, or one of them 1. (~(ids == 0))[:, None, :, None] lines up",
        lambda net, x, ids: net.heads(x, 0).masked_fill((~(ids == 0))[:, None, :, None], 0.0),
    ),
    "past the end of a cache": Mistake(
        into_cache,
        "k [B=2, 4, T=6, 4] does not fit: cache [2, 4, 8, 4] has 8 in dim 2, and 4:10 goes on past it: "
        "make it at least 10 long, or give less",
        into_larger_cache,
    ),
    "past the end of a table": Mistake(
        lambda net, x, ids: x + net.table[: x.shape[1]],
        "add lines dims up from the last: T=6 of x [B=2, T=6, 16] met 5 of table[:6] [5, 16]; they must be equal, "
        "or one of them 1. table [5, 16] has 5 in dim 0, and :6 goes on past it: make it at least 6 long, or give less",
    ),
    "a class token for one row": Mistake(
        lambda net, x, ids: torch.cat([net.cls, x], dim=1),
        "cat along dim 1 wants all other dims equal: dim 0 is 1 in cls [1, 1, 16] and B=2 in x [B=2, T=6, 16]; "
        "cls.expand(2, 1, 16) joins",
        lambda net, x, ids: torch.cat([net.cls.expand(2, 1, 16), x], dim=1),
    ),
    "a class token without dims": Mistake(
        lambda net, x, ids: torch.cat([net.cls[0, 0], x], dim=1),
        "cat joins tensors of as many dims: cls[0, 0] [16] has 1, x [B=2, T=6, 16] has 3; "
        "cls[0, 0].expand(2, 1, 16) joins",
        lambda net, x, ids: torch.cat([net.cls[0, 0].expand(2, 1, 16), x], dim=1),
    ),
    "one token for each row, without its dim": Mistake(
        lambda net, x, ids: torch.cat([x[:, 0], x], dim=1),
        "cat joins tensors of as many dims: x[:, 0] [B=2, 16] has 2, x [B=2, T=6, 16] has 3; "
        "x[:, 0].unsqueeze(1) joins",
        lambda net, x, ids: torch.cat([x[:, 0].unsqueeze(1), x], dim=1),
    ),
    "one token for each row, or rows for each": Mistake(
        lambda net, x, ids: torch.cat([net.turned[:2, :C], x], dim=1),
        "cat joins tensors of as many dims: turned[:2, :16] [2, 16] has 2, x [B=2, T=6, 16] has 3; "
        "turned[:2, :16].unsqueeze(1) joins, if 2 of turned[:2, :16] is dim 0 of x",
        lambda net, x, ids: torch.cat([net.turned[:2, :C].unsqueeze(1), x], dim=1),
    ),
    "written in place to what has fewer dims": Mistake(
        lambda net, x, ids: x.mean(1).add_(x),
        "add_ lines dims up from the last: B=2 of x.mean(1) [B=2, 16] met T=6 of x [B=2, T=6, 16]; they must be equal, "
        "or one of them 1. In place x.mean(1) cannot grow: x.mean(1).unsqueeze(1) + x lines up",
        lambda net, x, ids: x.mean(1).unsqueeze(1) + x,
    ),
    "heads where the length was": Mistake(
        lambda net, x, ids: x.transpose(1, 2).view(2, 6, 4, 4),
        "view makes one dim of 16 and T=6, which do not lie one after another in memory since x.transpose(1, 2) "
        "(heads.py): reshape would mix 16 and T=6; x.transpose(1, 2).transpose(1, 2).reshape(2, 6, 4, 4) keeps them "
        "apart",
        lambda net, x, ids: x.transpose(1, 2).transpose(1, 2).reshape(2, 6, 4, 4),
    ),
    "fewer keys than queries, fused": Mistake(
        fused,
        "H=4 heads of q [B=2, H=4, T=6, D=4] met 2 of k [B=2, 2, T=6, D=4]: "
        "enable_gqa=True shares each with 2, or repeat_interleave(2, 1) of keys and values",
        fused_in_groups,
    ),
    "fewer keys than queries": Mistake(
        in_groups,
        "4 heads of q [B=2, 4, T=6, 4] met 2 of k.mT [B=2, 2, 4, T=6]: k.mT.repeat_interleave(2, 1) has 4",
        lambda net, x, ids: net.heads(x, 0) @ net.heads(x, 1)[:, :2].mT.repeat_interleave(2, 1),
    ),
    "keys by length": Mistake(
        not_transposed,
        "matmul runs over dim -3 of both, where the heads are to be: 4 in q [B=2, 4, T=6, 4] met T=6 in k.mT "
        "[B=2, T=6, 4, 4]; the heads are dim 1 of q, dim 3 of k.mT: is a transpose(1, 2) missing?",
    ),
    "all dims turned": Mistake(
        all_turned,
        "k.T turns all 4 dims of k around, to k.T [4, T=6, 4, B=2]: k.mT turns the last two",
        lambda net, x, ids: net.heads(x, 0) @ net.heads(x, 1).mT,
    ),
    "a padding mask in fused attention": Mistake(
        padded,
        "the mask is added to scores of [B=2, H=4, T=6, T=6], and pad [B=2, T=6] has B=2 where they have T=6. "
        "pad[:, None, None] lines up",
        padded_right,
    ),
    "a mask of floats and of another length": Mistake(
        masked_by_floats,
        "masked_fill lines dims up from the last: T=6 of weights [B=2, 4, T=6, T=6] met 5 of mask [5, 5]; "
        "they must be equal, or one of them 1. And a mask is bool, not float32",
    ),
    "a mask for each row of a batch": Mistake(
        lambda net, x, ids: net.attention(x, x, x, attn_mask=torch.zeros(B, T, T))[0],
        "a mask of attention of 3 dims is [B=2 times 4 heads = 8, T=6, T=6], not attn_mask [2, 6, 6]: "
        "attn_mask.repeat_interleave(4, 0) gives each head that of its batch",
        lambda net, x, ids: net.attention(x, x, x, attn_mask=torch.zeros(B, T, T).repeat_interleave(4, 0))[0],
    ),
    "length first where batch is": Mistake(
        lambda net, x, ids: net.attention(x.transpose(0, 1), x, x)[0],
        "the attention takes dim 0 as batch, as batch_first=True has it: T=6 of the query [T=6, B=2, 16] met B=2 of "
        "the key [B=2, T=6, 16]; transpose(0, 1) of one of them is as the other",
        lambda net, x, ids: net.attention(x.transpose(0, 1).transpose(0, 1), x, x)[0],
    ),
    "heads not joined": Mistake(
        not_joined,
        "linear takes 16 in the last dim, and input [B=2, 4, T=6, 4] has 4 there; the heads are not joined: "
        "input.transpose(1, 2).flatten(2) puts 4 beside 4, which makes 16",
        lambda net, x, ids: net.head(net.heads(x, 0).transpose(1, 2).flatten(2)),
    ),
    "what is added to a product": Mistake(
        added_to,
        "baddbmm adds slopes [4, 1, 6] to a product of [4·B=8, T=6, T=6]: 4 met 4·B=8; "
        "they must be equal, or the first 1",
    ),
    "rotations for heads": Mistake(
        lambda net, x, ids: net.heads(x, 0).transpose(1, 2) * torch.ones(T, C // H),
        "mul lines dims up from the last: 4 of y….transpose(1, 2) [B=2, T=6, 4, 4] met 6 of ones(6, 4) [6, 4]; "
        "they must be equal, or one of them 1. ones(6, 4).unsqueeze(1) lines up",
        lambda net, x, ids: net.heads(x, 0).transpose(1, 2) * torch.ones(T, C // H).unsqueeze(1),
    ),
    "heads lost in a shape": Mistake(
        lambda net, x, ids: x.view(B, T, H, C),
        "view(2, 6, 4, 16) puts 4·16 = 64 where x [B=2, T=6, 16] has 16: the sizes must multiply to 16 there",
        lambda net, x, ids: x.view(B, T, H, 4),
    ),
}
