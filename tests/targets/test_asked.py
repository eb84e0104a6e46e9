"""Inputs that go together: found by asking the model, whatever it is."""

from __future__ import annotations

import pytest

from shapetrace.errors import InputError
from shapetrace.schema import Trace
from shapetrace.targets import Raised, Request, Way, record
from shapetrace.targets.hf.documented import entries, number

pytestmark = pytest.mark.filterwarnings("ignore")


def traced(target: str, *changes: str, inputs: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> Trace:
    return record(Request(target, options, inputs, way=Way(changes=changes)))


def given(found: Trace) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in found.calls[0].inputs.items()}


IMAGE = (
    "text_config.num_hidden_layers=1", "vision_config.num_hidden_layers=2", "vision_config.image_size=28",
    "text_config.intermediate_size=64", "vision_config.intermediate_size=64",
)  # fmt: skip
"""Of 2 × 2 patches."""


def test_each_piece_of_an_image_has_a_token_before_the_text() -> None:
    found = traced("hf:paligemma", *IMAGE)
    assert given(found) == {"input_ids": (2, 12), "pixel_values": (2, 3, 28, 28), "attention_mask": (2, 12)}
    assert found.roles("logits")[0].axes == ("B", "T+4", "V")
    assert found.notes == ()


def test_where_the_parts_do_not_go_together_the_text_runs_alone_and_a_note_says_why() -> None:
    found = traced("hf:gemma3", "text_config.num_hidden_layers=1", "vision_config.num_hidden_layers=1")
    assert given(found) == {"input_ids": (2, 8), "attention_mask": (2, 8)}
    (note,) = found.notes
    assert note.startswith("text only: pixel_values not given: with it RuntimeError: stride should not be zero (")


@pytest.mark.parametrize(
    ("target", "changes", "names"),
    [
        ("hf:vilt", ("num_hidden_layers=1",), "input_ids attention_mask pixel_values pixel_mask"),
        ("hf:decision_transformer", ("n_layer=1",), "states actions returns_to_go timesteps"),
        (
            "hf:pix2struct",
            ("text_config.num_layers=1", "vision_config.num_hidden_layers=1"),
            "flattened_patches decoder_input_ids",
        ),
        ("hf:blip_2_qformer", ("num_hidden_layers=1",), "query_embeds encoder_hidden_states"),
        ("hf:clap", (), "input_ids input_features attention_mask"),
        ("hf:bros", ("num_hidden_layers=1",), "input_ids bbox attention_mask"),
    ],
)
def test_what_is_lacking_is_what_the_model_says_is(target: str, changes: tuple[str, ...], names: str) -> None:
    found = traced(target, *changes)
    assert list(given(found)) == names.split()
    assert found.weightless


def test_what_a_message_says_of_a_shape_is_what_is_given() -> None:
    assert given(traced("hf:efficientloftr")) == {"pixel_values": (2, 2, 3, 224, 224)}
    assert given(traced("hf:gemma4_audio", "num_hidden_layers=1")) == {"input_features": (2, 64, 128)}


def test_a_token_for_images_that_the_configuration_leaves_open_is_the_last() -> None:
    found = traced("hf:blip-2", *(f"{part}_config.num_hidden_layers=1" for part in ("vision", "qformer", "text")))
    assert found.notes == ("image_token_index is 30521: the configuration has none",)


def test_an_input_that_is_described_comes_in_the_place_of_the_one_that_is_made() -> None:
    small = ("num_hidden_layers=1", "vocab_size=100", "hidden_size=64", "intermediate_size=64", "num_attention_heads=4")
    found = traced("hf:bert", *small, inputs=("token_type_ids: int64[B, T] < 2",), options=("--B=3", "--T=5"))
    assert given(found) == {"input_ids": (3, 5), "attention_mask": (3, 5), "token_type_ids": (3, 5)}
    assert given(traced("hf:vit", *small[:1], inputs=("pixel_values: float32[1, 3, 224, 224]",))) == {
        "pixel_values": (1, 3, 224, 224)
    }
    with pytest.raises(InputError, match=r"(?s)has no input 'pixels': did you mean pixel_values"):
        traced("hf:vit", *small[:1], inputs=("pixels: float32[2, 3, 4, 4]",))


def test_where_no_inputs_are_found_those_that_were_made_are_shown() -> None:
    with pytest.raises(Raised) as caught:
        traced("hf:glm4v_text", "num_hidden_layers=1")  # its default configuration does not go together
    first, *specs, last = str(caught.value).splitlines()
    assert first.endswith(" raised this, and it may be the inputs' fault, which were made for it:")
    assert specs == ["  --input 'input_ids: int64[2, 8]'", "  --input 'attention_mask: int64[2, 8]'"]
    assert last == (
        "one that is given so is in the place of what is made; "
        "shapetrace run … --output FILE.jsonl keeps what ran until then"
    )


def test_a_docstring_is_read_for_the_kind_and_the_sizes_of_each_tensor() -> None:
    found = entries(
        "Args:\n"
        "    pixel_values (`torch.FloatTensor` of shape `(batch_size, num_channels, image_size, image_size)`):\n"
        "    bbox (`torch.LongTensor` of shape `(batch_size, sequence_length, 4)`, *optional*):\n"
        "    is_longer (`torch.BoolTensor`, of shape `(batch_size, 1)`, *optional*):\n"
        "    decoder_input_ids (`torch.Tensor` of shape `(batch_size * num_codebooks, length)\n"
        "        or (batch_size, length, num_codebooks)`, *optional*):\n"
        "    use_cache (`bool`, *optional*): whether.\n"
    )
    assert {name: (said.kind, *said.sizes) for name, said in found.items()} == {
        "pixel_values": ("float", "batch_size", "num_channels", "image_size", "image_size"),
        "bbox": ("int", "batch_size", "sequence_length", "4"),
        "is_longer": ("bool", "batch_size", "1"),
        "decoder_input_ids": ("int", "batch_size", "length", "num_codebooks"),
    }


@pytest.mark.parametrize(
    ("text", "size"), [("4", 4), ("patch_size", 7), ("2 + config.rows * columns**2", 2 + 7 * 49), ("9**9**9**9", 7)]
)
def test_a_size_in_words_is_computed_and_nothing_is_run(text: str, size: int) -> None:
    assert number(text, lambda name: 7) == (size if text != "9**9**9**9" else 9**4)
