"""The golden traces of the reference models, of the Transformers in torch itself, and of one in x-transformers:
`pytest --update-traces`."""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import pytest
import torch
from torch import nn

import shapetrace
from shapetrace import Trace
from shapetrace.golden import accept, differences
from shapetrace.pytest_plugin import Golden
from shapetrace.targets import Request, record, registry

TRACES = Path(__file__).parent.parent / "traces"
MODELS = tuple(registry.names())


@pytest.mark.parametrize("name", MODELS)
def test_a_reference_model_still_gives_its_golden_trace(name: str, golden: Golden) -> None:
    golden(record(Request(name)), name)


def attention(*, batch_first: bool) -> Trace:
    x = torch.zeros((2, 4, 8) if batch_first else (4, 2, 8))
    return shapetrace.trace(nn.MultiheadAttention(8, 2, batch_first=batch_first), x, x, x)


def layer() -> Trace:
    return shapetrace.trace(nn.TransformerEncoderLayer(8, 2, 32, batch_first=True), torch.zeros(2, 4, 8))


def transformer() -> Trace:
    model = nn.Transformer(8, 2, 1, 1, 32, batch_first=True)
    return shapetrace.trace(model, torch.zeros(2, 3, 8), torch.zeros(2, 4, 8))


TORCH: dict[str, Callable[[], Trace]] = {
    "nn.MultiheadAttention": lambda: attention(batch_first=False),
    "nn.MultiheadAttention-batch_first": lambda: attention(batch_first=True),
    "nn.Transformer": transformer,
    "nn.TransformerEncoderLayer": layer,
}


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="the attention of torch was written in other words then: contiguous and view, where it is reshape now",
)
@pytest.mark.parametrize("name", TORCH)
def test_the_transformers_of_torch_still_give_their_golden_traces(name: str, golden: Golden) -> None:
    golden(TORCH[name](), name)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_decoder_of_x_transformers_still_gives_its_golden_trace(golden: Golden) -> None:
    import x_transformers

    layers = x_transformers.Decoder(dim=8, depth=1, heads=2, attn_dim_head=4)
    model = x_transformers.TransformerWrapper(num_tokens=16, max_seq_len=16, attn_layers=layers)
    golden(shapetrace.trace(model.eval(), torch.zeros(2, 4, dtype=torch.long)), "x-transformers")


def test_there_is_a_golden_trace_of_each_of_them_and_of_nothing_else() -> None:
    assert sorted(path.stem for path in TRACES.iterdir()) == sorted((*MODELS, *TORCH, "x-transformers"))


@pytest.mark.parametrize("name", [*MODELS, *TORCH])
def test_a_golden_trace_holds_nothing_of_the_machine_that_wrote_it(name: str) -> None:
    trace = shapetrace.load(TRACES / f"{name}.jsonl")
    assert trace == trace.portable()
    assert (trace.torch, trace.device) == (None, "")
    assert all(call.source is None for call in trace.calls)


# --- what a review of a change sees -----------------------------------------------------------------------------------


def changed_lines(before: Trace, after: Trace, folder: Path) -> tuple[list[str], list[str]]:
    """The lines that `git diff` shows of a golden trace when another one is accepted: those that go, and that come."""
    path = folder / "golden.jsonl"
    versions = []
    for trace in (before, after):
        accept(path, trace)
        versions.append(path.read_text(encoding="utf-8").splitlines())
    old, new = versions
    changes = [
        change for change in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if change[0] != "equal"
    ]
    return [line for _, i, j, _, _ in changes for line in old[i:j]], [line for *_, k, n in changes for line in new[k:n]]


def shapes(trace: Trace) -> list[list[tuple[int, ...]]]:
    return [[tensor.shape for tensor in (*call.inputs.values(), *call.outputs.values())] for call in trace.calls]


@pytest.mark.parametrize("F", [1, 16, 33])
def test_a_wider_layer_changes_the_lines_of_the_calls_that_it_is_seen_in_and_no_other(F: int, tmp_path: Path) -> None:
    before, after = record(Request("gpt")), record(Request("gpt", ("--F", str(F))))
    wider = sum(one != other for one, other in zip(shapes(before), shapes(after), strict=True))
    assert wider == 2 * 3 * 2  # in two blocks w_up, activation and w_down, each a module and the function in it
    header = 1  # it says the size of F
    assert [len(lines) for lines in changed_lines(before, after, tmp_path)] == [header + wider] * 2


def test_one_changed_shape_is_one_changed_line(tmp_path: Path) -> None:
    before, after = (
        shapetrace.trace(nn.Sequential(nn.Linear(8, 4), nn.Flatten(0)), torch.zeros(2, 8), functions=False, axes=False),
        shapetrace.trace(nn.Sequential(nn.Linear(8, 4), nn.Flatten(1)), torch.zeros(2, 8), functions=False, axes=False),
    )
    gone, new = changed_lines(before, after, tmp_path)
    assert new == [line.replace('"outputs":{"":{"shape":[8]}}', '"outputs":{"":{"shape":[2,4]}}') for line in gone]
    assert len(new) == 2  # Flatten returns it, and so does the model


class Residual(nn.Module):
    """Layers that add what they were given, and may scale it."""

    def __init__(self, layers: int, scaled: int | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.scaled = scaled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            y = layer(x)
            if index == self.scaled:
                y = y * 2
            x = x + y
        return x


@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_call_that_is_added_in_the_middle_is_one_line(place: int, tmp_path: Path) -> None:
    before, after = (shapetrace.trace(Residual(12, scaled), torch.zeros(2, 8)) for scaled in (None, place))
    gone, new = changed_lines(before, after, tmp_path)
    assert (gone, len(new)) == ([], 1)
    assert '"name":"*"' in new[0] or '"name":"mul"' in new[0]


# --- what differs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_what_differs_is_said_exactly_where_a_file_would_be_written(name: str, tmp_path: Path) -> None:
    gpt, other = (shapetrace.load(TRACES / f"{model}.jsonl") for model in ("gpt", name))
    path = tmp_path / "golden.jsonl"
    accept(path, gpt)
    assert accept(path, other) == bool(differences(gpt, other)) == bool(differences(other, gpt))
