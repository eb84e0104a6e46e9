"""What is given in another form than is taken."""

import torch
from torch import Tensor

from . import B, C, Mistake, Net, T


def kept(net: Net, ids: Tensor) -> Tensor:
    keep = ids == 0
    keep[0, 0] = False
    return keep


def put_whole(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    h, keep = torch.zeros(B, T, C), kept(net, ids)
    h[keep] = x
    return h


def put_picked(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    h, keep = torch.zeros(B, T, C), kept(net, ids)
    h[keep] = x[keep]
    return h


def put_among(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    h, some = torch.zeros(B, T, C), torch.arange(3)
    h[:, some] = x
    return h


def each_with_each(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    rows, places = torch.arange(2), torch.arange(5)
    return x[rows, places]


def each_with_each_mended(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    rows, places = torch.arange(2), torch.arange(5)
    return x[rows.unsqueeze(1), places]


def one_state(net: Net, x: Tensor, ids: Tensor) -> Tensor:
    h = torch.zeros(1, B, 8)
    return net.lstm(x, h)


MISTAKES = {
    "all of it where a mask picks some": Mistake(
        put_whole,
        "keep [B=2, T=6] picks 11 places of h [2, 6, 16], which are [11, 16], and x [B=2, T=6, 16] is to go there; "
        "x[keep] picks the same of it",
        put_picked,
    ),
    "all of it where an index picks some": Mistake(
        put_among, "what is written to is [2, 3, 16], and x [B=2, T=6, 16] does not broadcast to it"
    ),
    "each of one index with each of another": Mistake(
        each_with_each,
        "indices are read together, a number of each for each place, and so of one shape: rows [2] met places [5]; "
        "rows.unsqueeze(1) as the first takes each of it with each of the other",
        each_with_each_mended,
    ),
    "nothing into a layer": Mistake(
        lambda net, x, ids: net.qkv(None),
        "Linear takes a tensor, and its input is None: what was to give it returned nothing, or was never set",
    ),
    "an array of what has a gradient": Mistake(
        lambda net, x, ids: x.numpy(),
        "a gradient is wanted of x [B=2, T=6, 16], and NumPy knows of none: x.detach().numpy()",
        lambda net, x, ids: torch.from_numpy(x.detach().numpy()),
    ),
    "tensors that are in no list": Mistake(
        lambda net, x, ids: torch.cat(x, x),
        "cat takes its tensors in a list, and was given one alone: torch.cat([a, b], dim)",
        lambda net, x, ids: torch.cat([x, x], 1),
    ),
    "one state for two": Mistake(
        one_state,
        "the LSTM begins with two states, in a tuple (h, c), and was given one tensor [1, 2, 8]",
        lambda net, x, ids: net.lstm(x, (torch.zeros(1, B, 8), torch.zeros(1, B, 8)))[0],
    ),
    "two states for one": Mistake(
        lambda net, x, ids: net.gru(x, (torch.zeros(1, B, 8), torch.zeros(1, B, 8))),
        "the GRU begins with one state, and was given a tuple: the first of it alone, hx[0] [1, 2, 8]",
        lambda net, x, ids: net.gru(x, torch.zeros(1, B, 8))[0],
    ),
}
