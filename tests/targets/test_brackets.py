"""Options that a target has with it."""

import pytest

from shapetrace.errors import TargetError
from shapetrace.targets import Request, record
from shapetrace.targets.brackets import split


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("gpt", ("gpt", ())),
        ("gpt[]", ("gpt", ())),
        ("gpt[norm=post]", ("gpt", ("--norm=post",))),
        ("gpt[norm=post, G=1]", ("gpt", ("--norm=post", "--G=1"))),
        ("gpt[--norm=post,no-bias]", ("gpt", ("--norm=post", "--no-bias"))),
        ("my/net.py:build[n-layers=3]", ("my/net.py:build", ("--n-layers=3",))),
        ("a[1]/net.py:build", ("a[1]/net.py:build", ())),
        ("a[1]/net.py:build[n=2]", ("a[1]/net.py:build", ("--n=2",))),
    ],
)
def test_a_target_is_split_from_its_options(target: str, found: tuple[str, tuple[str, ...]]) -> None:
    assert split(target) == found


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("gpt[norm post]", "gpt[norm post]: 'norm post' is no option; in brackets stands name=value, …"),
        ("gpt[norm=post,]", "gpt[norm=post,]: '' is no option; in brackets stands name=value, …"),
        ("[norm=post]", "[norm=post] names no target before its options; for example gpt[norm=post]"),
    ],
)
def test_what_is_no_option_is_refused(target: str, said: str) -> None:
    with pytest.raises(TargetError) as error:
        split(target)
    assert str(error.value) == said


def test_a_target_runs_with_its_options_which_come_before_those_of_the_request() -> None:
    trace = record(Request("GPT[B=1,norm=post]", ("--B=3", "--T=5")))
    assert (trace.target, trace.sizes["B"], trace.sizes["T"]) == ("gpt[B=1,norm=post]", 1, 5)
    assert trace.description == "decoder-only · post-LN · learned positions"


def test_an_option_that_the_target_does_not_have_is_refused_by_its_name() -> None:
    with pytest.raises(TargetError, match=r"^gpt\[nrm=post\] takes no --nrm: did you mean --norm\?"):
        record(Request("gpt[nrm=post]"))
