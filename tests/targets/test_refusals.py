"""What a library raises while it builds a model is said in a message, without its traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands import Run

pytestmark = pytest.mark.filterwarnings("ignore")

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"hidden_act": "foo"},
            r"  KeyError: 'foo' \(transformers/activations\.py, line \d+\)\n"
            r"  fields that have such a value: hidden_act='foo'\n"
            r"  'foo' is none of gelu, .*",
        ),
        (
            {"rope_scaling": {"rope_type": "bar", "factor": 2.0}},
            r"  KeyError: 'bar' \(transformers/models/llama/modeling_llama\.py, line \d+\)\n"
            r"  fields that have such a value: rope_parameters\.rope_type='bar'\n"
            r"  'bar' is none of .*yarn.*",
        ),
        (
            {"hidden_size": -64},
            r"  RuntimeError: .* negative dimension -64.* \(transformers/models/llama/modeling_llama\.py, line \d+\)\n"
            r"  fields that have such a value: vocab_size=100, hidden_size=-64",
        ),
    ],
)
def test_a_field_that_no_model_can_have_is_named(
    tmp_path: Path, run: Run, fields: dict[str, object], said: str
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, **fields}))
    status, out, error = run("run", f"hf:{file}")
    assert (status, out) == (2, "")
    first, _, rest = error.partition("\n")
    assert first == f"shapetrace: hf:{file}: LlamaForCausalLM cannot be built with this configuration"
    assert re.fullmatch(f"{said}\n--set FIELD=VALUE changes a field\n", rest)


def test_a_field_that_is_set_is_refused_alike(run: Run) -> None:
    status, out, error = run("run", "hf:llama", "--set", "hidden_act=foo")
    assert (status, out) == (2, "")
    assert "fields that have such a value: hidden_act='foo'" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("given", [("--T", "4"), ("--set", "T=4")])
def test_an_option_that_a_library_does_not_take_is_said_to_be_given_to_it(run: Run, given: tuple[str, ...]) -> None:
    pytest.importorskip("timm")
    status, out, error = run("run", "timm:resnet18", *given)
    assert (status, out) == (2, "")
    first, why, advice = error.splitlines()
    assert first == "shapetrace: timm:resnet18: timm cannot build resnet18(T=4)"
    assert why.startswith("  TypeError: ResNet.__init__() got an unexpected keyword argument 'T' (timm/")
    assert advice == "--B is the batch; all else, --NAME VALUE or --set NAME=VALUE, is given to what builds it"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("hf:", "hf: names no model: it is hf:TYPE or hf:path/config.json; there is "),
        ("timm:", "timm: names no model: it is timm:NAME; there is "),
        ("torchvision:", "torchvision: names no model: it is torchvision:NAME; there is alexnet, "),
    ],
)
def test_a_kind_alone_is_told_what_is_missing(run: Run, target: str, said: str) -> None:
    pytest.importorskip({"hf:": "transformers"}.get(target, target.removesuffix(":")))
    status, _, error = run("run", target)
    assert status == 2
    assert error.startswith(f"shapetrace: {said}")
