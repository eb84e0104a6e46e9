"""Which weight goes to which: by name, by use, and what is said where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from shapetrace import ValuesDiff, compare_values

C = 6
X = torch.tensor([[[0.5, -1.0, 2.0, 0.25, 1.5, -0.75], [1.0, 0.5, -0.5, 2.0, -1.5, 0.125]]])


class Gated(nn.Module):
    """`silu(first(x)) * second(x)`, by the names they have and in the order in which they are registered."""

    def __init__(self, registered: Sequence[str], first: str, second: str, *, is_first_used_last: bool = False) -> None:
        super().__init__()
        for name in registered:
            setattr(self, name, nn.Linear(C, 9))
        self.first, self.second, self.is_first_used_last = first, second, is_first_used_last
        self.last = nn.Linear(9, C)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first_used_last:
            plain = getattr(self, self.second)(x)
            out: Tensor = self.last(plain * fn.silu(getattr(self, self.first)(x)))
            return out
        gate = fn.silu(getattr(self, self.first)(x))
        out = self.last(gate * getattr(self, self.second)(x))
        return out


def went(found: ValuesDiff) -> list[tuple[str, str, str, str]]:
    each_way = [(each.before, each.after, each.by, each.against) for each in found.copied]
    return [each for each in each_way if each[0].endswith(".weight") and each[0] != "last.weight"]


def copied(before: nn.Module, after: nn.Module) -> ValuesDiff:
    return compare_values(before, after, X, weights="copy")


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [
        (("gate", "up"), "gate", "up"),
        (("u", "g"), "g", "u"),
        (("w1", "w3"), "w1", "w3"),
        (("w_up", "w_gate"), "w_gate", "w_up"),
    ],
)
def test_names_that_say_what_use_says_are_no_matter(names: Sequence[str], first: str, second: str) -> None:
    found = copied(Gated(("gate_proj", "up_proj"), "gate_proj", "up_proj"), Gated(names, first, second))
    assert not found
    assert {each[3] for each in went(found)} == {""}


@pytest.mark.parametrize(
    ("names", "first", "second"),
    [(("u", "g"), "u", "g"), (("w1", "w3"), "w3", "w1"), (("w_up", "w_gate"), "w_up", "w_gate")],
)
def test_names_that_say_otherwise_than_use_are_followed(names: Sequence[str], first: str, second: str) -> None:
    is_first_used_last = names[0] == "w1"
    port = Gated(names, first, second, is_first_used_last=is_first_used_last)
    found = copied(Gated(("gate_proj", "up_proj"), "gate_proj", "up_proj"), port)
    assert found
    assert went(found) == [
        ("gate_proj.weight", second, "name", "use"),
        ("up_proj.weight", first, "name", "use"),
    ] or sorted(each[:2] for each in went(found)) == [
        ("gate_proj.weight", f"{second}.weight"),
        ("up_proj.weight", f"{first}.weight"),
    ]


def test_names_that_say_nothing_leave_it_to_use_and_another_order_is_said() -> None:
    found = copied(Gated(("gate", "up"), "gate", "up"), Gated(("left", "right"), "right", "left"))
    assert not found
    assert went(found) == [
        ("gate.weight", "right.weight", "use", "order"),
        ("up.weight", "left.weight", "use", "order"),
    ]
    assert (
        "    copied by what is made with them, but one module has them in another order:\n"
        "    gate.weight → right.weight, gate.bias → right.bias and 2 more\n"
    ) in str(found)


class Tokens(nn.Module):
    """An embedding and a head, of one weight or of two."""

    def __init__(self, table: str, *, is_tied: bool, head: str = "head") -> None:
        super().__init__()
        self.table, self.name = table, head
        setattr(self, table, nn.Embedding(7, C))
        if not is_tied:
            setattr(self, head, nn.Linear(C, 7, bias=False))
        self.is_tied = is_tied
        self.norm = nn.LayerNorm(C)

    def forward(self, ids: Tensor) -> Tensor:
        table = getattr(self, self.table)
        x = self.norm(table(ids))
        out: Tensor = fn.linear(x, table.weight) if self.is_tied else getattr(self, self.name)(x)
        return out


IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("table", ["tokens", "embed"])
def test_a_tied_weight_goes_to_both_of_a_port_that_has_two(table: str) -> None:
    found = compare_values(Tokens("tokens", is_tied=True), Tokens(table, is_tied=False), IDS, weights="copy")
    assert not found
    assert [each.after for each in found.copied if each.before == "tokens.weight"] == [f"{table}.weight", "head.weight"]


def test_of_two_weights_and_a_tied_one_that_which_goes_nowhere_is_named() -> None:
    found = compare_values(Tokens("tokens", is_tied=False), Tokens("embed", is_tied=True), IDS, weights="copy")
    assert found
    assert found.weights == "3 copied, 1 by what is made with them, 1 of before went nowhere: head.weight"


class Pair(nn.Module):
    """Two embeddings and a head of as many weights, or of one."""

    def __init__(self, *, is_tied: bool) -> None:
        super().__init__()
        self.shared = nn.Embedding(7, C)
        self.source, self.target, self.out = (None if is_tied else nn.Embedding(7, C) for _ in range(3))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, written, out = (each or self.shared for each in (self.source, self.target, self.out))
        return fn.linear(fn.silu(read(source)).mean(1, keepdim=True) + written(target), out.weight)


def test_a_weight_that_encoder_decoder_and_head_share_goes_to_all_three() -> None:
    port = Pair(is_tied=False)
    del port.shared
    assert not compare_values(Pair(is_tied=True), port, IDS, IDS, weights="copy")


class Kept(nn.Module):
    """Two layers that are kept as (inputs, outputs), as in GPT-2; or those in `turned` as a Linear keeps them."""

    def __init__(self, wide: int, turned: str = "") -> None:
        super().__init__()
        self.square = nn.Parameter(torch.randn(C, C))
        self.wide = nn.Parameter(torch.randn(wide, C) if "wide" in turned else torch.randn(C, wide))
        self.turned = turned

    def forward(self, x: Tensor) -> Tensor:
        x = x @ (self.square.T if "square" in self.turned else self.square)
        return x @ (self.wide.T if "wide" in self.turned else self.wide)


@pytest.mark.parametrize("wide", [C, 9])
def test_a_weight_of_one_name_and_shape_that_is_used_turned_is_a_bug_and_is_named(wide: int) -> None:
    found = copied(Kept(wide), Kept(wide, "square"))
    assert found.first is not None
    assert found.first.before.call.inputs["1"].name == "square"


def test_where_a_port_keeps_all_weights_otherwise_square_ones_are_turned_too() -> None:
    assert not copied(Kept(9), Kept(9, "square wide"))
