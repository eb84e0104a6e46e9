import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shapetrace.models.masks import PAD
from shapetrace.models.transformer import Transformer, transformer

Example = tuple[Transformer, tuple[()], dict[str, Tensor]]


def test_the_example_pads_the_last_source_and_target_to_twice_their_length() -> None:
    _, args, kwargs = transformer(B=2, T=4, S=3)
    assert args == ()
    assert list(kwargs) == ["source_ids", "target_ids", "targets"]
    padding = {name: (ids == PAD).int().tolist() for name, ids in kwargs.items()}
    assert padding == {
        "source_ids": [[0, 0, 0], [0, 0, 1]],
        "target_ids": [[0, 0, 0, 0], [0, 0, 0, 1]],  # the last sentence is w1 w2 w3 PAD PAD;
        "targets": [[0, 0, 0, 0], [0, 0, 1, 1]],  # w3 is the last target, so what follows w3 is not asked for
    }


def test_the_example_is_teacher_forcing_with_targets_one_step_ahead() -> None:
    _, _, kwargs = transformer(T=5)
    assert torch.equal(kwargs["targets"][:, :-1], kwargs["target_ids"][:, 1:])


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 7), (7, 1), (2, 2), (3, 3)])
def test_the_shortest_examples_have_something_to_read_and_something_to_write(T: int, S: int) -> None:
    model, args, kwargs = transformer(B=1, T=T, S=S)
    assert (kwargs["source_ids"][:, 0] != PAD).all()
    assert (kwargs["targets"][:, 0] != PAD).all()
    logits, loss = model(*args, **kwargs)
    assert logits.shape == (1, T, 16)
    assert loss.isfinite()


def test_a_later_target_token_changes_nothing_before_it() -> None:
    torch.manual_seed(0)
    model, _, _ = transformer()
    source_ids = torch.tensor([[5, 6, 7]])
    before, _ = model(source_ids, torch.tensor([[5, 6, 7, 8]]))
    after, _ = model(source_ids, torch.tensor([[5, 6, 9, 8]]))
    assert torch.equal(before[:, :2], after[:, :2])
    assert (before[:, 2:] != after[:, 2:]).any(dim=-1).all()


def test_every_source_token_reaches_every_target_position() -> None:
    torch.manual_seed(0)
    model, _, _ = transformer()
    target_ids = torch.tensor([[5, 6, 7, 8]])
    before, _ = model(torch.tensor([[5, 6, 7]]), target_ids)
    for source_ids in ([[9, 6, 7]], [[5, 9, 7]], [[5, 6, 9]]):
        after, _ = model(torch.tensor(source_ids), target_ids)
        assert (before != after).any(dim=-1).all()


def test_padding_of_the_source_changes_nothing() -> None:
    torch.manual_seed(0)
    model, _, _ = transformer()
    target_ids = torch.tensor([[5, 6, 7, 8]])
    short, _ = model(torch.tensor([[5, 6]]), target_ids)
    padded, _ = model(torch.tensor([[5, 6, PAD, PAD, PAD]]), target_ids)
    torch.testing.assert_close(padded, short)


def test_padding_of_the_target_changes_nothing_but_its_own_positions() -> None:
    torch.manual_seed(0)
    model, _, _ = transformer()
    source_ids = torch.tensor([[5, 6, 7]])
    short, _ = model(source_ids, torch.tensor([[5, 6]]))
    padded, _ = model(source_ids, torch.tensor([[5, 6, PAD, PAD]]))
    torch.testing.assert_close(padded[:, :2], short)


def test_the_loss_is_the_mean_over_the_targets_that_are_words() -> None:
    torch.manual_seed(0)
    model, _, kwargs = transformer(B=2, T=4)
    logits, loss = model(**kwargs)
    # all 4 positions of the first sentence, the first 2 of the last one
    words = torch.cat([logits[0], logits[1, :2]])
    targets = torch.cat([kwargs["targets"][0], kwargs["targets"][1, :2]])
    torch.testing.assert_close(loss, cross_entropy(words, targets))


@pytest.mark.parametrize("padded", [["source_ids"], ["target_ids", "targets"], ["source_ids", "target_ids", "targets"]])
def test_a_sentence_of_nothing_but_padding_gives_no_NaN_to_the_loss_or_to_any_gradient(padded: list[str]) -> None:
    torch.manual_seed(0)
    model, _, kwargs = transformer(B=2)
    for name in padded:
        kwargs[name][1] = PAD
    logits, loss = model(**kwargs)
    loss.backward()
    assert logits.isfinite().all()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_without_targets_there_is_no_loss() -> None:
    model, _, kwargs = transformer()
    logits, loss = model(kwargs["source_ids"], kwargs["target_ids"])
    assert logits.shape == (2, 4, 16)
    assert loss is None


def test_one_table_embeds_source_and_target_and_is_the_head() -> None:
    model, _, _ = transformer()
    assert model.head.weight.data_ptr() == model.token_embedding.weight.data_ptr()
    assert [name for name, p in model.named_parameters() if p.shape == (16, 8)] == ["token_embedding.weight"]


def test_tokens_are_multiplied_by_the_root_of_C_before_positions_are_added() -> None:
    model, _, _ = transformer(C=8)
    ids = torch.tensor([[5]])
    # position 0 of the sinusoidal table is 0, 1, 0, 1, …
    expected = math.sqrt(8) * model.token_embedding.weight[5] + torch.tensor([0.0, 1, 0, 1, 0, 1, 0, 1])
    torch.testing.assert_close(model.embed(ids), expected[None, None])


# --- paper size ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper() -> Example:
    return transformer(B=1, size="paper")


def test_the_letters_of_the_paper_size_are_those_of_the_paper(paper: Example) -> None:
    config = paper[0].config
    assert (config.C, config.H, config.D, config.F, config.V, config.L) == (512, 8, 64, 2048, 10_000, 6)
    assert len(paper[0].encoder.blocks) == len(paper[0].decoder.blocks) == 6
    assert 1 / math.sqrt(config.D) == 1 / 8  # the scale of the scores


def test_w_q_w_k_and_w_v_of_the_paper_size_have_262_144_weights_in_every_attention(paper: Example) -> None:
    weights = {
        name: p.numel()
        for name, p in paper[0].named_parameters()
        if name.endswith(("w_q.weight", "w_k.weight", "w_v.weight"))
    }
    assert len(weights) == 3 * (6 + 2 * 6)  # one attention in each encoder block, two in each decoder block
    assert set(weights.values()) == {8 * 512 * 64} == {262_144}


def test_the_paper_size_has_49_258_496_parameters(paper: Example) -> None:
    attention = 4 * (512 * 512 + 512)
    feed_forward = (512 * 2048 + 2048) + (2048 * 512 + 512)
    norm = 2 * 512
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    embedding = 10_000 * 512  # the head is tied, the positions have none
    total = sum(p.numel() for p in paper[0].parameters())
    assert total == encoder + decoder + embedding == 49_258_496


def test_the_paper_size_runs(paper: Example) -> None:
    model, args, kwargs = paper
    with torch.no_grad():
        logits, loss = model(*args, **kwargs)
    assert logits.shape == (1, 4, 10_000)
    assert loss.isfinite()


def test_a_letter_given_wins_over_the_size() -> None:
    model, _, _ = transformer(C=64, L=1, V=100, size="paper")
    config = model.config
    assert (config.C, config.H, config.F, config.V, config.L) == (64, 8, 4 * 64, 100, 1)
