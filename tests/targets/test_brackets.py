"""Options that a target has with it."""

from pathlib import Path

import pytest

from shapetrace.errors import ShapetraceError, TargetError
from shapetrace.targets import Request, record
from shapetrace.targets.brackets import Word, split


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("gpt", ("gpt", ())),
        ("gpt[]", ("gpt", ())),
        ("gpt[norm=post]", ("gpt", (("norm", "post"),))),
        ("gpt[norm=post, G=1]", ("gpt", (("norm", "post"), ("G", "1")))),
        ("gpt[--norm=post,no-bias]", ("gpt", (("norm", "post"), ("no-bias", None)))),
        ("my/net.py:build[n-layers=3]", ("my/net.py:build", (("n-layers", "3"),))),
        ("a[1]/net.py:build", ("a[1]/net.py:build", ())),
        ("a[1]/net.py:build[n=2]", ("a[1]/net.py:build", (("n", "2"),))),
        ("it's/net.py:build[n='2']", ("it's/net.py:build", (("n", "2"),))),
        ("Net[input=x: int64[2, 4] < 9, n=1]", ("Net", (("input", "x: int64[2, 4] < 9"), ("n", "1")))),
        ("Net[axes='C=8, H=2', of={'a': [1]}]", ("Net", (("axes", "C=8, H=2"), ("of", "{'a': [1]}")))),
        ("hf:t5[text_config.d_model=8]", ("hf:t5", (("text_config.d_model", "8"),))),
        ("gpt]", ("gpt]", ())),
    ],
)
def test_a_target_is_split_from_its_options(target: str, found: tuple[str, tuple[Word, ...]]) -> None:
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


NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x): return torch.rand(()) * x

def seeded(seed: int = 1, device: str = "near"):
    return Net(), (torch.full((seed, len(device)), 1.0),)
"""


@pytest.fixture
def nets(tmp_path: Path) -> str:
    (tmp_path / "nets.py").write_text(NETS)
    return str(tmp_path / "nets.py")


def test_what_run_takes_for_a_target_can_be_said_in_its_brackets(nets: str) -> None:
    inputs = ("x: float32[1, 1]",)
    trace = record(Request(f"{nets}:Net[input=x: float32[B=3, 4], seed=5, ops, axes=C=4]", inputs=inputs, seed=1))
    assert (trace[""]["x"].axes, trace.seed, {call.kind for call in trace.calls}) == (
        ("B", "C"),
        5,
        {"module", "function", "op"},
    )


def test_what_the_target_takes_itself_comes_first(nets: str) -> None:
    trace = record(Request(f"{nets}:seeded[seed=3, device=far]"))
    assert (trace[""]["x"].shape, trace.seed) == ((3, 3), 0)


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("hf:gpt2[num_hidden_layers=1, hidden_size=12, n_head=3]", (2, 8, 12)),
        ("hf:gpt2[L=1, C=12, H=3, T=5]", (2, 5, 12)),
        ("hf:gpt2[set=n_embd=12, n-layer=1, n_head=3, scale_attn_weights=False]", (2, 8, 12)),
    ],
)
def test_a_field_of_a_configuration_can_be_said_as_well(target: str, shape: tuple[int, ...]) -> None:
    pytest.importorskip("transformers")
    trace = record(Request(target))
    assert (trace["transformer.h.0"]["output"].shape, trace.target, trace.sizes["L"]) == (shape, target, 1)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("gpt[seed=x]", "gpt[seed=x]: seed is a whole number, not 'x'"),
        ("gpt[input]", "gpt[input]: --input needs a value: input=…"),
        ("gpt[input=ids]", "--input cannot be read\n  ids\n     ^ expected ':' after the name 'ids', then a dtype"),
        ("gpt[set=L=3]", "gpt[set=L=3]: --set changes a field of a configuration: it is for hf:…, timm:…"),
        ("gpt[depth=1]", "gpt[depth=1] takes no --depth; it takes "),
    ],
)
def test_what_cannot_be_so_is_refused(target: str, said: str) -> None:
    with pytest.raises(ShapetraceError) as error:
        record(Request(target))
    assert str(error.value).startswith(said)


def test_a_field_that_is_not_there_is_refused_by_its_name() -> None:
    pytest.importorskip("transformers")
    with pytest.raises(TargetError, match=r"^hf:gpt2: --set n_hed=3: there is no field 'n_hed' in GPT2Config: did you"):
        record(Request("hf:gpt2[n_hed=3]"))


def test_an_option_that_the_target_does_not_have_is_refused_by_its_name() -> None:
    with pytest.raises(TargetError, match=r"^gpt\[nrm=post\] takes no --nrm: did you mean --norm\?"):
        record(Request("gpt[nrm=post]"))
