import pytest

from tests.zoo.configs import small
from tests.zoo.sizes import Sizes, others

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


@pytest.mark.parametrize("seed", range(20))
def test_other_settings_are_other_in_everything_that_is_free(seed: int) -> None:
    settings = [Sizes(), *others(Sizes(), seed)]
    for letter in "HGCFV":
        assert len({getattr(z, letter) for z in settings}) == 4
    assert all(z.H % z.G == 0 for z in settings)
    assert len({length for z in settings[1:] for length in (z.B, z.T, z.S)}) == 9
