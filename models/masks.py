"""Masks: True where a query must not see a key.

B  batch
T  target length (queries)
S  source length (keys)

A mask is as small as it can be and broadcasts over the scores, which are (B, H, T, S).
"""

import torch
from torch import Tensor

PAD = 0  # the id that fills short sentences up; as a target it is left out of the loss


def causal_mask(T: int, device: torch.device) -> Tensor:
    """True above the diagonal: a position sees itself and what came before it. (T, T)"""
    everywhere = torch.ones(T, T, dtype=torch.bool, device=device)
    return everywhere.triu(diagonal=1)


def padding_mask(ids: Tensor) -> Tensor:
    """True at keys that are padding. ids (B, S) → (B, 1, 1, S)

    Padding stands at the end of a sentence. A sentence that is nothing but padding stays open: softmax over no key at
    all would be 0/0, and its NaN would reach every gradient.
    """
    padding = ids == PAD
    padding = padding & ~padding.all(dim=-1, keepdim=True)
    return padding[:, None, None, :]
