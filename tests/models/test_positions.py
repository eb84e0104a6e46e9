import math

import pytest
import torch

from shapetrace.models.positions import SinusoidalEncoding, position_index, sinusoidal_table


def test_position_0_is_0_1_0_1() -> None:
    # sin 0 = 0 at even dims, cos 0 = 1 at odd dims
    assert sinusoidal_table(rows=2, C=8)[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


def test_position_1_starts_with_the_sine_and_cosine_of_1() -> None:
    # i = 0: 10000^(0/C) = 1, so dims 0 and 1 are sin 1 and cos 1
    torch.testing.assert_close(sinusoidal_table(rows=2, C=8)[1, :2], torch.tensor([0.8415, 0.5403]), atol=5e-5, rtol=0)


@pytest.mark.parametrize("C", [1, 7, 8, 512])
def test_every_entry_follows_the_equation_of_the_paper(C: int) -> None:
    def PE(pos: int, dim: int) -> float:
        two_i = dim - dim % 2
        angle = pos / 10000 ** (two_i / C)
        return math.cos(angle) if dim % 2 else math.sin(angle)

    table = sinusoidal_table(rows=50, C=C)
    expected = torch.tensor([[PE(pos, dim) for dim in range(C)] for pos in range(50)])
    torch.testing.assert_close(table, expected, atol=1e-5, rtol=0)


def test_a_longer_table_begins_with_the_shorter_one() -> None:
    assert torch.equal(sinusoidal_table(rows=100, C=8)[:10], sinusoidal_table(rows=10, C=8))


def test_sinusoidal_positions_are_no_parameters_and_take_no_room_in_a_checkpoint() -> None:
    encoding = SinusoidalEncoding(context=10, C=8)
    assert list(encoding.parameters()) == []
    assert list(encoding.state_dict()) == []
    assert [name for name, _ in encoding.named_buffers()] == ["table"]


def test_a_sinusoidal_encoding_is_looked_up_as_an_embedding_is() -> None:
    encoding = SinusoidalEncoding(context=10, C=8)
    assert torch.equal(encoding(torch.tensor([3, 0])), sinusoidal_table(10, 8)[[3, 0]])


def test_positions_are_counted_from_0() -> None:
    assert position_index(torch.zeros(2, 4, dtype=torch.int64), context=4).tolist() == [0, 1, 2, 3]


def test_an_input_longer_than_the_table_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        position_index(torch.zeros(2, 5, dtype=torch.int64), context=4)
    assert str(error.value) == "5 ids, but only 4 positions: shorten the input or build with context=5"
