from __future__ import annotations

import pytest

from shapetrace.errors import InputError
from shapetrace.letters import in_order, is_unknown, letters_of_names, names_in, sizes_in, unknown


@pytest.mark.parametrize(
    ("axis", "names"),
    [
        ("B", ["B"]),
        ("H·D", ["H", "D"]),
        ("2·T-1", ["T"]),
        ("B·(P+T)", ["B", "P", "T"]),
        ("?0·?12", ["?0", "?12"]),
        ("batch·heads_2", ["batch", "heads_2"]),
        (8, []),
    ],
)
def test_the_letters_of_an_axis(axis: str | int, names: list[str]) -> None:
    assert names_in(axis) == names


def test_what_stands_for_an_axis_that_is_not_known_is_known_to() -> None:
    assert [is_unknown(axis) for axis in (unknown(0), "?12", "B", "?0·?1", "2·?0", 3)] == [True, True] + [False] * 4


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("C=768 H=12", {"C": 768, "H": 12}), ("B=2,T=4", {"B": 2, "T": 4}), ("", {}), ("T=4 T=4", {"T": 4})],
)
def test_sizes_are_read(text: str, sizes: dict[str, int]) -> None:
    assert sizes_in(text) == sizes


@pytest.mark.parametrize("word", ["C", "C=", "=8", "C=x", "C=0", "C=-1", "C=1.5", "C=9" + "0" * 40, "3=3", "C:8"])
def test_what_is_no_letter_and_its_size_is_refused(word: str) -> None:
    with pytest.raises(InputError) as raised:
        sizes_in(f"B=2 {word}")
    assert str(raised.value) == (
        f"axes 'B=2 {word}' cannot be read: {word!r} is no letter and its size\nfor example: C=768 H=12"
    )


def test_a_letter_has_one_size() -> None:
    with pytest.raises(InputError) as raised:
        sizes_in("T=4 B=2 T=5")
    assert str(raised.value) == "axes 'T=4 B=2 T=5' give T two sizes, 4 and 5"


def test_letters_stand_as_a_paper_would_list_them_and_others_follow() -> None:
    assert list(in_order(dict.fromkeys("LVXFDHTBY", 1))) == list("BTHDFVLXY")


@pytest.mark.parametrize(
    ("names", "letters"),
    [
        ("hidden_size num_attention_heads", {"hidden_size": "C", "num_attention_heads": "H"}),
        ("n_embd n_head n_layer vocab_size", {"n_embd": "C", "n_head": "H", "n_layer": "L", "vocab_size": "V"}),
        ("hidden_dim", {"hidden_dim": "C"}),
        ("dim hidden_dim", {"dim": "C", "hidden_dim": "F"}),
        ("hidden_dim ffn_dim", {"hidden_dim": "C", "ffn_dim": "F"}),
        ("d_model d_ff d_kv", {"d_model": "C", "d_ff": "F", "d_kv": "D"}),
        ("T N dropout", {"T": "T", "N": "N"}),
        ("dropout bias", {}),
        ("num_key_value_heads head_dim", {"num_key_value_heads": "G", "head_dim": "D"}),
        ("num_local_experts num_experts_per_tok", {"num_local_experts": "E", "num_experts_per_tok": "K"}),
        ("state_size time_step_rank", {"state_size": "N", "time_step_rank": "A"}),
        ("head_dim rotary_dim", {"head_dim": "D", "rotary_dim": "R"}),
        (
            "mamba_n_heads mamba_n_groups mamba_d_head mamba_d_conv mamba_chunk_size",
            {
                "mamba_n_heads": "h",
                "mamba_n_groups": "g",
                "mamba_d_head": "d",
                "mamba_d_conv": "w",
                "mamba_chunk_size": "c",
            },
        ),
        (
            "head_dim linear_num_value_heads linear_num_key_heads linear_value_head_dim linear_key_head_dim",
            {
                "head_dim": "D",
                "linear_num_value_heads": "h",
                "linear_num_key_heads": "g",
                "linear_value_head_dim": "d",
                "linear_key_head_dim": "k",
            },
        ),
        ("hc_mult hidden_size_per_layer_input", {"hc_mult": "n", "hidden_size_per_layer_input": "e"}),
        ("index_n_heads index_head_dim", {"index_n_heads": "i", "index_head_dim": "j"}),
        # heads of a state space where there is no attention
        (
            "num_heads head_dim n_groups d_state expand",
            {"num_heads": "h", "head_dim": "d", "n_groups": "g", "d_state": "N"},
        ),
        ("n_groups chunk_size conv_kernel", {}),  # of what else there may be
        ("n_mamba_heads d_state d_conv", {"d_state": "N", "d_conv": "w"}),  # as wide as something else makes them
        ("h w d", {}),
        (
            "head_dim qk_rope_head_dim qk_nope_head_dim v_head_dim",
            {"head_dim": "R", "qk_rope_head_dim": "R", "qk_nope_head_dim": "U", "v_head_dim": "D"},
        ),
    ],
)
def test_a_name_sizes_the_axis_that_the_field_of_research_gives_it(names: str, letters: dict[str, str]) -> None:
    assert letters_of_names(names.split()) == letters
