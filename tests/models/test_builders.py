"""What the three builders have in common."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from shapetrace.models.config import Config
from shapetrace.models.encoder import encoder
from shapetrace.models.gpt import gpt
from shapetrace.models.transformer import transformer

Builder = Callable[..., Any]
builders = pytest.mark.parametrize("build", [gpt, transformer, encoder], ids=lambda build: build.__name__)


@builders
def test_by_default_it_is_the_seed_example(build: Builder) -> None:
    model, args, kwargs = build()
    config = model.config
    assert (config.C, config.H, config.D, config.F, config.V, config.L) == (8, 2, 4, 32, 16, 2)
    logits, loss = model(*args, **kwargs)
    assert logits.shape == (2, 4, 16)  # (B, T, V)
    assert loss.shape == ()


@builders
@pytest.mark.parametrize(
    "sizes",
    [
        {"B": 3, "T": 7, "C": 20, "H": 5, "F": 11, "V": 13, "L": 1},
        {"B": 1, "T": 1, "C": 3, "H": 1, "F": 1, "V": 3, "L": 3},
        {"B": 2, "T": 1100, "C": 2, "H": 2, "V": 5, "L": 1},
    ],
)
def test_it_builds_and_runs_at_other_sizes(build: Builder, sizes: dict[str, int]) -> None:
    model, args, kwargs = build(**sizes)
    logits, loss = model(*args, **kwargs)
    assert logits.shape == (sizes["B"], sizes["T"], sizes["V"])
    assert loss.isfinite()


@builders
def test_a_model_takes_any_batch_and_length_not_only_those_it_was_built_for(build: Builder) -> None:
    model, _, _ = build(B=2, T=4)
    _, args, kwargs = build(B=3, T=9)
    logits, _ = model(*args, **kwargs)
    assert logits.shape == (3, 9, 16)


@builders
def test_F_is_four_times_C_unless_it_is_given(build: Builder) -> None:
    assert build(C=12)[0].config.F == 48
    assert build(C=12, F=5)[0].config.F == 5


@builders
def test_the_same_seed_gives_the_same_weights_input_and_logits(build: Builder) -> None:
    def run(seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        model, args, kwargs = build()
        return [*model.parameters(), *kwargs.values(), *model(*args, **kwargs)]

    assert all(map(torch.equal, run(0), run(0)))
    assert not any(map(torch.equal, run(0)[-2:], run(1)[-2:]))


@builders
def test_gradients_reach_every_parameter(build: Builder) -> None:
    torch.manual_seed(0)
    model, args, kwargs = build()
    model.double()
    _, loss = model(*args, **kwargs)
    loss.backward()
    # All but w_k.bias: it adds the same amount q·bias to every score of a row, and softmax does not see that.
    without = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-12]
    assert without == [name for name, _ in model.named_parameters() if name.endswith("w_k.bias")]


@builders
def test_a_few_steps_of_training_lower_the_loss(build: Builder) -> None:
    torch.manual_seed(0)
    model, args, kwargs = build()
    losses = []
    for _ in range(30):
        _, loss = model(*args, **kwargs)
        losses.append(loss.item())
        for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=True):
            parameter.data -= 0.2 * gradient
    assert losses[-1] < losses[0] / 2


@builders
def test_it_runs_without_memory_for_its_weights(build: Builder) -> None:
    with FakeTensorMode():
        model, args, kwargs = build()
        logits, loss = model(*args, **kwargs)
    assert logits.shape == (2, 4, 16)
    assert loss.shape == ()


@builders
def test_its_modules_have_the_names_that_every_model_here_uses(build: Builder) -> None:
    model, _, _ = build()
    names = {part for name, _ in model.named_modules() for part in name.split(".") if not part.isdigit()}
    known = {"", "token_embedding", "position_embedding", "position_encoding", "encoder", "decoder", "blocks"}
    known |= {"norm_1", "norm_2", "norm_3", "attention", "self_attention", "cross_attention", "feed_forward", "norm_f"}
    known |= {"w_qkv", "w_q", "w_k", "w_v", "w_o", "w_up", "activation", "w_down", "head"}
    assert names <= known


def test_each_says_in_one_line_what_it_is() -> None:
    assert [inspect.getdoc(build).splitlines()[0] for build in (gpt, transformer, encoder)] == [
        "decoder-only: learned positions, pre-LN, GELU, causal",
        "encoder-decoder: sinusoidal positions, post-LN, ReLU, cross-attention",
        "encoder-only: learned positions, post-LN, GELU, bidirectional",
    ]


def test_each_model_says_in_a_few_words_what_it_is() -> None:
    assert [build()[0].description for build in (gpt, transformer, encoder)] == [
        "decoder-only · pre-LN · learned positions",
        "encoder-decoder · post-LN · sinusoidal positions",
        "encoder-only · post-LN · learned positions",
    ]


# --- errors ----------------------------------------------------------------------------------------------------------


def message(build: Builder, **arguments: Any) -> str:
    with pytest.raises(ValueError) as error:
        build(**arguments)
    return str(error.value)


@builders
def test_a_width_that_the_heads_cannot_share_is_refused(build: Builder) -> None:
    assert message(build, C=7) == "C=7 is not divisible by H=2: take C=8 or another multiple of H"
    assert message(build, C=8, H=3) == "C=8 is not divisible by H=3: take C=9 or another multiple of H"


@builders
def test_a_size_below_1_is_refused(build: Builder) -> None:
    assert message(build, B=0) == "B=0 must be at least 1"
    assert message(build, T=-4) == "T=-4 must be at least 1"
    assert message(build, H=0) == "H=0 must be at least 1"
    assert message(build, C=-8) == "C=-8 must be at least 1"
    assert message(build, F=0) == "F=0 must be at least 1"


@builders
def test_everything_that_is_wrong_is_said_at_once(build: Builder) -> None:
    assert message(build, B=0, T=-1, C=7, V=0) == (
        "B=0, T=-1, V=0 must be at least 1; C=7 is not divisible by H=2: take C=8 or another multiple of H"
    )


def test_an_unknown_head_is_refused_with_the_choices() -> None:
    assert message(gpt, head="shared") == "head='shared' is unknown: choose 'tied' or 'untied'"
    assert message(gpt, L=0, head="shared") == (
        "L=0 must be at least 1; head='shared' is unknown: choose 'tied' or 'untied'"
    )


def test_an_unknown_size_is_refused_with_the_choices() -> None:
    assert message(transformer, size="large") == "size='large' is unknown: choose 'seed' or 'paper'"
    assert message(transformer, S=0, size="large") == (
        "S=0 must be at least 1; size='large' is unknown: choose 'seed' or 'paper'"
    )


def test_a_letter_that_does_not_go_with_the_size_is_refused() -> None:
    assert message(transformer, C=510, size="paper") == (
        "C=510 is not divisible by H=8: take C=512 or another multiple of H"
    )


def test_a_vocabulary_without_room_for_words_is_refused() -> None:
    assert message(transformer, V=1) == "V=1 leaves no id for words (id 0 is padding): take V=2 or more"
    assert message(encoder, V=2) == ("V=2 leaves no id for words (id 0 is padding, id 1 is the mask): take V=3 or more")
    assert gpt(V=1)[0].config.V == 1  # nothing is reserved there


def test_a_config_refuses_what_a_builder_refuses() -> None:
    assert message(Config, C=7, H=2, F=0, V=16, L=2, context=0, head="shared") == (
        "F=0, context=0 must be at least 1; C=7 is not divisible by H=2: take C=8 or another multiple of H; "
        "head='shared' is unknown: choose 'tied' or 'untied'"
    )


def test_a_config_cannot_be_changed_after_it_was_checked() -> None:
    config = Config(C=8, H=2, F=32, V=16, L=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.C = 7
