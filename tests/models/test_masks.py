import torch

from shapetrace.models.masks import PAD, causal_mask, padding_mask

CPU = torch.device("cpu")


def test_the_causal_mask_hides_what_comes_later_and_leaves_the_lower_triangle() -> None:
    assert causal_mask(4, CPU).int().tolist() == [
        [0, 1, 1, 1],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]


def test_the_padding_mask_hides_padding_from_every_head_and_every_query() -> None:
    mask = padding_mask(torch.tensor([[5, 6, 7], [5, PAD, PAD]]))
    assert mask.shape == (2, 1, 1, 3)
    assert mask.squeeze().int().tolist() == [[0, 0, 0], [0, 1, 1]]


def test_a_sentence_that_is_nothing_but_padding_stays_open() -> None:
    mask = padding_mask(torch.tensor([[PAD, PAD, PAD], [5, 6, PAD]]))
    assert mask.squeeze().int().tolist() == [[0, 0, 0], [0, 0, 1]]


def test_causal_and_padding_together_hide_what_either_hides() -> None:
    target_ids = torch.tensor([[5, 6, PAD]])
    mask = causal_mask(3, CPU) | padding_mask(target_ids)
    assert mask.shape == (1, 1, 3, 3)
    assert mask.squeeze().int().tolist() == [
        [0, 1, 1],
        [0, 0, 1],
        [0, 0, 1],
    ]
