"""Models of transformers, by their type or their configuration."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from shapetrace.errors import ShapetraceError
from shapetrace.renderers import Style, render
from shapetrace.schema import Trace
from shapetrace.targets import Request, Way, find, record
from shapetrace.targets.hf.configs import Recipe
from tests.commands import Run

pytestmark = pytest.mark.filterwarnings("ignore")

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


def traced(target: str, *options: str, **way: object) -> Trace:
    return record(Request(target, options=options, way=Way(**way)))


def error(target: str, *options: str, **way: object) -> str:
    with pytest.raises(ShapetraceError) as caught:
        traced(target, *options, **way)
    return str(caught.value)


def test_a_type_has_its_default_sizes_and_no_weights() -> None:
    found = traced("hf:llama", "--T", "16", changes=("num_hidden_layers=1",))
    assert (found.model, found.target, found.weightless) == ("LlamaForCausalLM", "hf:llama", True)
    assert found.sizes == {
        "B": 2, "T": 16, "C": 4096, "H": 32, "D": 128, "F": 11008, "V": 32000, "L": 1
    }  # fmt: skip
    assert found.roles("logits")[0].axes == ("B", "T", "V")


def test_letters_size_the_fields_of_the_configuration() -> None:
    found = traced("hf:llama", *"--C 64 --H 8 --G 2 --D 8 --F 96 --V 99 --L 2".split())
    assert found.sizes == {"B": 2, "T": 8, "C": 64, "H": 8, "D": 8, "G": 2, "F": 96, "V": 99, "L": 2}
    assert found.roles("q")[0].axes == ("B", "H", "T", "D")
    assert found.roles("k")[0].axes == ("B", "G", "T", "D")


def test_experts_ranks_and_rotated_parts_are_letters_too() -> None:
    small = (
        "num_hidden_layers=2 first_k_dense_replace=1 hidden_size=64 n_routed_experts=16 num_attention_heads=4".split()
    )
    found = traced("hf:deepseek_v3", "--Q", "48", changes=tuple(small))
    letters = {letter: found.sizes[letter] for letter in "EKJQRUZ"}
    assert letters == {"E": 16, "K": 8, "J": 2048, "Q": 48, "R": 64, "U": 128, "Z": 512}
    assert found.roles("q")[0].axes == ("B", "H", "T", "U+R")


def test_a_state_space_has_letters_of_its_own() -> None:
    found = traced("hf:bamba", changes=("num_hidden_layers=1",))
    letters = {letter: found.sizes[letter] for letter in "hgdNwc"}
    assert letters == {"h": 128, "g": 1, "d": 64, "N": 256, "w": 4, "c": 256}
    assert found["model.layers.0.mamba"]["gate"].axes == ("B", "T", "h·d")
    assert found["model.layers.0.mamba"]["out"].axes == ("B", "h·d+2·g·N", "T")


def test_heads_of_linear_attention_are_not_those_of_attention() -> None:
    widths = ("num_hidden_layers=1", "linear_num_key_heads=32", "linear_key_head_dim=64")
    found = traced("hf:qwen3_next", changes=widths)
    assert {letter: found.sizes[letter] for letter in "hdkw"} == {"h": 32, "d": 128, "k": 64, "w": 4}
    assert "g" not in found.sizes  # each head has keys of its own
    assert found["model.layers.0.linear_attn"]["out"].axes == ("B", "h·d+2·h·k", "T")


def test_it_is_printed_as_any_model() -> None:
    found = traced("hf:llama", *"--C 64 --H 4 --G 2 --D 16 --F 96 --V 100 --L 2".split())
    head, *_ = render(found, Style(width=100, color=False)).splitlines()
    assert head == "LlamaForCausalLM   hf:llama   B=2 T=8 C=64 H=4 D=16 G=2 F=96 V=100 L=2   float32 cpu weightless"


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., str]:
    def write(**fields: object) -> str:
        file = tmp_path / "config.json"
        file.write_text(json.dumps({**LLAMA, **fields}))
        return f"hf:{file}"

    return write


def test_a_file_holds_the_configuration_a_user_has(config: Callable[..., str]) -> None:
    found = traced(config(torch_dtype="bfloat16"))
    assert (found.model, found.dtype) == ("LlamaForCausalLM", "bfloat16")
    assert found.sizes["V"] == 100


def test_the_file_names_the_class(config: Callable[..., str]) -> None:
    assert traced(config(architectures=["LlamaForSequenceClassification"])).model == "LlamaForSequenceClassification"


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("hf:bert", "BertForMaskedLM"),
        ("hf:bert:ForSequenceClassification", "BertForSequenceClassification"),
        ("hf:bert:BertModel", "BertModel"),
        ("hf:t5", "T5ForConditionalGeneration"),
        ("hf:whisper", "WhisperForConditionalGeneration"),
        ("hf:vit", "ViTForImageClassification"),
        ("hf:wav2vec2", "Wav2Vec2ForCTC"),
        ("hf:clip", "CLIPModel"),
    ],
)
def test_the_class_is_that_which_says_most_of_the_type(target: str, model: str) -> None:
    assert traced(target).model == model


def test_an_encoder_and_a_decoder_have_lengths_of_their_own() -> None:
    found = traced("hf:t5", "--T", "5", "--S", "7")
    assert (found.sizes["T"], found.sizes["S"]) == (5, 7)
    assert {record.axes for record in found.roles("k")} == {("B", "H", "S", "D"), ("B", "H", "T", "D")}


def test_fields_of_a_configuration_inside_are_written_with_dots() -> None:
    found = traced("hf:clip", changes=("text_config.num_hidden_layers=1", "vision_config.num_hidden_layers=2"))
    layers = {call.path for call in found.calls if call.name == "CLIPEncoderLayer"}
    assert len(layers) == 3


MIXTURE = {
    **LLAMA, "model_type": "longcat_flash", "num_layers": 1, "ffn_hidden_size": 96, "expert_ffn_hidden_size": 32,
    "n_routed_experts": 4, "zero_expert_num": 2, "moe_topk": 2, "kv_lora_rank": 16, "q_lora_rank": 32,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "head_dim": 8,
}  # fmt: skip
"""It loops over the experts that its router has chosen."""


def test_a_model_that_looks_at_what_it_computes_runs_small_and_says_so(config: Callable[..., str]) -> None:
    found = traced(config(**MIXTURE))
    assert not found.weightless
    assert found.notes == (
        "it looks at what it computes (aten.nonzero.default), and without weights there is nothing to see; "
        "this is a small model in its place, which is not weightless",
    )


def test_where_it_must_be_weightless_that_is_an_error(config: Callable[..., str]) -> None:
    with pytest.raises(ShapetraceError) as caught:
        traced(config(**MIXTURE), weightless=True)
    assert type(caught.value.__cause__).__name__ == "DynamicOutputShapeException"


def test_weights_are_made_where_they_are_wanted() -> None:
    found = traced("hf:llama", *"--C 64 --H 4 --D 16 --F 96 --V 100 --L 2".split(), weightless=False)
    assert not found.weightless


@pytest.mark.parametrize(
    ("target", "changes", "said"),
    [
        ("hf:lama", (), "hf:lama: transformers has no model of type 'lama': did you mean llama, llama4, mllama?"),
        (
            "hf:llama:ForMaskedLM",
            (),
            "hf:llama:ForMaskedLM: there is no class 'ForMaskedLM' for 'llama': did you mean LlamaForCausalLM?",
        ),
        (
            "hf:llama",
            ("num_layers=2",),
            "hf:llama: --set num_layers=2: there is no field 'num_layers' in LlamaConfig: "
            "did you mean num_hidden_layers?",
        ),
        (
            "hf:clip",
            ("num_hidden_layers=2",),
            "hf:clip: --set num_hidden_layers=2: there is no field 'num_hidden_layers' in CLIPConfig: "
            "it is text_config.num_hidden_layers and vision_config.num_hidden_layers",
        ),
        (
            "hf:llama",
            ("num_hidden_layers",),
            "--set num_hidden_layers: it is a field and its value, --set num_hidden_layers=2",
        ),
        (
            "gpt",
            ("n=2",),
            "gpt: --set changes a field of a configuration: it is for hf:…, timm:… and torchvision:…",
        ),
        (
            "hf:meta-llama/Llama-3.1-8B",
            (),
            "hf:meta-llama/Llama-3.1-8B: meta-llama/Llama-3.1-8B cannot be read: No such file or directory; "
            "nothing is fetched: give a type, or the path of a config.json",
        ),
        ("hf:lost/config.json", (), "hf:lost/config.json: lost/config.json cannot be read: No such file or directory"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(target: str, changes: tuple[str, ...], said: str) -> None:
    assert error(target, changes=changes) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "is no configuration of a model: it has no model_type"),
        ("{}", "is no configuration of a model: it has no model_type"),
        (
            '{"model_type": "gpt2", "num_labels": 1000000000000}',
            "is no configuration of a model: num_labels is beyond 1000000",
        ),
        (
            '{"model_type": "llama", "num_hidden_layers": 1000000000}',
            "is no configuration of a model: num_hidden_layers is beyond 10000",
        ),
        (
            '{"model_type": "gpt2", "a": [{"n_embd": 99999999999999999999}]}',
            f"is no configuration of a model: n_embd is beyond {2**62}",
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    assert error(f"hf:{file}") == f"hf:{file}: {file} {said}"


@pytest.mark.parametrize(
    ("architectures", "said"),
    [
        (["pipeline"], "transformers has no class pipeline, which architectures names"),
        (["LlamaConfig"], "transformers has no class LlamaConfig, which architectures names"),
        (1.5, "architectures is no list of names"),
        ([None], "architectures is no list of names"),
    ],
)
def test_what_a_file_names_as_a_class_is_a_model_or_nothing(tmp_path: Path, architectures: object, said: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "architectures": architectures}))
    assert error(f"hf:{file}") == f"hf:{file}: {said}"


def test_a_letter_that_the_model_does_not_have_is_refused() -> None:
    assert error("hf:llama", "--S", "3") == "hf:llama takes no --S; it takes --B --T --C --H --D --G --F --V --L"


def test_sizes_that_do_not_go_together_are_the_users(run: Run) -> None:
    status, out, said = run("run", "hf:gpt2", "--C", "10", "--H", "3")
    assert (status, out) == (2, "")
    first, why, fields, advice = said.splitlines()
    assert first == "shapetrace: hf:gpt2: GPT2LMHeadModel cannot be built with this configuration"
    assert why.startswith("  ValueError: `embed_dim` must be divisible by num_heads (got `embed_dim`: 10 and")
    assert "(transformers/models/gpt2/modeling_gpt2.py, line " in why
    assert fields == "  fields that have such a value: n_embd=10, n_head=3"
    assert advice == "--set FIELD=VALUE changes a field"


def test_without_transformers_it_is_said_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr("shapetrace.targets.hf.find_spec", lambda name: None)
    with pytest.raises(ShapetraceError) as caught:
        find("hf:llama")
    assert str(caught.value) == (
        "hf:llama: this needs transformers, which is not installed: pip install 'shapetrace[hf]'"
    )


def test_what_else_a_smaller_vocabulary_changes_is_said() -> None:
    found = traced("hf:gpt2", *"--C 64 --H 4 --F 96 --V 100 --L 2".split())
    assert found.notes == (
        "the vocabulary that was asked for has fewer words: bos_token_id is 99, not 50256, "
        "eos_token_id is 99, not 50256",
    )


def test_a_classifier_that_is_given_a_token_for_padding_says_so(config: Callable[..., str]) -> None:
    found = traced(config(architectures=["LlamaForSequenceClassification"]))
    assert found.notes == (
        "pad_token_id is 0: the configuration has none, and without it but one row can be classified",
    )


@pytest.mark.parametrize("target", ["hf:bert:ForMultipleChoice", "hf:roberta:ForMultipleChoice"])
def test_a_class_that_chooses_among_texts_is_given_several(target: str) -> None:
    found = traced(target, "--L", "1").calls[0]
    assert found.inputs["input_ids"].axes == ("B", 4, "T")
    assert next(iter(found.outputs.values())).axes == ("B", 4)


@pytest.mark.parametrize("kind", ["bart", "mbart"])
def test_a_class_that_looks_for_the_ends_of_texts_is_given_some(kind: str) -> None:
    found = traced(f"hf:{kind}:ForSequenceClassification", "--L", "1")
    assert (found.weightless, found.calls[0].outputs["logits"].shape[0]) == (True, 2)


@pytest.mark.parametrize(
    ("target", "change", "where", "value"),
    [
        ("hf:bert:ForSequenceClassification", "num_labels=5", "num_labels", 5),
        ("hf:bert", "attn_implementation=eager", "_attn_implementation", "eager"),
        ("hf:llama", 'rope_scaling={"rope_type": "linear", "factor": 2.0}', "rope_parameters.factor", 2.0),
        ("hf:llama", "rope_parameters.rope_theta=5", "rope_parameters.rope_theta", 5),
        ("hf:llama", "tie_word_embeddings=true", "tie_word_embeddings", True),
        ("hf:llama", "pad_token_id=null", "pad_token_id", None),
        ("hf:llama", "torch_dtype=bfloat16", "dtype", torch.bfloat16),
    ],
)
def test_what_a_configuration_takes_is_a_field(target: str, change: str, where: str, value: object) -> None:
    _, source, *_ = target.split(":")
    found: object = Recipe.of(target, source, (change,)).config()
    for name in where.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("target", "change", "said"),
    [
        ("hf:clip", "text_config.nonsense=1", "there is no field 'nonsense' in text_config; it has "),
        ("hf:llama", "nonsense=1", "there is no field 'nonsense' in LlamaConfig; it has "),
        ("hf:gpt2", "n_layer=-1", "n_layer is below 0"),
        ("hf:gpt2", "model_type=llama", "another type is another target, hf:llama"),
    ],
)
def test_what_no_configuration_takes_is_refused(target: str, change: str, said: str) -> None:
    assert error(target, changes=(change,)).startswith(f"{target}: --set {change}: {said}")


@pytest.mark.parametrize("field", ["n_layer", "num_hidden_layers"])
def test_a_letter_and_a_field_that_say_two_sizes_are_refused(field: str) -> None:
    said = f"hf:gpt2: --L 2 and --set {field}=3 do not go together"
    assert error("hf:gpt2", "--L", "2", changes=(f"{field}=3",)) == said
    assert traced("hf:gpt2", "--L", "2", changes=(f"{field}=2",)).sizes["L"] == 2


def test_a_class_that_is_not_named_after_its_colon_is_asked_for() -> None:
    assert error("hf:gpt2:") == "hf:gpt2: names no class after its last colon: hf:gpt2 alone, or hf:gpt2:CLASS"


def test_weights_that_would_be_quantised_are_said_not_to_be(config: Callable[..., str]) -> None:
    found = traced(config(quantization_config={"quant_method": "fp8"}))
    assert found.notes == ("quantization_config (fp8) is left out: weights are not quantised here",)


@pytest.mark.parametrize("spec", ["input_ids: int64[3, 5]", "input_ids: int64[B=3, T=5]", "input_ids: int64[3, T=5]"])
def test_an_input_that_is_described_sizes_the_others(spec: str) -> None:
    found = record(Request("hf:gpt2", options=("--L", "1"), inputs=(spec,)))
    assert (found.sizes["B"], found.sizes["T"]) == (3, 5)
    inputs = found.calls[0].inputs
    assert {name: (tensor.axes, tensor.shape) for name, tensor in inputs.items()} == {
        "input_ids": (("B", "T"), (3, 5)),
        "attention_mask": (("B", "T"), (3, 5)),
    }
    assert found.roles("logits")[0].axes == ("B", "T", "V")


def test_an_input_of_an_encoder_has_the_length_of_its_own() -> None:
    found = record(Request("hf:t5", options=("--L", "1"), inputs=("input_ids: int64[2, 5]",)))
    assert (found.sizes["S"], found.sizes["T"]) == (5, 8)


def test_an_input_that_is_described_goes_with_the_letters_that_are_given() -> None:
    with pytest.raises(ShapetraceError) as caught:
        record(Request("hf:gpt2", options=("--T", "4"), inputs=("input_ids: int64[3, 5]",)))
    assert "T=5 does not go with --T 4" in str(caught.value)
