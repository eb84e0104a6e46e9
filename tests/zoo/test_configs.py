import pytest

from tests.zoo.configs import small
from tests.zoo.sizes import Sizes, other_model

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_configuration_is_small_in_the_words_of_its_type() -> None:
    z = Sizes()
    gpt2, llama = small("gpt2", z), small("llama", z)
    assert (gpt2.n_embd, gpt2.n_head, gpt2.n_layer, gpt2.vocab_size) == (z.C, z.H, z.L, z.V)
    assert (llama.hidden_size, llama.num_key_value_heads, llama.head_dim) == (z.C, z.G, z.D)


def test_layers_of_each_kind_stay() -> None:
    found = small("gemma3_text", Sizes())
    assert found.layer_types == ["sliding_attention", "sliding_attention", "full_attention"]
    assert found.num_hidden_layers == 3


def test_ids_that_stand_for_something_are_in_the_vocabulary() -> None:
    found = small("gpt2", Sizes(V=101))
    assert found.bos_token_id == 100


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_sizes_are_other_in_everything_that_is_free(seed: int) -> None:
    first, other = Sizes(), other_model(Sizes(), seed)
    assert [a for a, b in zip(first, other, strict=True) if a == b] in ([first.L], [first.G, first.L])
    assert other.H % other.G == 0
