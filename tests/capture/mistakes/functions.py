"""Functions that are for other dims, other parts or other dtypes."""

import torch
import torch.nn.functional as F
from torch import nn

from . import B, C, H, Mistake, T, V

MISTAKES = {
    "groups that do not divide": Mistake(
        lambda net, x, ids: F.group_norm(x.mT, 3),
        "group_norm makes 3 groups of the channels in dim 1, and x.mT [B=2, 16, T=6] has 16 there: "
        "16 // 3 leaves 1 over",
        lambda net, x, ids: F.group_norm(x.mT, 4),
    ),
    "more sizes than dims": Mistake(
        lambda net, x, ids: F.interpolate(x.mT, size=(8, 8)),
        "interpolate leaves the first two dims of x.mT [B=2, 16, T=6], batch and channels, and changes the others: "
        "2 sizes were given for 1, [T=6]",
        lambda net, x, ids: F.interpolate(x.mT, size=8),
    ),
    "a mode of pictures": Mistake(
        lambda net, x, ids: F.interpolate(x.mT, scale_factor=2, mode="bilinear"),
        "interpolate leaves the first two dims of x.mT [B=2, 16, T=6], batch and channels, and changes the others; "
        "mode='bilinear' is for 2 of them, mode='linear' for the 1 that there are",
        lambda net, x, ids: F.interpolate(x.mT, scale_factor=2, mode="linear"),
    ),
    "dims that are summed over": Mistake(
        lambda net, x, ids: torch.tensordot(x, net.head.weight, dims=([1], [0])),
        "tensordot sums over dim 1 of x [B=2, T=6, 16] and dim 0 of head.weight [20, 16]: "
        "T=6 met 20, and they must be equal",
        lambda net, x, ids: torch.tensordot(x, net.head.weight, dims=([2], [1])),
    ),
    "so many last and first dims": Mistake(
        lambda net, x, ids: torch.tensordot(x, net.head.weight, dims=1),
        "tensordot sums over dim 2 of x [B=2, T=6, 16] and dim 0 of head.weight [20, 16]: "
        "16 met 20, and they must be equal",
    ),
    "two inputs of other widths": Mistake(
        lambda net, x, ids: F.bilinear(x, x, torch.zeros(5, C, 8)),
        "bilinear takes 8 in the last dim of its second input, and x [B=2, T=6, 16] has 16 there",
    ),
    "classes of a shorter dtype": Mistake(
        lambda net, x, ids: F.cross_entropy(net.head(x).flatten(0, 1), ids.flatten().int()),
        "cross_entropy takes the numbers of classes as int64, and ids.flatten().int() [B·T=12] is int32: "
        "ids.flatten().int().long()",
        lambda net, x, ids: F.cross_entropy(net.head(x).flatten(0, 1), ids.flatten().int().long()),
    ),
    "a layer made on the way": Mistake(
        lambda net, x, ids: nn.Linear(C + 1, C)(x),
        "linear takes 17 in the last dim, and x [B=2, T=6, 16] has 16 there: make it with in_features=16, "
        "or give it a tensor that is 17 wide",
        lambda net, x, ids: nn.Linear(C, C)(x),
    ),
    "a list of lists": Mistake(
        lambda net, x, ids: x.index_select(1, ids),
        "index_select takes one list of numbers for all, and ids [B=2, T=6] has 2 dims: see gather",
    ),
    "a row that is not there": Mistake(
        lambda net, x, ids: x.index_select(1, ids[0] + T),
        "ids[0] + 6 [T=6] holds a number that is not in dim 1 of x [B=2, T=6, 16]: T=6, which has 0 to 5",
    ),
    "a place that is not there": Mistake(
        lambda net, x, ids: x.select(1, 9), "index 9 is past dim 1 of x [B=2, T=6, 16]: T=6, which has 0 to 5"
    ),
    "more than is left": Mistake(
        lambda net, x, ids: x.narrow(1, 4, 4),
        "narrow takes 4 from 4 on, which is past dim 1 of x [B=2, T=6, 16]: T=6, which has 0 to 5",
    ),
    "bags of three dims": Mistake(
        lambda net, x, ids: F.embedding_bag(ids[..., None], net.token.weight),
        "embedding_bag is for tensors of at most 2 dims, and ids[..., None] [B=2, T=6, 1] has 3",
    ),
    "a product of rows": Mistake(
        lambda net, x, ids: torch.dot(x[0], x[1]),
        "dot is for tensors of 1 dim, and x[0] [T=6, 16] has 2; (x[0] * x[1]).sum(-1) takes the product of each row",
        lambda net, x, ids: (x[0] * x[1]).sum(-1),
    ),
    "an outer product of rows": Mistake(
        lambda net, x, ids: torch.outer(x[0], x[1]),
        "outer is for tensors of 1 dim, and x[0] [T=6, 16] has 2; "
        "x[0].unsqueeze(-1) * x[1].unsqueeze(-2) does so for each row",
        lambda net, x, ids: x[0].unsqueeze(-1) * x[1].unsqueeze(-2),
    ),
    "rows to draw from": Mistake(
        lambda net, x, ids: torch.multinomial(x.exp(), 1),
        "multinomial is for tensors of at most 2 dims, and exp(x) [B=2, T=6, 16] has 3; "
        "exp(x).flatten(0, -2) has a row for each",
        lambda net, x, ids: torch.multinomial(x.exp().flatten(0, -2), 1),
    ),
    "rows of two widths": Mistake(
        lambda net, x, ids: torch.cdist(x, x[..., :8]),
        "cdist takes rows, the last dim: 16 of x [B=2, T=6, 16] met 8 of x[..., :8] [B=2, T=6, 8]; they must be equal",
    ),
    "coordinates": Mistake(
        lambda net, x, ids: torch.linalg.cross(x, x),
        "a cross product is of 3 coordinates, and dim -1 of x [B=2, T=6, 16] is 16",
    ),
    "a number too few": Mistake(
        lambda net, x, ids: F.pad(x, (1, 1, 1)),
        "pad takes two numbers for each dim, before and after it, the last dim first: 3 were given",
        lambda net, x, ids: F.pad(x, (1, 1, 1, 0)),
    ),
    "more than can be reflected": Mistake(
        lambda net, x, ids: F.pad(x.mT, (T, 0), mode="reflect"),
        "mode='reflect' has no more to give than dim -1 of x.mT [B=2, 16, T=6]: 6 was asked for, 5 is the most",
        lambda net, x, ids: F.pad(x.mT, (T - 1, 0), mode="reflect"),
    ),
    "a window larger than the length": Mistake(
        lambda net, x, ids: F.max_pool1d(x.mT, 9),
        "the window of max_pool1d is larger than x.mT [B=2, 16, T=6]: "
        "give more input, more padding, or a smaller window",
    ),
    "pixels of channels": Mistake(
        lambda net, x, ids: F.pixel_shuffle(x.view(B, 2, T, 8), 2),
        "pixel_shuffle takes channels from dim -3 in parts of 2·2 = 4, "
        "and x.view(2, 2, 6, 8) [B=2, 2, 6, 8] has 2 there",
    ),
    "a slope for each": Mistake(
        lambda net, x, ids: F.prelu(x, x.new_ones(C)),
        "prelu has a slope for each channel in dim 1: 16 slopes met T=6 of x [B=2, T=6, 16]; its channels are last, 16",
    ),
    "half of an odd number": Mistake(
        lambda net, x, ids: F.glu(x[..., :5]),
        "glu takes half of dim -1 as its gate, and x[..., :5] [B=2, T=6, 5] has 5 there, which is odd",
    ),
    "pairs that are no pairs": Mistake(
        lambda net, x, ids: torch.view_as_complex(x),
        "view_as_complex makes one number of two, the last dim, and x [B=2, T=6, 16] has 16 there; "
        "x.unflatten(-1, (-1, 2)) has pairs of neighbours",
        lambda net, x, ids: torch.view_as_complex(x.unflatten(-1, (-1, 2))),
    ),
    "a matrix that is not square": Mistake(
        lambda net, x, ids: torch.linalg.inv(x),
        "linalg_inv is of square matrices, the last two dims: x [B=2, T=6, 16] has T=6 by 16 there",
    ),
    "no probabilities": Mistake(
        lambda net, x, ids: F.binary_cross_entropy(x.mean(-1) - 9, torch.zeros(B, T)),
        "binary_cross_entropy takes probabilities, and x.mean(-1) - 9 [B=2, T=6] or its target is not all between "
        "0 and 1: of logits take binary_cross_entropy_with_logits",
        lambda net, x, ids: F.binary_cross_entropy_with_logits(x.mean(-1) - 9, torch.zeros(B, T)),
    ),
    "a weight too few": Mistake(
        lambda net, x, ids: F.cross_entropy(net.head(x).flatten(0, 1), ids.flatten(), weight=torch.ones(V - 1)),
        "cross_entropy takes a weight for each class: ones(19) [19] met V=20 classes of head(x).flatten(0, 1) "
        "[B·T=12, V=20]",
        lambda net, x, ids: F.cross_entropy(net.head(x).flatten(0, 1), ids.flatten(), weight=torch.ones(V)),
    ),
    "causal twice": Mistake(
        lambda net, x, ids: F.scaled_dot_product_attention(x, x, x, x.new_zeros(T, T), is_causal=True),
        "is_causal=True is a mask, and x.new_zeros(6, 6) [6, 6] is another: put both into one, without is_causal",
    ),
    "a mask of whole numbers": Mistake(
        lambda net, x, ids: F.scaled_dot_product_attention(x, x, x, ids[:, None]),
        "a mask is bool, True where a query may look, or added to the scores as float32; ids[:, None] [B=2, 1, T=6] is "
        "int64: ids[:, None].bool()",
        lambda net, x, ids: F.scaled_dot_product_attention(x, x, x, ids[:, None].bool()),
    ),
    "as another tensor": Mistake(
        lambda net, x, ids: net.scale.expand_as(x),
        "expand_as repeats dims of size 1 only: dim 0 of scale [6] is 6, and cannot become 16, as dims line up from "
        "the last; scale.unsqueeze(1).expand(2, 6, 16) lines up",
        lambda net, x, ids: net.scale.unsqueeze(1).expand(2, 6, 16),
    ),
    "seen as another": Mistake(
        lambda net, x, ids: x.view_as(ids),
        "view_as(ids) puts 6 where x [B=2, T=6, 16] has T·16 = 96: the sizes must multiply to 96 there",
    ),
    "side by side": Mistake(
        lambda net, x, ids: torch.hstack([x, x[:1]]),
        "hstack wants all other dims equal: dim 0 is B=2 in x [B=2, T=6, 16] and 1 in x[:1] [1, T=6, 16]; "
        "x[:1].expand(2, 6, 16) joins",
        lambda net, x, ids: torch.hstack([x, x[:1].expand(2, 6, 16)]),
    ),
    "a dim of a list": Mistake(
        lambda net, x, ids: torch.cat([x, x], 4),
        "cat was asked for dim 4, and x [B=2, T=6, 16] has 3 dims, -3 to 2; the last, -1, is 16",
    ),
    "classes of floats": Mistake(
        lambda net, x, ids: F.one_hot(ids / 1),
        "one_hot takes the numbers of classes, and ids / 1 [B=2, T=6] is float32: (ids / 1).long() if it holds such",
        lambda net, x, ids: F.one_hot((ids / 1).long()),
    ),
    "times for each row": Mistake(
        lambda net, x, ids: x.repeat_interleave(ids[:, 0], 1),
        "repeat_interleave takes a number for each of dim 1: ids[:, 0] [B=2] met T=6 of x [B=2, T=6, 16]",
        lambda net, x, ids: x.repeat_interleave(ids[0], 1),
    ),
    "what is put in is of another dtype": Mistake(
        lambda net, x, ids: ids.scatter(1, ids, x[..., 0]),
        "scatter puts tensors of one dtype together: ids [B=2, T=6] is int64, x[..., 0] [B=2, T=6] is float32; "
        "x[..., 0].to(ids.dtype)",
        lambda net, x, ids: ids.scatter(1, ids, x[..., 0].to(ids.dtype)),
    ),
    "a weight of a norm": Mistake(
        lambda net, x, ids: F.layer_norm(x, (C,), net.scale),
        "layer_norm is over 16, and scale [6] is not of it",
    ),
    "keys of another width": Mistake(
        lambda net, x, ids: nn.MultiheadAttention(C, H)(x, x[..., :8], x),
        "the attention was made for keys and values of one width: 8 in x[..., :8] [B=2, T=6, 8], "
        "16 in x [B=2, T=6, 16]; kdim and vdim give each its own",
    ),
}
