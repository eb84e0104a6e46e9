"""Each check can fail: shown on traces of a few calls, written by hand."""

from typing import Any

import pytest
import torch
from torch import nn

from shapetrace.schema import Call, TensorMeta, Trace
from tests.zoo import axes, checks, rows
from tests.zoo.checks import Subject, Verdict
from tests.zoo.sizes import Sizes
from tests.zoo.specimens import Specimen


def subject(trace: Trace, model: nn.Module | None = None, **inputs: Any) -> Subject:
    return Subject("causal", "ours", Sizes(), Specimen(model or nn.Identity(), inputs), trace)


def tensor(number: int, role: str | None = None, axes: tuple[str | int, ...] | None = None) -> TensorMeta:
    return TensorMeta((3, 4), number=number, role=role, axes=axes)


def traced(returned: dict[str, TensorMeta], *made: TensorMeta) -> Trace:
    """A model that returns some tensors, and makes some by softmax."""
    calls = [Call("function", "", "softmax", 1, outputs={"": one}) for one in made]
    return Trace("ours", calls=(Call("module", "", "Ours", 0, outputs=returned), *calls))


def around(trace: Trace, *modules: str, returned: TensorMeta) -> Trace:
    """The same model, with modules inside of each other around what makes its tensors, which return one."""
    first, *calls = trace.calls
    outer = [Call("module", name, name, 1 + at, outputs={"": returned}) for at, name in enumerate(modules)]
    return Trace("ours", calls=(first, *outer, *calls))


SHARES = torch.tensor([[0.5, 0.5], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("trace", "verdict"),
    [
        (traced({"attentions[0]": tensor(7)}, tensor(7, "weights")), Verdict(True, "1")),
        (traced({"ngram_attentions[0]": tensor(7)}, tensor(7, "weights")), Verdict(True, "1")),
        (traced({"attentions[0]": tensor(7)}), Verdict(False, "not weights: attentions[0]")),
        (traced({}, tensor(7, "q")), Verdict(None, "no attentions")),
        (traced({}, tensor(7, "weights")), Verdict(None, "returns no attentions, 1 have the role")),
        (
            traced({"cross_attentions[0]": tensor(7)}, tensor(8, "weights")),
            Verdict(False, "not weights: cross_attentions[0]; not returned: .softmax (3, 4)"),
        ),
        (
            traced({"attentions[0]": tensor(7)}, tensor(7, "weights"), tensor(8, "weights")),
            Verdict(False, "not returned: .softmax (3, 4)"),
        ),
    ],
)
def test_attentions_are_the_tensors_of_role_weights(trace: Trace, verdict: Verdict) -> None:
    given = subject(trace)._replace(result={"attentions": [SHARES], "cross_attentions": [SHARES]})
    assert checks.attentions(given) == verdict


@pytest.mark.parametrize("values", [SHARES * 2, SHARES - 0.5])
def test_returned_attentions_that_are_no_distribution_are_told_apart(values: torch.Tensor) -> None:
    trace = traced({"attentions[0]": tensor(7)}, tensor(7, "scores"), tensor(8, "weights"))
    assert checks.attentions(subject(trace)._replace(result={"attentions": [values]})) == Verdict(
        False, "returned are no distributions: attentions[0] is scores", apart=True
    )


def test_weights_that_a_module_returns_need_not_be_handed_on() -> None:
    weights = tensor(8, "weights")
    trace = traced({"attentions[0]": tensor(7)}, tensor(7, "weights"), weights)
    assert checks.attentions(subject(around(trace, "attend", "dropout", returned=weights))) == Verdict(True, "2")
    alone = checks.attentions(subject(around(trace, "dropout", returned=weights)))
    assert alone == Verdict(False, "not returned: .softmax (3, 4)")


def test_weights_that_are_returned_in_parts_are_those_of_one_attention() -> None:
    whole = TensorMeta((3, 9), number=6)
    parts = [TensorMeta((3, size), number=size, role="weights") for size in (4, 5)]
    calls = [Call("function", "", "__getitem__", 1, inputs={"0": whole}, outputs={"": part}) for part in parts]
    assert checks.shapes(Trace("ours", calls=tuple(calls))) == {(3, 9): 1}
    assert checks.shapes(Trace("ours", calls=tuple(calls[:1]))) == {(3, 4): 1}  # the rest is no weights: a sink


@pytest.mark.parametrize(
    ("returned", "made", "verdict"),
    [
        ({"logits": tensor(1)}, tensor(1, "logits"), Verdict(True)),
        ({"logits": tensor(1)}, tensor(1, "q"), Verdict(False, "logits is q")),
        ({"loss": tensor(2)}, tensor(1, "q"), Verdict(False, "loss is nothing")),
        ({"hidden_states[0]": tensor(1)}, tensor(1, "norm"), Verdict(True)),
        ({"hidden_states[0]": tensor(1), "hidden_states[1]": tensor(1)}, tensor(1, "residual"), Verdict(True)),
        (
            {"hidden_states[0]": tensor(1), "hidden_states[1]": tensor(1)},
            tensor(1, "norm"),
            Verdict(False, "hidden_states[0] is norm"),
        ),
    ],
)
def test_what_a_model_returns_has_its_role(returned: dict[str, TensorMeta], made: TensorMeta, verdict: Verdict) -> None:
    assert checks.roles(subject(traced(returned, made))) == verdict


class Counting(nn.Module):
    """Counts its runs, and adds their number if it is told to."""

    def __init__(self, scale: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1), persistent=False)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return x + self.scale * self.runs


def test_a_buffer_that_goes_on_counting_is_a_difference() -> None:
    found = checks.output(subject(Trace("ours"), Counting(), x=torch.ones(2)))
    assert found == Verdict(False, "[buffers][runs] differs")


def test_a_model_that_never_gives_the_same_twice_is_not_judged() -> None:
    found = checks.output(subject(Trace("ours"), Counting(1.0), x=torch.ones(2)))
    assert found == Verdict(None, "two bare runs differ:  differs")


def test_an_axis_that_is_wrong_elsewhere_is_told() -> None:
    letters = {"B": 5, "T": 4}
    assert list(axes.broken(tensor(1, axes=("B", "T")), (5, 4), letters)) == []
    assert list(axes.broken(tensor(1, axes=("B", "2·T", 4)), (5, 4, 4), letters)) == ["2·T = 8, is 4"]
    assert list(axes.broken(tensor(1, axes=("Q", "T/3")), (5, 4), letters)) == ["Q: 'Q'", "T/3: 4 / 3 is not whole"]


def test_a_letter_that_is_not_what_was_built_is_told() -> None:
    assert list(axes.misnamed(Trace("ours", sizes={"B": 3, "T": 7, "E": 6}), Sizes(B=3, T=7))) == []
    assert list(axes.misnamed(Trace("ours", sizes={"B": 7}), Sizes(B=3, T=7))) == ["B is 7, was made 3"]


def test_tensors_of_two_traces_meet_at_the_same_call() -> None:
    before, after = traced({}, tensor(1), tensor(2)), traced({}, tensor(5), tensor(6))
    assert [(a.number, b.number) for _, a, b in axes.pairs(before, after)] == [(1, 5), (2, 6)]
    assert list(axes.pairs(before, traced({}, tensor(5)))) == []


def test_dims_between_the_embedding_and_the_logits_are_counted() -> None:
    def call(name: str, one: TensorMeta) -> Call:
        return Call("function", "", name, 1, outputs={"": one})

    logits = tensor(4, axes=("B", "V"))
    trace = Trace(
        "ours",
        calls=(
            Call("module", "", "Ours", 0, outputs={"logits": logits}),
            call("arange", tensor(1)),
            call("embedding", tensor(2, axes=("B", "T"))),
            call("view", TensorMeta((1, 4), axes=(1, 4))),
            call("linear", logits),
            call("argmax", tensor(5)),
        ),
    )
    assert axes.named(subject(trace)) == Verdict(False, "80.0%", 4, 5)  # [B, T] [1, 4] [B, V], 1 not counted


def test_where_nothing_is_named_nothing_is() -> None:
    assert axes.named(subject(traced({}, tensor(1), tensor(2)))) == Verdict(False, "0.0%", 0, 4)
    assert axes.law(subject(traced({}, tensor(1)))) == Verdict(None, "no axes")


def test_what_runs_and_cannot_be_traced_is_no_type_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(self: Specimen) -> Any:
        raise RuntimeError("no trace")

    monkeypatch.setattr(Specimen, "trace", raises)
    monkeypatch.setattr(rows, "specimen", lambda *_: Specimen(nn.Identity(), {}))
    found = rows.row("causal", "ours", ["output"])
    assert (found.reason, found.verdicts) == (
        None, {"output": Verdict(False, "raises where it is traced: RuntimeError: no trace")}
    )  # fmt: skip
