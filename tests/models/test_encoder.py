import torch
from torch.nn.functional import cross_entropy

from shapetrace.models.encoder import MASK, encoder
from shapetrace.models.masks import PAD


def test_the_example_hides_a_word_in_seven_and_asks_for_those_words_only() -> None:
    _, args, kwargs = encoder(B=3, T=8)
    assert args == ()
    assert list(kwargs) == ["ids", "targets"]
    ids, targets = kwargs["ids"], kwargs["targets"]
    assert (ids == MASK).int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert torch.equal(targets != PAD, ids == MASK)


def test_the_last_sentence_of_the_example_is_padded_to_twice_its_length() -> None:
    _, _, kwargs = encoder(B=2, T=4)
    assert (kwargs["ids"] == PAD).int().tolist() == [[0, 0, 0, 0], [0, 0, 1, 1]]


def test_every_position_sees_what_comes_before_it_and_what_comes_after_it() -> None:
    torch.manual_seed(0)
    model, _, _ = encoder()
    ids = torch.tensor([[5, 6, 7, 8]])
    before, _ = model(ids)
    for position in range(4):
        changed = ids.clone()
        changed[:, position] = 9
        after, _ = model(changed)
        assert (before != after).any(dim=-1).all()


def test_padding_changes_nothing_but_its_own_positions() -> None:
    torch.manual_seed(0)
    model, _, _ = encoder()
    short, _ = model(torch.tensor([[5, 6]]))
    padded, _ = model(torch.tensor([[5, 6, PAD, PAD]]))
    torch.testing.assert_close(padded[:, :2], short)


def test_the_loss_is_the_mean_over_the_hidden_words() -> None:
    torch.manual_seed(0)
    model, _, kwargs = encoder(B=2, T=4)
    logits, loss = model(**kwargs)
    # with T = 4 the word at position 0 is hidden in each sentence
    assert torch.equal(loss, cross_entropy(logits[:, 0], kwargs["targets"][:, 0]))


def test_a_sentence_of_nothing_but_padding_gives_no_NaN_to_the_loss_or_to_any_gradient() -> None:
    torch.manual_seed(0)
    model, _, kwargs = encoder(B=2, T=4)
    kwargs["ids"][1] = PAD
    kwargs["targets"][1] = PAD
    logits, loss = model(**kwargs)
    loss.backward()
    assert logits.isfinite().all()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_the_head_is_the_token_embedding() -> None:
    model, _, _ = encoder()
    assert model.head.weight.data_ptr() == model.token_embedding.weight.data_ptr()
