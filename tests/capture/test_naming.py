"""Axes end to end: what is named, what is said where nothing can be, and when a model is run again for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import shapetrace
import shapetrace.capture.copied
from shapetrace import Trace
from shapetrace.errors import InputError
from shapetrace.models.gpt import gpt


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.parts, *args, **kwargs)


def first(trace: Trace) -> list[tuple[str | int, ...]]:
    """The axes of what the model was given, and of what it gave."""
    call = trace.calls[0]
    return [tensor.axes or tensor.shape for tensor in (*call.inputs.values(), *call.outputs.values())]


IDS = torch.arange(8).view(2, 4)


# --- what a model cannot do ---


def refuse(x: Tensor) -> Tensor:
    if x.shape != (2, 4):
        raise ValueError("two rows of four, and\nnothing else")
    return x * 2


def leave(x: Tensor) -> Tensor:
    return x * 2 if x.shape == (2, 4) else sys.exit(3)


@pytest.mark.parametrize(
    ("model", "args", "note"),
    [
        (
            Function(refuse),
            (torch.zeros(2, 4),),
            "axes are not named: the model does not run at other sizes (ValueError: two rows of four, and); "
            "axes='B=… T=…' names what has these sizes",
        ),
        (
            Function(leave),
            (torch.zeros(2, 4),),
            "axes are not named: the model does not run at other sizes (SystemExit: 3); "
            "axes='B=… T=…' names what has these sizes",
        ),
        (
            Function(lambda x: x.to_dense()),
            (torch.eye(3).to_sparse(),),
            "axes are not named: it is given a sparse, nested or quantised tensor",
        ),
        (
            Function(lambda x, _: x + 1),
            (torch.zeros(2, 4), threading.Lock()),
            "axes are not named: its arguments cannot be copied: TypeError; axes='B=… T=…' names what has these sizes",
        ),
        (
            Function(lambda: torch.zeros(2)),
            (),
            "axes are not named: nothing that the model was given has a size that could be another",
        ),
        (
            nn.Linear(8, 8),
            (torch.zeros(2, 4, 8),),
            "axes: nothing tells which of the input's axes (2, 4) is which; axes='B=2 T=4' or axes='B=4 T=2' says so",
        ),
    ],
)  # fmt: skip
def test_where_axes_cannot_be_named_the_header_says_why(model: nn.Module, args: tuple[Any, ...], note: str) -> None:
    trace = shapetrace.trace(model, *args)
    assert trace.notes == (note,)
    assert all(tensor.axes is None for call in trace.calls for tensor in call.outputs.values())


def test_a_model_that_runs_in_several_processes_is_not_run_again_in_one_of_them() -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        trace = shapetrace.trace(nn.Linear(8, 8), torch.zeros(2, 8))
    finally:
        torch.distributed.destroy_process_group()
    assert trace.notes == (
        "axes are not named: the model runs in several processes, which would have to run again together; "
        "axes='B=… T=…' names what has these sizes",
    )  # fmt: skip


def test_a_model_that_cannot_be_copied_is_traced_as_ever() -> None:
    model = Function(refuse)
    model.numbers = (number for number in (1, 2))
    trace = shapetrace.trace(model, torch.zeros(2, 4))
    assert trace.notes == (
        "axes are not named: the model does not run at other sizes (TypeError: cannot pickle 'generator' object); "
        "axes='B=… T=…' names what has these sizes",
    )
    assert next(model.numbers) == 1


def test_whatever_fails_in_naming_the_trace_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("shapetrace.capture.naming.name_axes", fail)
    trace = shapetrace.trace(nn.Linear(8, 8), torch.zeros(2, 8))
    assert trace.notes == ("axes are not named: RuntimeError: a mistake of ours",)
    assert [call.name for call in trace.calls] == ["Linear", "linear"]


def test_a_forward_that_raises_raises_what_it_did_and_is_run_once() -> None:
    ran = []

    def forward(x: Tensor) -> Tensor:
        ran.append(len(x))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as raised:
        shapetrace.trace(Function(forward), IDS)
    assert ran == [2]
    trace = shapetrace.trace_of(raised.value)
    assert trace is not None
    assert trace.error == "KeyError: 'mine'"


# --- sizes that a model takes ---


def test_a_context_with_no_room_for_more_is_probed_with_less() -> None:
    positions = nn.Parameter(torch.zeros(4, 8))
    model = Function(lambda e, x: e(x) + positions[: x.shape[1]], nn.Embedding(9, 8))
    for given in (IDS, torch.zeros(4, 4, dtype=torch.long)):
        assert first(shapetrace.trace(model, given)) == [("B", "T"), ("B", "T", 8)]


def test_lengths_that_must_be_multiples_are_probed_with_multiples() -> None:
    model = Function(lambda e, x: e(x).unflatten(1, (-1, 4)).sum(2), nn.Embedding(9, 8))
    given = torch.zeros(2, 8, dtype=torch.long)
    assert first(shapetrace.trace(model, given)) == [("B", "T"), ("B", "T/4", 8)]


def test_a_batch_of_one_is_a_batch() -> None:
    assert first(shapetrace.trace(nn.Embedding(9, 8), IDS[:1])) == [("B", "T"), ("B", "T", 8)]


def test_floats_that_are_given_at_the_width_of_the_model_grow_with_it() -> None:
    class Net(nn.Module):
        def __init__(self, config: SimpleNamespace) -> None:
            super().__init__()
            self.config = config
            self.linear = nn.Linear(config.d_model, 3 * config.d_model)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    trace = shapetrace.trace(Net(SimpleNamespace(d_model=8)), torch.zeros(2, 8))
    assert first(trace) == [("B", "C"), ("B", "3·C")]


def test_of_rows_of_an_image_that_stay_as_they_are_nothing_is_made() -> None:
    class Rows(nn.Module):
        def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
            if image.shape[1:] != (3, 5, 7):
                raise ValueError
            return image.permute(0, 2, 3, 1).reshape(-1, 7, 3), image.permute(0, 3, 2, 1).reshape(-1, 5, 3)

    trace = shapetrace.trace(Rows(), torch.zeros(2, 3, 5, 7))
    assert [tensor.axes or tensor.shape for tensor in trace.calls[0].outputs.values()] == [(10, 7, 3), (14, 5, 3)]


def test_of_rows_of_channels_that_no_weight_is_as_wide_as_nothing_is_made() -> None:
    """Series of five channels, each cut into pieces: 5·B would be 6·B of six channels."""

    def forward(linear: nn.Module, x: Tensor) -> Tensor:
        pieces = x.transpose(1, 2).unfold(-1, 4, 4)
        return linear(pieces.flatten(0, 1))

    trace = shapetrace.trace(Function(forward, nn.Linear(4, 8)), torch.zeros(2, 32, 5), axes="B=2")
    assert first(trace) == [("B", 32, 5), (10, 8, 8)]


def test_nodes_that_a_matrix_says_are_next_to_each_other_are_no_batch() -> None:
    def forward(linear: nn.Module, x: Tensor, edges: Tensor) -> Tensor:
        return linear(x) + edges @ linear(x)

    trace = shapetrace.trace(Function(forward, nn.Linear(8, 8)), torch.zeros(5, 8), torch.zeros(5, 5))
    assert trace.sizes == {}
    assert trace.notes == ("axes: nothing tells which of the input's axes (5) is which; axes='T=5' says so",)


def test_images_have_a_batch() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 8 * 8, 10))
    assert first(shapetrace.trace(model, torch.zeros(2, 3, 8, 8))) == [("B", 3, 8, 8), ("B", 10)]


def test_sound_has_a_batch() -> None:
    model = nn.Sequential(nn.Conv1d(1, 8, 10, stride=5), nn.GELU())
    assert first(shapetrace.trace(model, torch.zeros(2, 1, 400))) == [("B", 1, 400), ("B", 8, 79)]


def test_a_model_that_looks_at_values_sees_such_as_it_was_given() -> None:
    def forward(e: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
        if not bool(mask.any()) or int(ids.max()) > 8 or float(mask.float().mean()) < 0.5:
            raise ValueError("no such values")
        return e(ids) * mask[..., None]

    mask = torch.ones(2, 4, dtype=torch.bool)
    assert first(shapetrace.trace(Function(forward, nn.Embedding(9, 8)), IDS, mask))[2] == ("B", "T", 8)


def test_a_large_model_is_run_again_without_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapetrace.capture.copied, "LARGE", 0)
    kinds: set[str] = set()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(9, 8)
            self.offset = torch.zeros(8)  # neither parameter nor buffer

        def forward(self, ids: Tensor) -> Tensor:
            kinds.add(type(self.token.weight.data).__name__)
            return self.token(ids) + self.offset

    assert first(shapetrace.trace(Net(), IDS)) == [("B", "T"), ("B", "T", 8)]
    assert kinds == {"Tensor", "FakeTensor"}


def test_a_large_model_is_built_again_without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapetrace.capture.copied, "LARGE", 0)
    kinds: list[str] = []

    class Net(nn.Module):
        def __init__(self, config: dict[str, int]) -> None:
            super().__init__()
            self.config = config
            self.token = nn.Embedding(config["vocab_size"], config["hidden_size"])
            nn.init.trunc_normal_(self.token.weight)
            kinds.append(type(self.token.weight.data).__name__)

        def forward(self, ids: Tensor) -> Tensor:
            return self.token(ids)

    model = Net({"vocab_size": 9, "hidden_size": 8})
    assert first(shapetrace.trace(model, IDS)) == [("B", "T"), ("B", "T", "C")]
    assert kinds == ["Tensor", "FakeTensor", "FakeTensor"]


def test_a_gradient_that_a_forward_asks_for_is_there_in_probes() -> None:
    model = Function(lambda net, x: torch.autograd.grad(net(x).sum(), x)[0], nn.Linear(8, 8))
    assert first(shapetrace.trace(model, torch.zeros(2, 8, requires_grad=True))) == [("B", 8), ("B", 8)]


def test_a_field_of_a_configuration_that_is_the_longest_length_is_not_the_length() -> None:
    class Net(nn.Module):
        def __init__(self, config: dict[str, int]) -> None:
            super().__init__()
            self.config = config
            self.token = nn.Embedding(16, config["C"])
            self.position = nn.Embedding(config["T"], config["C"])

        def forward(self, ids: Tensor) -> Tensor:
            return self.token(ids) + self.position(torch.arange(ids.shape[1]))

    trace = shapetrace.trace(Net({"T": 64, "C": 8}), IDS)
    assert first(trace) == [("B", "T"), ("B", "T", "C")]
    assert trace.sizes == {"C": 8, "B": 2, "T": 4}


# --- what a user declares ---


def test_sizes_that_a_user_declares_name_what_nothing_else_tells() -> None:
    model = nn.Linear(8, 8)
    x = torch.zeros(2, 4, 8)
    assert first(shapetrace.trace(model, x, axes="B=2 T=4")) == [("B", "T", 8)] * 2
    assert first(shapetrace.trace(model, torch.zeros(8, 8), axes="C=8")) == [("B", "C")] * 2
    trace = shapetrace.trace(nn.Embedding(9, 8), IDS, axes="B=3 T=4")
    assert trace.notes == ("axes: B is 2 in this model, not 3",)


# --- when ---


class Counted(nn.Module):
    """A class attribute is what a copy shares with the model."""

    ran = 0

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(9, 8)

    def forward(self, ids: Tensor) -> Tensor:
        Counted.ran += 1
        return self.token(ids)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    Counted.ran = 0


def test_a_model_is_run_again_twice_or_not_at_all() -> None:
    shapetrace.trace(Counted(), IDS)
    assert Counted.ran == 3
    shapetrace.trace(Counted(), IDS, axes=False)
    assert Counted.ran == 4


class Translator(nn.Module):
    """With masks as its tensors are: of floats, [B, 1, S] and [1, T, T]."""

    def __init__(self, *, is_recurrent: bool = False) -> None:
        super().__init__()
        self.source, self.table, self.head = nn.Embedding(9, 8), nn.Embedding(9, 8), nn.Linear(8, 9)
        self.cell = nn.GRU(8, 8, batch_first=True) if is_recurrent else None

    def forward(self, source: Tensor, ids: Tensor, source_mask: Tensor, mask: Tensor) -> Tensor:
        Counted.ran += 1
        s, x = self.source(source), self.table(ids)
        s = self.cell(s)[0] if self.cell is not None else s + attend(s, s, source_mask)
        x = x if self.cell is None else self.cell(x, s[None, :, -1].contiguous())[0]
        x = x + attend(x, x, mask)
        return cast(Tensor, self.head(x + attend(x, s, source_mask)))


def attend(x: Tensor, source: Tensor, mask: Tensor) -> Tensor:
    return (x @ source.mT).masked_fill(mask == 0, -1e9).softmax(-1) @ source


@pytest.mark.parametrize("is_recurrent", [False, True])
@pytest.mark.parametrize("S", [4, 5])
def test_what_the_forward_did_says_which_lengths_belong_together_and_nothing_is_tried(
    S: int, *, is_recurrent: bool
) -> None:
    source, mask = torch.zeros(2, S).long(), torch.ones(1, 4, 4).tril()
    model = Translator(is_recurrent=is_recurrent)
    trace = shapetrace.trace(model, source, IDS, torch.ones(2, 1, S), mask)
    assert [tensor.axes for tensor in trace.calls[0].inputs.values()] == [
        ("B", "S"), ("B", "T"), ("B", 1, "S"), (1, "T", "T")
    ]  # fmt: skip
    assert trace.roles("weights")[-1].axes == ("B", "T", "S")
    assert Counted.ran == 3


class Pieces(nn.Module):
    """Of a picture; of four by four there are as many as it has rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)

    def forward(self, image: Tensor) -> Tensor:
        B, _, rows, columns = image.shape
        pieces = image.view(B, rows // 2, 2, columns // 2, 2).transpose(2, 3).flatten(3).flatten(1, 2)
        x = cast(Tensor, self.embed(pieces))
        return (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("rows", [4, 6])
def test_rows_of_a_picture_are_no_length_if_there_are_as_many_pieces_by_chance(rows: int) -> None:
    trace = shapetrace.trace(Pieces(), torch.zeros(2, 1, rows, rows))
    assert trace.calls[0].inputs["image"].axes == ("B", 1, rows, rows)
    assert trace.roles("weights")[0].axes == ("B", (rows // 2) ** 2, (rows // 2) ** 2)


class Cached(nn.Module):
    """Attends to a past, which it is given as two tensors, or in an object that shows none."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor, past: Any) -> Tensor:
        Counted.ran += 1
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        before = past if isinstance(past, tuple) else (past.k, past.v)
        k, v = (torch.cat([old, new], 2) for old, new in zip(before, (k, v), strict=True))
        y = (q @ k.mT).softmax(-1) @ v
        return x + cast(Tensor, self.out(y.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("is_hidden", [False, True])
@pytest.mark.parametrize(("T", "P"), [(1, 5), (1, 2), (4, 4), (4, 5)])
def test_a_past_is_told_from_what_is_new_whatever_their_lengths(T: int, P: int, *, is_hidden: bool) -> None:
    k, v = torch.randn(2, 2, P, 4), torch.randn(2, 2, P, 4)
    past = SimpleNamespace(k=k, v=v) if is_hidden else (k, v)
    trace = shapetrace.trace(Cached(), torch.randn(2, T, 8), past)
    assert trace.notes == ()
    assert trace.sizes["P"] == P
    assert trace.roles("weights")[0].axes == (("B", "H", "T", "P+T") if T > 1 else ("B", "H", 1, "P+1"))
    assert is_hidden or Counted.ran <= 4


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.place = nn.Conv2d(3, 8, 4, stride=4), nn.Parameter(torch.zeros(1, 9, 8))

    def forward(self, image: Tensor) -> Tensor:
        Counted.ran += 1
        x = self.conv(image).flatten(2).mT + self.place
        return x + (x @ x.mT).softmax(-1) @ x


def test_what_is_as_long_as_a_weight_is_not_tried_at_other_sizes() -> None:
    trace = shapetrace.trace(Patches(), torch.zeros(2, 3, 12, 12))
    assert trace.roles("weights")[0].axes == ("B", 9, 9)
    assert Counted.ran == 3


class Compared(nn.Module):
    """The same for two sequences of different tokens, which meet nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(9, 8), nn.Linear(8, 1)

    def forward(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        Counted.ran += 1
        x, y = (self.out(self.table(ids))[:, -1, 0] for ids in (chosen, rejected))
        return (x - y).sigmoid().log().mean()


def test_equal_lengths_of_tokens_that_never_meet_are_two() -> None:
    trace = shapetrace.trace(Compared(), IDS, IDS.clone())
    assert [tensor.axes for tensor in trace.calls[0].inputs.values()] == [("B", 4), ("B", 4)]
    assert trace.notes == (
        "axes: nothing tells which of the input's axes (4, 4) is which; where their sizes differ axes='T=… S=…' says "
        "so",
    )


def test_in_a_block_the_model_is_run_again_when_traces_are_read_and_once() -> None:
    model = Counted()
    with shapetrace.attach(model) as tap:
        model(IDS)
        assert Counted.ran == 1
        assert first(tap.traces[-1]) == [("B", "T"), ("B", "T", 8)]  # as far as it has been seen
        ran = Counted.ran
        model(IDS)
    assert Counted.ran == ran + 1
    assert [first(trace) for trace in tap.traces] == [[("B", "T"), ("B", "T", 8)]] * 2
    ran = Counted.ran
    assert [first(trace) for trace in tap.traces] == [[("B", "T"), ("B", "T", 8)]] * 2
    assert Counted.ran == ran


def test_what_a_block_runs_before_the_model_is_not_taken_for_it() -> None:
    model = nn.Embedding(9, 8)
    with shapetrace.attach(model) as tap:
        ids = torch.zeros(2, 4).long()
        model(ids).sum()
    calls = {call.name: call for call in tap.traces[0].calls}
    assert list(calls) == ["zeros", "long", "Embedding", "embedding", "sum"]
    assert calls["Embedding"].inputs["input"].axes == ("B", "T")


def test_in_a_loop_nothing_is_run_again_unless_that_is_asked_for() -> None:
    model, seen = Counted(), []
    tap = shapetrace.attach(model, on_trace=seen.append)
    for _ in range(3):
        model(IDS)
    tap.detach()
    assert [first(trace) for trace in (*tap.traces, *seen)] == [[(2, 4), (2, 4, 8)]] * 6
    assert Counted.ran == 3
    tap = shapetrace.attach(model, axes=True)
    model(IDS)
    tap.detach()
    assert first(tap.traces[0]) == [("B", "T"), ("B", "T", 8)]


def test_what_ran_until_a_forward_failed_has_axes_if_the_model_runs_at_other_sizes() -> None:
    def forward(first: nn.Module, second: nn.Module, x: Tensor) -> Tensor:
        x = first(x)
        if len(x) == 2:
            raise ValueError("not two")
        return second(x)

    model = Function(forward, nn.Linear(8, 8), nn.Linear(8, 8))
    with pytest.raises(ValueError, match="not two"), shapetrace.attach(model) as tap:
        model(torch.zeros(2, 8))
    (trace,) = tap.traces
    assert trace.error == "ValueError: not two"
    assert trace.calls[-1].outputs[""].axes == ("B", 8)


def test_names_stay_in_the_file(tmp_path: Path) -> None:
    model, args, kwargs = gpt()
    trace = shapetrace.trace(model, *args, **kwargs)
    trace.save(tmp_path / "gpt.jsonl")
    loaded = shapetrace.load(tmp_path / "gpt.jsonl")
    assert loaded == trace
    assert loaded["blocks.0.attention"]["q"].axes == ("B", "H", "T", "D")


def test_axes_are_words_or_whether_there_are_any() -> None:
    with pytest.raises(InputError) as error:
        shapetrace.trace(nn.Linear(2, 2), torch.zeros(1, 2), axes={"C": 2})
    assert str(error.value) == "axes is True, False, or letters and their sizes as 'B=2 T=4', not {'C': 2}"
