"""Models made ready: built from a target, with the inputs that specs describe."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shapetrace.errors import ShapetraceError
from shapetrace.targets import Raised
from shapetrace.targets.inputs import parse
from shapetrace.targets.place import Place
from shapetrace.targets.ready import Ready, load, make


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor, scale: float = 1.0) -> Tensor:
        return self.linear(x) * scale


class Ids(nn.Module):
    """Its parameters and those of its forward go by position."""

    def __init__(self, *rows: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 2) for n in rows)

    def forward(self, ids: Tensor, /, *others: Tensor, **more: Tensor) -> None: ...


class Bare(nn.Module):
    def forward(self, x: Tensor | None = None) -> None: ...


net = Net()


def ready(loaded: object, line: str = "", *specs: str, seed: int = 0, registered: bool = False) -> Ready:
    place = Place("net.py:target", lambda: loaded, registered=registered)
    loaded, _ = load(place, seed)
    return make(place, loaded, line.split(), [parse(spec) for spec in specs], seed=seed, others=())


def refusal(loaded: object, line: str = "", *specs: str, registered: bool = False) -> str:
    with pytest.raises(ShapetraceError) as error:
        ready(loaded, line, *specs, registered=registered)
    return str(error.value)


# --- what a target may be --------------------------------------------------------------------------------------------

X = torch.zeros(2, 8)


@pytest.mark.parametrize(
    ("loaded", "args", "kwargs"),
    [
        (Bare, 0, []),
        (Bare(), 0, []),
        (lambda: Bare(), 0, []),
        (lambda: (Bare(), (X,)), 1, []),
        (lambda: (Bare(), [X]), 1, []),
        (lambda: (Bare(), (), {"x": X}), 0, ["x"]),
        (lambda: (net, (X,), {"mask": X}), 1, ["mask"]),
    ],
)
def test_a_target_is_a_model_or_what_gives_one_alone_with_args_or_with_args_and_kwargs(
    loaded: object, args: int, kwargs: list[str]
) -> None:
    made = ready(loaded)
    assert isinstance(made.model, nn.Module)
    assert (len(made.args), list(made.kwargs)) == (args, kwargs)


def test_a_model_that_is_there_is_taken_as_it_is() -> None:
    assert ready(net, "", "float32[2, 8]", "bool[2]").model is net


@pytest.mark.parametrize("training", [True, False])
def test_its_mode_is_left_as_it_is(training: bool) -> None:
    assert ready(Bare().train(training)).model.training is training


def test_a_class_is_called_with_the_options_that_its_init_takes() -> None:
    assert ready(Net, "--width 3", "float32[2, 3]", "bool[2]").model.linear.in_features == 3


# --- inputs ----------------------------------------------------------------------------------------------------------


def test_specs_go_by_position_or_by_name() -> None:
    made = ready(Net, "--T 4", "float32[B=2, T, 8]", "mask: bool[B, T]")
    assert [tuple(x.shape) for x in made.args] == [(2, 4, 8)]
    assert {name: (tuple(x.shape), x.dtype) for name, x in made.kwargs.items()} == {"mask": ((2, 4), torch.bool)}


def test_letters_of_the_builder_are_known_to_specs() -> None:
    def build(C: int = 8) -> nn.Module:
        return Net(C)

    made = ready(build, "", "float32[B=2, C]", "bool[2]")
    assert tuple(made.args[0].shape) == (2, 8)
    assert made.letters == {"C": 8, "B": 2}


@pytest.mark.parametrize(
    "dtype",
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 complex128 "
    "int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool".split(),
)
def test_every_dtype_can_be_made(dtype: str) -> None:
    (x,) = ready(Bare, "", f"{dtype}[2, 3]").args
    assert (str(x.dtype), tuple(x.shape)) == (f"torch.{dtype}", (2, 3))


def largest(model: nn.Module, spec: str) -> int:
    return int(ready(model, "", spec).args[0].max())


def test_integers_stay_below_their_limit_else_the_smallest_embedding_else_10() -> None:
    assert largest(Ids(500, 7, 90), "int64[1000] < 50") == 49
    assert largest(Ids(500, 7, 90), "int64[1000]") == 6
    assert largest(Ids(), "int64[1000]") == 9
    assert largest(Ids(500), "int8[1000]") == 127


def test_inputs_are_made_where_the_model_is() -> None:
    assert ready(Net().to("meta"), "", "float32[2, 8]", "bool[2]").args[0].device.type == "meta"


def test_the_seed_decides_weights_and_inputs() -> None:
    def numbers(seed: int) -> Tensor:
        made = ready(Net, "", "float32[2, 8]", "bool[2]", seed=seed)
        return torch.cat([made.model.linear.weight.flatten(), made.args[0].flatten()])

    assert torch.equal(numbers(1), numbers(1))
    assert not torch.equal(numbers(1), numbers(2))


# --- errors ----------------------------------------------------------------------------------------------------------

FORMS = "it must return a model, (model, args) or (model, args, kwargs), where args is a tuple and kwargs a dict"
FORWARD = "  Net.forward(x: Tensor, mask: Tensor, scale: float = 1.0)"


def returns(value: Any) -> Any:
    return lambda: value


REFUSED: list[tuple[object, str, list[str], str]] = [
    (3, "", [], "net.py:target is of type int; it must be a model or return one"),
    (returns(None), "", [], f"net.py:target returned None; {FORMS}"),
    (returns(Net), "", [], f"net.py:target returned the class Net; {FORMS}"),
    (returns((net, X)), "", [], f"net.py:target returned (Net, Tensor); {FORMS}"),
    (returns((net, {"x": X})), "", [], f"net.py:target returned (Net, dict); {FORMS}"),
    (returns((net, (X,), {3: X})), "", [], f"net.py:target returned (Net, (Tensor,), dict); {FORMS}"),
    (returns((X, (net,))), "", [], f"net.py:target returned (Tensor, (Net,)); {FORMS}"),
    (net, "--width 3", [], "net.py:target takes no --width; it takes no options"),
    (Bare, "--width 3", [], "net.py:target takes no --width; it takes no options"),
    (
        returns((net, (X,))),
        "",
        ["x: float32[2, 8]"],
        "net.py:target makes its own inputs; --input is for what gives a model alone",
    ),
    (
        net,
        "",
        [],
        f"Net needs x and mask\n{FORWARD}\nfor example: --input 'x: float32[2, 4, 8]' --input 'mask: bool[2, 4]'",
    ),
    (net, "", ["mask: bool[2]"], f"Net needs x\n{FORWARD}\nfor example: --input 'x: float32[2, 4, 8]'"),
    (
        Ids(),
        "",
        [],
        "Ids needs ids\n  Ids.forward(ids: Tensor, /, *others: Tensor, **more: Tensor)\n"
        "for example: --input 'int64[2, 4]'",
    ),
    (net, "", ["maks: bool[2]"], f"Net has no input 'maks': did you mean mask?\n{FORWARD}"),
    (net, "", ["x: bool[2]", "x: bool[2]"], f"Net is given 'x' twice\n{FORWARD}"),
    (
        net,
        "",
        ["bool[2]", "x: bool[2]"],
        f"Net cannot be called with these inputs: multiple values for argument 'x'\n{FORWARD}",
    ),
    (
        net,
        "",
        ["bool[2]"] * 4,
        f"Net cannot be called with these inputs: too many positional arguments\n{FORWARD}",
    ),
    (
        Bare,
        "",
        ["float32[9223372036854775807]"],
        "--input 'float32[9223372036854775807]' cannot be made: Storage size calculation overflowed with "
        "sizes=[9223372036854775807]",
    ),
    (
        lambda B=4: Bare(),
        "",
        ["x: float32[B=2]"],
        "--input cannot be read\n  x: float32[B=2]\n             ^ B=2 does not go with --B 4\n"
        "for example: --input 'ids: int64[2, 4]'",
    ),
]


@pytest.mark.parametrize(("loaded", "line", "specs", "message"), REFUSED)
def test_what_cannot_be_made_is_refused(loaded: object, line: str, specs: list[str], message: str) -> None:
    assert refusal(loaded, line, *specs) == message


def test_a_builder_that_raises_is_shown_with_its_arguments() -> None:
    def build(C: int = 3, kind: str = "a") -> None:
        raise ValueError(kind)

    with pytest.raises(Raised) as raised:
        ready(build, "--kind b")
    assert str(raised.value) == "net.py:target: build(kind='b') raised this and gave no model; it takes --C --kind"
    assert isinstance(raised.value.__cause__, ValueError)


def test_what_a_registered_builder_refuses_is_said_in_a_line() -> None:
    def build(C: int = 7) -> None:
        raise ValueError(f"C={C} is odd\nand so on")

    assert refusal(build, registered=True) == "net.py:target: C=7 is odd"


def test_a_registered_builder_that_fails_otherwise_is_shown_like_any() -> None:
    def build() -> None:
        raise KeyError("x")

    with pytest.raises(Raised, match="raised this and gave no model"):
        ready(build, registered=True)
