"""Tracebacks: the user's own lines, and those of torch that they call, but not what is between them."""

import builtins
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import shapetrace
from shapetrace.targets.blame import Raised, blame, own_traceback

SOURCE = """\
import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 8)
        self.tail = nn.Sequential(nn.Identity(), Tail())

    def forward(self, x):
        return self.tail(self.table(x))


class Tail(nn.Module):
    def forward(self, x):
        try:
            return x.view(7)
        except RuntimeError as error:
            raise ValueError("seven") from error


class Pool(nn.Module):
    def forward(self, x):
        return functional.max_pool2d(x, 2, stride="x")
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module of the user's."""
    file = tmp_path_factory.mktemp("user") / "net.py"
    file.write_text(SOURCE)
    module = ModuleType("net")
    exec(compile(SOURCE, str(file), "exec"), module.__dict__)
    module.__file__ = str(file)
    return module


def failure(model: torch.nn.Module, *args: Any) -> Any:
    with pytest.raises(Exception) as raised:
        shapetrace.trace(model, *args)
    here = raised.value.__traceback__
    return raised.value.with_traceback(here and here.tb_next)  # below this function, which calls as a user would


def lines(error: BaseException, user: Any) -> list[str]:
    """The traceback without the marks under its lines, which Python 3.10 lacks, and without the place of the file."""
    text = own_traceback(error).replace(str(Path(user.__file__).parent), "…")
    return [line for line in text.split("\n") if not re.fullmatch(r" +[~^]+", line)]


def frames(error: BaseException) -> list[tuple[str, str]]:
    return re.findall(r'File ".*?([^/]+)", line \d+, in (\w+)', own_traceback(error))


def test_the_users_own_frames_are_shown_and_where_it_came_from_and_the_note(user: Any) -> None:
    error = failure(user.Net(), torch.tensor([1]))
    assert lines(error, user) == [
        "Traceback (most recent call last):",
        '  File "…/net.py", line 19, in forward',
        "    return x.view(7)",
        "RuntimeError: shape '[7]' is invalid for input of size 8",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "…/net.py", line 13, in forward',
        "    return self.tail(self.table(x))",
        f'  File "{torch.nn.modules.container.__file__}", line {line_in_sequential()}, in forward',
        "    input = module(input)",
        '  File "…/net.py", line 21, in forward',
        '    raise ValueError("seven") from error',
        "ValueError: seven",
        *"\n".join(error.__notes__).replace(str(Path(user.__file__).parent), "…").split("\n"),
    ]


def line_in_sequential() -> int:
    source = Path(torch.nn.modules.container.__file__).read_text().split("\n")
    return source.index("            input = module(input)") + 1


def test_torchs_functions_are_shown_once_and_what_leads_to_them_not_at_all(user: Any) -> None:
    assert frames(failure(user.Net(), torch.tensor([5]))) == [
        ("net.py", "forward"),
        ("sparse.py", "forward"),
        ("functional.py", "embedding"),
    ]
    assert frames(failure(user.Pool(), torch.zeros(1, 1, 4, 4))) == [
        ("net.py", "forward"),
        ("functional.py", "_max_pool2d"),
    ]


def test_torchs_own_containers_are_not_shown_above_the_users_first_frame(user: Any) -> None:
    assert frames(failure(torch.nn.Sequential(user.Pool()), torch.zeros(1, 1, 4, 4)))[0] == ("net.py", "forward")


def test_where_only_torch_ran_its_frames_are_shown() -> None:
    assert frames(failure(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.zeros(3)))[0] == ("container.py", "forward")


def test_where_no_line_of_the_users_ran_only_the_error_is_shown(user: Any) -> None:
    error = failure(user.Net())
    first, *_ = own_traceback(error).split("\n")
    assert first == "TypeError: Net.forward() missing 1 required positional argument: 'x'"


def test_the_reference_models_are_shown_like_the_users_own() -> None:
    from shapetrace.models.gpt import gpt

    model, _, _ = gpt()
    assert frames(failure(model, torch.tensor([[99]])))[0] == ("gpt.py", "forward")


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError) as raised:
        compile("def build(:\n", "net.py", "exec")
    assert own_traceback(raised.value).split("\n")[-4:-1] == [
        '  File "net.py", line 1',
        "    def build(:",
        "              ^",
    ]


def test_blame_keeps_the_error_as_the_cause_and_lets_ours_and_interrupts_pass() -> None:
    for error in (KeyError("x"), SystemExit(2), GeneratorExit(), BaseException("own")):
        with pytest.raises(Raised, match=r"^build$") as raised, blame("build"):
            raise error
        assert raised.value.__cause__ is error
    for passed in (shapetrace.InputError("x"), KeyboardInterrupt()):
        with pytest.raises(type(passed)) as same, blame("build"):
            raise passed
        assert same.value is passed


def test_a_cause_that_was_never_raised_and_a_circle_of_causes_are_shown() -> None:
    with pytest.raises(KeyError) as raised:
        raise KeyError("k") from ValueError("why")
    text = own_traceback(raised.value)
    assert text.startswith("ValueError: why\n\nThe above exception was the direct cause")
    assert text.endswith("KeyError: 'k'")
    raised.value.__cause__ = raised.value
    assert own_traceback(raised.value).endswith("KeyError: 'k'")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")
def test_a_group_of_exceptions_is_shown() -> None:
    group = vars(builtins)["ExceptionGroup"]("both", [KeyError("a"), ValueError("b")])
    assert "ValueError: b" in own_traceback(group)
