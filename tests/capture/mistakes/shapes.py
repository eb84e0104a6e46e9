"""Shapes, dims and numbers, as people mistake them in models that they write."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import B, C, H, Mistake, Net, T, V


def unpack_shape(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q = net.heads(x, 0)
    b, t, c = q.shape
    return q


def unpack_squeezed(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    y = x[:1].squeeze()
    b, t, c = y.size()
    return y


def unpack_split(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k, v = net.qkv(x).split(H, dim=-1)
    return q + k + v


def unpack_chunk(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k, v = net.qkv(x).chunk(2, -1)
    return q + k + v


def mended_chunk(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    q, k, v = net.qkv(x).chunk(3, -1)
    return q + k + v


def grown(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    z = torch.zeros(1, C).expand(B, C)
    z += 1
    return z


def last_token(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    last = (ids > 0).sum(1) - 1
    return x.gather(1, last)


def unpack_layer(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    out, h, c = net.gru(x)
    return out


def unpack_rows(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    first, second, third = x
    return first


MISTAKES = {
    "three of two": Mistake(unpack_layer, "gru(x) gives 2, and out, h, c are 3"),
    "a tensor of two rows": Mistake(
        unpack_rows, "x.unbind(0) gives 2, and first, second, third are 3: one for each of dim 0 of (2, 6, 16)"
    ),
    "three names for four sizes": Mistake(
        unpack_shape,
        "b, t, c are 3 names for the 4 sizes of q [B=2, 4, T=6, 4]: "
        "name them all, or take some by their place, as q.shape[-1]",
    ),
    "a batch of one is squeezed": Mistake(
        unpack_squeezed,
        "b, t, c are 3 names for the 2 sizes of y [T=6, 16]; x[:1].squeeze() (shapes.py) took every dim of "
        "size 1 of (1, 6, 16): squeeze(dim) takes one and leaves a batch",
    ),
    "split into too many": Mistake(
        unpack_split,
        "qkv(x).split(4, dim=-1) gives 12, and q, k, v are 3: "
        "split takes the size of each, chunk their number, qkv(x).chunk(3, -1)",
        mended_chunk,
    ),
    "chunks too few": Mistake(
        unpack_chunk,
        "qkv(x).chunk(2, -1) gives 2, and q, k, v are 3: chunk takes their number, qkv(x).chunk(3, -1)",
        mended_chunk,
    ),
    "a weight the wrong way round": Mistake(
        lambda net, x, ids: F.linear(x, net.turned),
        "linear takes 32 in the last dim, and x [B=2, T=6, 16] has 16 there: "
        "a weight is [out, in], and turned.t() is so",
        lambda net, x, ids: F.linear(x, net.turned.t()),
    ),
    "a norm over the length": Mistake(
        lambda net, x, ids: net.norm(x),
        "layer_norm is over the last 2 dims, and was made for 5 and 16: input [B=2, T=6, 16] has T=6 and 16 there; "
        "over the last dim alone, normalized_shape=16, it goes with any length",
    ),
    "a state of another width": Mistake(
        lambda net, x, ids: net.gru(x, torch.zeros(1, B, C))[0],
        "the state of the GRU has hidden_size in its last dim, which is 8: hx [1, 2, 16] has 16 there",
        lambda net, x, ids: net.gru(x, torch.zeros(1, B, 8))[0],
    ),
    "all that a layer returns": Mistake(
        lambda net, x, ids: net.head(net.gru(x)),
        "Linear takes a tensor, and was given all that gru(x) returns: the first of it is [B=2, T=6, 8]",
    ),
    "rows by index": Mistake(
        lambda net, x, ids: torch.zeros(V, C).index_add(0, ids.flatten(), x),
        "index_add has an index for each of dim 0 of what it takes: ids.flatten() [B·T=12], and x [B=2, T=6, 16] "
        "has B=2 there; x.flatten(0, 1) has 12",
        lambda net, x, ids: torch.zeros(V, C).index_add(0, ids.flatten(), x.flatten(0, 1)),
    ),
    "an index with too few dims": Mistake(
        last_token,
        "gather wants an index of as many dims as what it picks from: x [B=2, T=6, 16] has 3, last [B=2] has 1; "
        "x[torch.arange(2), last] takes one of dim 1 for each",
        lambda net, x, ids: x[torch.arange(2), (ids > 0).sum(1) - 1],
    ),
    "an index of floats": Mistake(
        lambda net, x, ids: net.head(x).gather(2, ids.unsqueeze(-1) / 1),
        "an index is of whole numbers, and ids.unsqueeze(-1) / 1 [B=2, T=6, 1] is float32: "
        "(ids.unsqueeze(-1) / 1).long()",
        lambda net, x, ids: net.head(x).gather(2, (ids.unsqueeze(-1) / 1).long()),
    ),
    "one dim for another": Mistake(
        lambda net, x, ids: x * net.scale.expand(B, T, C),
        "expand repeats dims of size 1 only: dim 0 of scale [6] is 6, and cannot become 16, as dims line up from the "
        "last; scale.unsqueeze(1).expand(2, 6, 16) lines up",
        lambda net, x, ids: x * net.scale.unsqueeze(1).expand(2, 6, 16),
    ),
    "windows larger than the length": Mistake(
        lambda net, x, ids: x.unfold(1, 8, 1),
        "unfold takes windows of 8 from dim 1 of x [B=2, T=6, 16], which is T=6: take smaller ones, or pad it",
    ),
    "more than there are": Mistake(
        lambda net, x, ids: net.head(x).topk(25).values,
        "topk was asked for 25 of dim -1 of head(x) [B=2, T=6, 20], which is 20: min(25, head(x).shape[-1]) is in it",
        lambda net, x, ids: net.head(x).topk(min(25, net.head(x).shape[-1])).values,
    ),
    "a condition of many": Mistake(
        lambda net, x, ids: x if ids > 0 else -x,
        "if, while, and, or and not ask for one yes or no, and ids > 0 [B=2, T=6] holds 12: "
        "x.any() or x.all() of it is one",
        lambda net, x, ids: x if (ids > 0).any() else -x,
    ),
    "a number of many": Mistake(
        lambda net, x, ids: x * x.mean(-1).item(),
        "item takes one number out of a tensor of one, and x.mean(-1) [B=2, T=6] holds 12",
    ),
    "targets of whole numbers": Mistake(
        lambda net, x, ids: F.binary_cross_entropy_with_logits(x.mean(-1), ids),
        "binary_cross_entropy_with_logits compares with numbers between 0 and 1, and ids [B=2, T=6] is int64: "
        "ids.float()",
        lambda net, x, ids: F.binary_cross_entropy_with_logits(x.mean(-1), ids.float()),
    ),
    "a mean of ids": Mistake(
        lambda net, x, ids: ids.mean(),
        "mean is for floating point numbers, and ids [B=2, T=6] is int64: ids.float(), or embed ids first",
        lambda net, x, ids: ids.float().mean(),
    ),
    "a write into repeated memory": Mistake(
        grown,
        "add_ writes into z [2, 16], whose rows are one and the same memory since zeros(1, 16).expand(2, 16) "
        "(shapes.py): clone() it before",
        lambda net, x, ids: torch.zeros(1, C).expand(B, C).clone().add_(1),
    ),
    "numbers to repeat by": Mistake(
        lambda net, x, ids: ids.repeat(3),
        "repeat takes a number for each dim: 1 given, and ids [B=2, T=6] has 2 dims; "
        "repeat(3, 1) leaves the others as they are",
        lambda net, x, ids: ids.repeat(3, 1),
    ),
    "rows of two lengths": Mistake(
        lambda net, x, ids: torch.stack([x[0, :3], x[1, :5]]),
        "stack wants equal shapes: dim 0 is 3 in x[0, :3] [3, 16] and 5 in x[1, :5] [5, 16]; "
        "cat(…, 0) joins such, torch.nn.utils.rnn.pad_sequence pads the shorter",
        lambda net, x, ids: nn.utils.rnn.pad_sequence([x[0, :3], x[1, :5]]),
    ),
}
