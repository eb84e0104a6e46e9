"""Positions that a table has no row for: the table of the net has five, and T is six."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from . import Mistake, Net

Positions = Callable[[Net, Tensor], Tensor]


def looked_up(positions: Positions) -> Callable[[Net, Tensor, Tensor], Tensor]:
    return lambda net, x, ids: x + F.embedding(positions(net, ids), net.table)


def counted(ids: Tensor) -> Tensor:
    mask = (ids == 0).int()
    return mask.cumsum(1) * mask + 1


LONGER = "the rows of the table table are 5, 0 to 4: T=6 is longer than the table"
MEND = "shorten the input or make the table longer"

MISTAKES = {
    "positions that are counted": Mistake(
        looked_up(lambda net, ids: torch.arange(ids.shape[1])), f"arange(6) [T=6] counts to 5, and {LONGER}; {MEND}"
    ),
    "positions of a row, after what was kept": Mistake(
        looked_up(lambda net, ids: (torch.arange(ids.shape[1]) + 0).unsqueeze(0)),
        f"(arange(6) + 0).unsqueeze(0) [1, T=6] counts to 5, and {LONGER}; {MEND}",
    ),
    "positions that a list is indexed with": Mistake(
        lambda net, x, ids: x + net.table[torch.arange(ids.shape[1])],
        f"arange(6) [T=6] counts to 5, and {LONGER}; {MEND}",
    ),
    "positions that are selected": Mistake(
        lambda net, x, ids: x + net.table.index_select(0, torch.arange(ids.shape[1])),
        f"arange(6) [T=6] counts to 5, and {LONGER}; {MEND}",
    ),
    "positions that begin too late": Mistake(
        looked_up(lambda net, ids: torch.arange(4) + 2),
        "arange(4) + 2 [4] counts from 2 to 5, and the rows of the table table are 5, 0 to 4: "
        "begin earlier, or make the table 6 long",
    ),
    "positions that a mask is summed to": Mistake(
        looked_up(lambda net, ids: (torch.ones_like(ids).cumsum(-1) - 1)[:, 0:]),
        f"(cumsum(ones_like(ids), -1) - 1)[:, 0:] [B=2, T=6] counts along T=6, and {LONGER}; {MEND}",
    ),
    "positions that a mask is summed to, from 1 on": Mistake(
        looked_up(lambda net, ids: counted(ids)),
        f"(cumsum(mask, 1) * mask) + 1 [B=2, T=6] counts along T=6, and {LONGER}; {MEND}",
    ),
    "positions of which a mask leaves some out": Mistake(
        looked_up(lambda net, ids: ((ids == 0).cumsum(-1) - 1).masked_fill(ids != 0, 1)),
        f"(cumsum(ids == 0, -1) - 1).masked_fill(ids != 0, 1) [B=2, T=6] counts along T=6, and {LONGER}; {MEND}",
    ),
    "positions of a longer list": Mistake(
        looked_up(lambda net, ids: torch.arange(64)[None, : ids.shape[1]]),
        f"arange(64)[None, :6] [1, T=6] counts to 5, and {LONGER}; {MEND}",
    ),
    "positions of a longer list, after what was kept": Mistake(
        looked_up(lambda net, ids: torch.arange(64)[2:6]),
        "arange(64)[2:6] [4] counts from 2 to 5, and the rows of the table table are 5, 0 to 4: "
        "begin earlier, or make the table 6 long",
    ),
    "positions of a buffer": Mistake(
        looked_up(lambda net, ids: net.places[:, : ids.shape[1]]),
        f"places[:, :6] [1, T=6] counts along T=6, and {LONGER}; {MEND}",
    ),
    "ids that are no positions": Mistake(
        looked_up(lambda net, ids: ids + 9),
        "ids + 9 [B=2, T=6] holds a number that is no row of the table table, which has 5 of them, 0 to 4: "
        "look at (ids + 9).min() and (ids + 9).max()",
    ),
}
