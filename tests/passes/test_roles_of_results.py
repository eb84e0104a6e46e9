"""What comes out of a model: logits, the loss, and forms of what it uses itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from tests.passes.parts import IDS, Block, Gated, Language, X, counts, said, traced


def test_the_norm_of_some_of_the_tokens_is_one_of_the_stream() -> None:
    class Last(Language):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.blocks[0](self.table(ids))
            last = self.norm(x[:, -1])
            return self.head(last)

    assert "last: norm" in said(traced(Last(Block(Gated())), IDS))


def test_logits_that_the_model_gives_a_part_of_are_logits_there_too() -> None:
    class Ahead(Language):
        """Predicts the next two tokens."""

        def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            ahead = self.head(torch.stack([self.norm(self.blocks[0](self.table(ids)))] * 2, 1))
            logits = ahead[:, 0]
            return logits, F.cross_entropy(ahead.flatten(0, 2), ids.repeat(1, 2).flatten())

    assert said(traced(Ahead(Block(Gated())), IDS))[-3:] == ["ahead: logits", "logits: logits", "output[1]: loss"]


def test_the_loss_of_an_alignment_is_one_and_what_it_was_given_are_logits() -> None:
    class Heard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 9)

        def forward(self, x: Tensor, labels: Tensor) -> Tensor:
            logits = self.head(x)
            log_probs = logits.log_softmax(-1).transpose(0, 1)
            loss = F.ctc_loss(log_probs, labels, torch.tensor([4, 4]), torch.tensor([2, 2]))
            return loss

    assert said(traced(Heard(), X, torch.randint(1, 9, (2, 2)))) == ["logits: logits", "loss: loss"]


def test_without_a_loss_logits_are_as_wide_as_the_table_is_long_or_one_less() -> None:
    class Streams(Language):
        """Two heads, which never say the token that all begins with."""

        def __init__(self, *blocks: nn.Module) -> None:
            super().__init__(*blocks)
            self.table, self.head, self.other = nn.Embedding(11, 8), nn.Linear(8, 10), nn.Linear(8, 9)

        def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
            last = self.norm(self.blocks[0](self.table(ids)))
            both = torch.stack([self.head(last), self.head(-last)], 1)
            other = self.other(last)
            return both, other

    found = said(traced(Streams(Block(Gated())), IDS))
    assert found[-2:] == ["last: norm", "both: logits"]


class Head(nn.Module):
    """One head, and what it says of each token: the first GPT of a lecture."""

    def __init__(self, said: int, C: int = 8, D: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(9, C)
        self.q, self.k, self.v, self.head = nn.Linear(C, D), nn.Linear(C, D), nn.Linear(C, D), nn.Linear(D, said)

    def attend(self, x: Tensor) -> Tensor:
        return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.attend(self.table(ids)))


def test_what_a_model_of_tokens_says_right_behind_attention_is_no_projection_of_attention() -> None:
    trace = shapetrace.trace(Head(9), IDS)
    assert said(trace)[-2:] == ["matmul: head_output", "head: logits"]
    assert trace.sizes == {"B": 2, "T": 4, "C": 8, "D": 4, "V": 9}


def test_classes_of_tokens_and_a_score_right_behind_attention_have_no_role_and_are_no_width() -> None:
    class Score(Head):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids).squeeze(-1).sigmoid()

    for model in (Head(5), Score(1)):
        trace = shapetrace.trace(model, IDS)
        assert not trace.roles("attn_out")
        assert trace.sizes["C"] == 8


def test_what_a_loss_over_classes_reads_right_behind_attention_are_logits_of_whatever_width() -> None:
    class Classes(Head):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            logits = self.head(self.attend(x))
            return logits, F.cross_entropy(logits.flatten(0, 1), IDS.flatten())

    found = said(traced(Classes(9, 9), torch.randn(2, 4, 9)))
    assert found[-2:] == ["logits: logits", "output[1]: loss"]
    assert "attn_out" not in str(found)


def test_what_says_the_next_token_of_a_state_beside_its_context_is_no_projection_of_attention() -> None:
    class Translation(nn.Module):
        """Luong et al.'s, of one state a token."""

        def __init__(self) -> None:
            super().__init__()
            self.source, self.target, self.out = nn.Embedding(9, 8), nn.Embedding(9, 8), nn.Linear(16, 9)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            memory, state = self.source(source), self.target(target)
            context = (state @ memory.mT).softmax(-1) @ memory
            return self.out(torch.cat([context, state], -1))

    assert said(traced(Translation(), IDS[:, :3], IDS))[-1] == "out: logits"


@pytest.mark.parametrize("kinds", [8, 9])
def test_so_it_is_where_there_are_as_many_tokens_as_the_model_is_wide(kinds: int) -> None:
    class Translation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(kinds, 8), nn.Embedding(kinds, 8)
            self.states, self.out = nn.GRU(8, 8, batch_first=True), nn.Linear(16, kinds)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            memory, _ = self.states(self.source(source))
            state, _ = self.states(self.target(target))
            context = (state @ memory.mT).softmax(-1) @ memory
            return self.out(torch.cat([state, context], -1))

    found = said(traced(Translation(), IDS[:, :3] % kinds, IDS % kinds))
    assert found[-1] == "out: logits"
    assert "attn_out" not in str(found)


def test_a_module_that_attends_keeps_its_projection_whatever_its_width() -> None:
    class Narrow(Head):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.attend(x))

    assert said(traced(Narrow(5), X))[-1] == "head: attn_out"
    assert counts(traced(nn.MultiheadAttention(8, 2, batch_first=True), X, X, X))["attn_out"] == 1


@pytest.mark.parametrize("function", [F.log_softmax, F.softmax])
def test_what_the_model_gives_softmax_of_are_logits(function: Callable[..., Tensor]) -> None:
    class Generator(Language):
        def forward(self, ids: Tensor) -> Tensor:
            return function(self.head(self.blocks[0](self.table(ids))), -1)

    assert said(traced(Generator(Block(Gated())), IDS))[-1] == "head: logits"


def test_logits_that_the_model_gives_the_logarithms_of_are_those_that_the_loss_is_of() -> None:
    class Learner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(8, 9)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            scores = self.head(x)
            logarithms = scores.log_softmax(-1)
            return logarithms, F.nll_loss(logarithms.flatten(0, 1), IDS.flatten())

    assert said(traced(Learner(), X)) == ["scores: logits", "output[1]: loss"]


def test_the_embedding_is_one_also_where_the_model_gives_it_turned() -> None:
    class LengthFirst(Language):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids.T)
            first = x.transpose(0, 1)
            self.blocks[0](x)
            return first

    assert [line for line in said(traced(LengthFirst(Block(Gated())), IDS)) if "embedding" in line] == [
        "x: token_embedding",
        "first: token_embedding",
    ]


class Scaled(Language):
    """Weight and bias follow each block, in place of a norm."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__(*blocks)
        self.weight, self.bias = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for block in self.blocks:
            state = block(x)
            x = state * self.weight + self.bias
        return x


def test_the_stream_that_the_model_gives_is_one_also_where_weights_scale_it() -> None:
    found = said(traced(Scaled(Block(Gated()), Block(Gated())), IDS))
    assert [line for line in found if "." not in line] == ["x: token_embedding", "x: residual", "x: residual"]


def test_what_is_looked_up_is_no_token_where_nothing_attends_and_nothing_is_said() -> None:
    class Recommender(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.score = nn.Embedding(9, 8), nn.Linear(8, 1)

        def forward(self, ids: Tensor) -> Tensor:
            return self.score(self.table(ids).mean(1))

    assert said(traced(Recommender(), IDS)) == []


def test_the_length_of_a_convolution_is_no_vocabulary() -> None:
    class Strided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.conv = nn.Embedding(9, 8), nn.Conv1d(8, 8, 3)

        def forward(self, ids: Tensor) -> Tensor:
            return self.conv(self.table(ids).mT)

    assert said(traced(Strided(), torch.randint(9, (2, 11)))) == []
