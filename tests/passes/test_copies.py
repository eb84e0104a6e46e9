"""Copies that are known to be there in models nobody here wrote, and what a forward took."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import shapetrace
from shapetrace.passes.copies import Totals, copies, totals
from shapetrace.schema import Trace

Function = Callable[[Tensor], object]

IDS = torch.zeros(2, 5, dtype=torch.int64)

OTHER_WORDS = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="the attention of torch was written in other words then, and its fused kernel copied keys",
)


class Runs(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def traced(function: Function, *shape: int, ops: bool = False) -> Trace:
    return shapetrace.trace(Runs(function), torch.zeros(shape or (4, 4)), ops=ops)


def listed(function: Function, *shape: int, ops: bool = False) -> list[tuple[str, str, int, str]]:
    return [(copy.name, copy.made_by, copy.nbytes, copy.why) for copy in copies(traced(function, *shape, ops=ops))]


def llama(attention: str) -> nn.Module:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=16,
            attn_implementation=attention,
            use_cache=False,
        )
    ).eval()


def gpt2(attention: str) -> nn.Module:
    config = GPT2Config(
        vocab_size=16,
        n_embd=8,
        n_head=2,
        n_layer=1,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
        use_cache=False,
    )
    return GPT2LMHeadModel(config).eval()


def in_attention(model: nn.Module, *, ops: bool = False) -> list[tuple[str, str, int, str]]:
    """The copies of attention but for those that joined tensors."""
    found = copies(shapetrace.trace(model, IDS, ops=ops))
    return [(c.name, c.made_by, c.nbytes, c.why) for c in found if "attn" in c.path and c.by != "cat"]


# Models nobody here wrote


def test_eager_llama_copies_the_repeated_heads_and_the_joined_ones() -> None:
    # B · H · T · D elements of 4 bytes, 2 · 4 · 5 · 2 · 4 = 320; H is 4 after two key/value heads were repeated
    assert in_attention(llama("eager")) == [
        ("key_states", "reshape", 320, "hidden_states was not contiguous since expand"),
        ("value_states", "reshape", 320, "hidden_states was not contiguous since expand"),
        ("attn_output", "contiguous", 320, "attn_output.transpose(1, 2) was not contiguous"),
    ]


def test_eager_llama_has_one_more_in_the_product_of_queries_that_are_transposed() -> None:
    hidden = [copy for copy in in_attention(llama("eager"), ops=True) if " in " in copy[1]]
    what = "q_embed.expand([2, 4, 5, 2])"
    assert hidden == [(what, "clone in matmul", 320, f"{what} was not contiguous since transpose")]


def test_eager_gpt2_copies_the_joined_heads() -> None:
    # B · T · C elements of 4 bytes, 2 · 5 · 8 · 4 = 320
    assert in_attention(gpt2("eager")) == [
        ("attn_output", "reshape", 320, "attn_output was not contiguous since transpose")
    ]


@OTHER_WORDS
@pytest.mark.parametrize("model", [llama, gpt2])
def test_under_sdpa_there_are_none_of_them_and_none_are_hidden(model: Callable[[str], nn.Module]) -> None:
    assert in_attention(model("sdpa"), ops=True) == []


def test_each_says_on_which_line_and_where_it_was_made_necessary() -> None:
    key = next(copy for copy in copies(shapetrace.trace(llama("eager"), IDS)) if copy.name == "key_states")
    assert key.path == "model.layers.0.self_attn"
    assert key.source is not None
    assert key.line is not None
    assert key.source[0].endswith("modeling_llama.py")
    assert key.line[0] == key.source[0]
    assert key.line[1] < key.source[1]


def test_a_convolution_over_a_sequence_copies_what_has_to_be_straightened() -> None:
    """As the mixers of state-space models do: [B, T, C] to [B, C, T] and back, cut, gate."""
    conv = nn.Conv1d(4, 4, 3, padding=2, groups=4)

    def forward(x: Tensor) -> Tensor:
        channels = x.transpose(1, 2)
        mixed = F.silu(conv(channels)[..., :5]).transpose(1, 2)
        straight = mixed.contiguous()
        gate, value = straight.chunk(2, dim=-1)
        joined = torch.cat([gate, value], dim=-1)
        return joined.float()

    assert listed(forward, 2, 5, 4) == [
        ("straight", "contiguous", 160, "mixed was not contiguous since transpose"),
        ("joined", "cat", 160, "of gate and value"),
    ]


# What is a copy


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: x.t().flatten(), [("x.t().flatten()", "flatten", 64, "x.t() was not contiguous")]),
        (lambda x: x.flatten(), []),
        (lambda x: torch.cat([x, x, x]), [("cat([x, x, x])", "cat", 192, "of x and 2 more")]),
        (lambda x: torch.cat([x[:0], x]), [("cat([x[:0], x])", "cat", 64, "of x")]),
        (lambda x: torch.stack((x, x)), [("stack([x, x])", "stack", 128, "of x and x")]),
        (lambda x: x.double(), [("x.double()", "double", 128, "of x, float32 → float64")]),
        (lambda x: x.float(), []),
        (lambda x: x.to(torch.float16), [("x.to(torch.float16)", "to", 32, "of x, float32 → float16")]),
        (lambda x: x.to(torch.float32), []),
        (lambda x: x.type(torch.float32), []),
        (lambda x: x.contiguous(), []),
        (lambda x: F.dropout(x, training=False), []),
        (lambda x: x.repeat_interleave(2, 0), [("x.repeat_interleave(2, 0)", "repeat_interleave", 128, "of x")]),
        (lambda x: x.clone(), [("x.clone()", "clone", 64, "of x")]),
        (lambda x: x[[0, 1]], []),
        (lambda x: x.gather(0, torch.zeros(4, 4, dtype=torch.int64)), []),
        (lambda x: x.masked_fill(x == 0, 1), []),
        (lambda x: F.pad(x, (1, 1)), []),
        (lambda x: F.pad(x, (0, 0, 1, -1)), []),
        (lambda x: F.pad(x, (0, 0)), [("pad(x, (0, 0), mode='constant')", "pad", 64, "of x")]),
        (lambda x: x.new_tensor([1.0]), []),
        (lambda x: torch.zeros(4, 4).copy_(x), []),
        (lambda x: x.expand(2, 4, 4), []),
    ],
    ids=[
        *["flatten crooked", "flatten", "cat", "cat with empty", "stack", "double", "float", "to", "to same", "type"],
        *["contiguous", "dropout in eval", "repeat_interleave", "clone", "index", "gather", "masked_fill", "pad"],
        *["pad and cut", "pad by nothing", "new_tensor of numbers"],
        *["copy_ is in place", "expand"],
    ],
)
def test_a_copy_is_memory_that_is_new_and_holds_all_elements_again(
    function: Function, found: list[tuple[str, str, int, str]]
) -> None:
    assert listed(function) == found


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_a_tensor_that_is_made_of_a_tensor_is_a_copy() -> None:
    assert listed(lambda x: x.new_tensor(x)) == [("x.new_tensor(x)", "new_tensor", 64, "of x")]


def test_another_memory_format_is_the_reason_of_a_copy() -> None:
    def forward(x: Tensor) -> None:
        last = x.to(memory_format=torch.channels_last)
        again = last.contiguous(memory_format=torch.channels_last)

    assert listed(forward, 2, 3, 4, 4) == [("last", "to", 384, "x was not channels_last")]


def test_a_copy_that_is_handed_on_counts_once() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = nn.Flatten()

        def forward(self, x: Tensor) -> Tensor:
            straight = self.flatten(x.t()[None])
            return straight.view(4, 4)

    found = copies(shapetrace.trace(Flat(), torch.zeros(4, 4)))
    assert [(copy.name, copy.path, copy.by) for copy in found] == [("straight", "flatten", "flatten")]


# What made it necessary


def test_the_cause_is_the_last_call_that_bent_what_was_straight() -> None:
    def forward(x: Tensor) -> None:
        turned = x.transpose(0, 1)
        doubled = turned * 2
        straight = doubled.contiguous()

    trace = traced(forward)
    (copy,) = copies(trace)
    assert (copy.why, copy.line) == ("doubled was not contiguous since transpose", trace.calls[1].source)


def test_a_cause_that_comes_on_top_of_another_is_the_last() -> None:
    def forward(x: Tensor) -> None:
        part = x.transpose(0, 1)[1:]
        wide = part[:, None].expand(3, 2, 4)
        straight = part.contiguous()
        both = wide.reshape(24)

    assert [why for _, _, _, why in listed(forward)] == [
        "part was not contiguous since […]",
        "wide was not contiguous since expand",
    ]


def test_what_was_turned_in_place_has_that_for_its_cause() -> None:
    def forward(x: Tensor) -> None:
        y = x * 2
        y.t_()
        straight = y.contiguous()

    assert listed(forward) == [("straight", "contiguous", 64, "y was not contiguous since t_")]


def test_what_was_given_like_that_has_no_cause() -> None:
    trace = shapetrace.trace(Runs(lambda x: x.contiguous()), torch.zeros(4, 4).t())
    assert [(copy.why, copy.since, copy.line) for copy in copies(trace)] == [("x was not contiguous", "", None)]


# Hidden copies


def test_copies_inside_of_functions_are_seen_with_ops() -> None:
    def product(x: Tensor) -> None:
        wide = x[:, None].expand(2, 5, 3, 4)
        scores = wide @ wide.transpose(-1, -2)

    def einsum(x: Tensor) -> None:
        y = x[..., None].expand(2, 3, 4, 5)
        z = torch.einsum("bthd,bshd->bhts", y, y)

    def softmax(x: Tensor) -> None:
        half = x.half()
        weights = half.softmax(-1, dtype=torch.float32)

    assert listed(product, 2, 3, 4) == []
    # 2 · 5 · 3 · 4 elements of 4 bytes, for each operand
    assert [copy[:3] for copy in listed(product, 2, 3, 4, ops=True)] == [("scores", "clone in matmul", 480)] * 2
    assert [copy[:3] for copy in listed(einsum, 2, 3, 4, ops=True)] == [("z", "clone in einsum", 480)] * 2
    assert listed(softmax, 2, 3, 4, ops=True) == [
        ("half", "half", 48, "of x, float32 → float16"),
        ("weights", "_to_copy in softmax", 96, "of half, float16 → float32"),
    ]


@OTHER_WORDS
def test_multi_head_attention_of_torch_copies_its_projections_and_its_heads() -> None:
    attention = nn.MultiheadAttention(8, 2).eval()
    trace = shapetrace.trace(attention, *[torch.zeros(5, 2, 8)] * 3)
    assert [(copy.name, copy.by, copy.nbytes) for copy in copies(trace)] == [
        ("proj", "contiguous", 960),  # 3 · 5 · 2 · 8 elements of 4 bytes
        ("attn_output", "reshape", 320),
    ]


def test_with_ops_a_copy_is_not_counted_again_for_the_op_that_made_it() -> None:
    def forward(x: Tensor) -> None:
        straight = x.t().contiguous()

    assert listed(forward, ops=True) == listed(forward) == [("straight", "contiguous", 64, "x.t() was not contiguous")]


def test_the_op_that_makes_an_index_of_repeats_copies_nothing() -> None:
    found = listed(lambda x: x.repeat_interleave(torch.tensor([1, 2, 1, 1]), 0), ops=True)
    assert [copy[1:3] for copy in found] == [("repeat_interleave", 80)]


# Totals


def test_activations_are_the_storages_that_functions_took() -> None:
    linear = nn.Linear(4, 8)

    def forward(x: Tensor) -> Tensor:
        y = linear(x)  # 4 · 8 · 4 = 128 bytes; x and the parameters are no activations
        a, b = y.chunk(2, -1)  # views
        c = a * b  # 4 · 4 · 4 = 64 bytes
        c += 1
        return c.t().reshape(16)  # 64 bytes, a copy

    for ops in (False, True):
        assert totals(traced(forward, ops=ops)) == Totals(256, 64, {"reshape": 1})


def test_what_made_copies_is_in_order_of_how_many() -> None:
    def forward(x: Tensor) -> None:
        a = x.t().reshape(16)
        b = x.t().contiguous()
        c = x[:, 1:].contiguous()

    found = totals(traced(forward))
    assert found is not None
    assert (list(found.by.items()), found.count) == ([("contiguous", 2), ("reshape", 1)], 3)


def test_of_a_portable_trace_or_one_without_functions_nothing_is_known() -> None:
    trace = traced(lambda x: x.t().contiguous())
    assert (copies(trace.portable()), totals(trace.portable())) == ([], None)
    assert totals(shapetrace.trace(nn.Linear(4, 4), torch.zeros(4, 4), functions=False)) is None
