"""What a run at other sizes does not do has the axes of what it is made of; a loop goes round as often as T is long."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shapetrace
from shapetrace import Trace
from shapetrace.passes.axes import name_axes, unseen
from shapetrace.passes.widths.unseen import name_unseen
from shapetrace.schema import Call, TensorMeta


class Scan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 6)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        state = x.new_zeros(x[:, 0].shape)
        states = []
        for step in range(x.shape[1]):
            here = x[:, step]
            state = state * 0.5 + here
            states.append(state)
        out = torch.stack(states, 1)
        return F.relu(out)


def test_each_round_of_a_loop_over_the_length_has_axes() -> None:
    trace = shapetrace.trace(Scan(), torch.zeros(2, 12, dtype=torch.long))
    here = [call.outputs[""].axes for call in trace.calls if call.variable("") == "here"]
    state = [call.outputs[""].axes for call in trace.calls if call.variable("") == "state"]
    assert here == [("B", 6)] * 12
    assert state[1:] == [("B", 6)] * 12


def tensor(number: int, *shape: int) -> TensorMeta:
    return TensorMeta(shape, number=number)


def call(name: str, out: TensorMeta, *given: TensorMeta, path: str = "") -> Call:
    return Call("function", path, name, 0, inputs={str(at): it for at, it in enumerate(given)}, outputs={"": out})


def named(plain: list[Call], probes: list[list[Call]], sizes: list[dict[str, int]]) -> Trace:
    runs = [Trace("net", sizes=its, calls=tuple(calls)) for its, calls in zip(sizes, [plain, *probes], strict=True)]
    return name_unseen(name_axes(runs[0], runs[1:]), unseen(runs[0], runs[1:]))


SIZES = [{"B": 3, "T": 7}, {"B": 5, "T": 11}, {"B": 7, "T": 13}]


def test_what_would_be_two_axes_at_once_stays_a_number() -> None:
    one, other = tensor(1, 3, 4), tensor(2, 3, 4)
    seen = [call("f", one), call("g", other)]
    plain = [*seen, call("mul", tensor(3, 3, 4), one, other), call("relu", tensor(4, 3, 4), one)]
    probes = [[call("f", tensor(1, its["B"], 4)), call("g", tensor(2, 3, 4))] for its in SIZES[1:]]
    axes = [made.outputs[""].axes for made in named(plain, probes, SIZES).calls]
    assert axes == [("B", 4), None, None, None]


def test_a_tensor_that_is_given_on_has_the_axes_that_it_had() -> None:
    x = tensor(1, 3, 7)
    plain = [call("f", x), call("list", x, path="outer")]
    probes = [[call("f", tensor(1, its["B"], its["T"]))] for its in SIZES[1:]]
    assert [made.outputs[""].axes for made in named(plain, probes, SIZES).calls] == [("B", "T"), ("B", "T")]


def test_what_comes_of_a_length_that_is_cut_is_not_told_from_its_size() -> None:
    x = tensor(1, 3, 7)
    part = Call(
        "function", "", "__getitem__", 0, inputs={"0": x}, literals={"1": "(:, 0:7)"}, outputs={"": tensor(2, 3, 7)}
    )
    probes = [[call("f", tensor(1, its["B"], its["T"]))] for its in SIZES[1:]]
    assert named([call("f", x), part], probes, SIZES).calls[1].outputs[""].axes == ("B", 7)
