import math

import pytest
import torch
from torch import nn

from shapetrace.models.config import Config
from shapetrace.models.gpt import GPT, gpt


def test_the_example_input_is_teacher_forcing_with_targets_one_step_ahead() -> None:
    _, args, kwargs = gpt(B=3, T=5)
    assert args == ()
    assert list(kwargs) == ["ids", "targets"]
    ids, targets = kwargs["ids"], kwargs["targets"]
    assert ids.shape == targets.shape == (3, 5)
    assert ids.dtype == targets.dtype == torch.int64
    assert torch.equal(targets[:, :-1], ids[:, 1:])
    assert ids.is_contiguous()


def test_what_comes_later_changes_nothing_before_it() -> None:
    torch.manual_seed(0)
    model, _, batch = gpt(T=6)
    ids = batch["ids"]
    changed = ids.clone()
    changed[:, 3] = (ids[:, 3] + 1) % 16
    before, _ = model(ids)
    after, _ = model(changed)
    assert torch.equal(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).all()


def test_the_loss_where_the_true_word_has_probability_0_05_is_2_996() -> None:
    # A head of zeros finds all of V = 20 words equally likely: 1/20 = 0.05 for each, and -ln 0.05 = 2.996
    model, args, kwargs = gpt(V=20, head="untied")
    nn.init.zeros_(model.head.weight)
    _, loss = model(*args, **kwargs)
    assert loss is not None
    assert loss.shape == ()
    assert loss.item() == pytest.approx(-math.log(0.05))
    assert loss.item() == pytest.approx(2.996, abs=5e-4)


def test_an_untrained_model_finds_all_words_about_equally_likely() -> None:
    torch.manual_seed(0)
    model, args, kwargs = gpt()
    _, loss = model(*args, **kwargs)
    assert loss.item() == pytest.approx(math.log(16), abs=0.1)  # ln 16 = 2.77


def test_without_targets_there_is_no_loss() -> None:
    model, _, kwargs = gpt()
    logits, loss = model(kwargs["ids"])
    assert logits.shape == (2, 4, 16)
    assert loss is None


def test_a_tied_head_is_the_token_embedding_and_an_untied_one_is_not() -> None:
    tied, *_ = gpt(head="tied")
    untied, *_ = gpt(head="untied")
    assert tied.head.weight.data_ptr() == tied.token_embedding.weight.data_ptr()
    assert untied.head.weight.data_ptr() != untied.token_embedding.weight.data_ptr()
    count = [sum(p.numel() for p in model.parameters()) for model in (tied, untied)]
    assert count[1] - count[0] == 16 * 8  # V·C


def test_an_input_longer_than_the_table_of_learned_positions_is_refused() -> None:
    model = GPT(Config(C=8, H=2, F=32, V=16, L=1, context=4))
    with pytest.raises(ValueError) as error:
        model(torch.zeros(1, 5, dtype=torch.int64))
    assert str(error.value) == "5 ids, but only 4 positions: shorten the input or build with context=5"


def test_the_table_of_learned_positions_grows_with_the_input_asked_for() -> None:
    model, args, kwargs = gpt(B=1, T=1500)
    logits, _ = model(*args, **kwargs)
    assert logits.shape == (1, 1500, 16)
