"""Targets in files and modules: what is imported, from where, and that nothing of it stays."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shapetrace.errors import TargetError
from shapetrace.targets import Raised, find
from shapetrace.targets.place import importable

Write = Callable[..., None]


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    path = sys.path[:]
    yield
    assert sys.path == path
    files = {name: str(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
    assert [name for name, file in files.items() if file.startswith(str(tmp_path))] == []


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files, path=text with __ for /, into a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")

    return write


def load(target: str) -> object:
    place = find(target)
    with importable(place.folder):
        return place.load()


def called(target: str) -> object:
    """What the callable that a target names returns."""
    place = find(target)
    with importable(place.folder):
        loaded = place.load()
        assert callable(loaded)
        return loaded()


def refusal(target: str) -> str:
    with pytest.raises(TargetError) as error:
        load(target)
    return str(error.value)


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_callable_in_a_file(write: Write) -> None:
    write({"net.py": "def build(): return 1", "deep/in/net.py": "def build(): return 2"})
    assert [called(f"{path}:build") for path in ("net.py", "./net.py", f"{os.getcwd()}/net.py", "deep/in/net.py")] == [
        1,
        1,
        1,
        2,
    ]


def test_a_dot_leads_into_a_class(write: Write) -> None:
    write({"net.py": "class Net:\n  @staticmethod\n  def small(): return 1"})
    assert called("net.py:Net.small") == 1


def test_files_beside_it_can_be_imported_while_it_loads_and_while_it_runs(write: Write) -> None:
    write(
        {
            "a/net.py": "import first\ndef build():\n  import second\n  return first.x, second.x",
            "a/first.py": "x = 1",
            "a/second.py": "x = 2",
        }
    )
    assert called("a/net.py:build") == (1, 2)


def test_two_targets_with_helpers_of_one_name_get_each_their_own(write: Write) -> None:
    for name in ("old", "new"):
        write(
            {
                f"{name}/net.py": "import layers\nfrom pack.deep import y\ndef build(): return layers.x, y",
                f"{name}/layers.py": f"x = '{name}'",
                f"{name}/pack/deep.py": f"y = '{name}'",
            }
        )
    assert [called(f"{name}/net.py:build") for name in ("old", "new", "old")] == [
        ("old", "old"),
        ("new", "new"),
        ("old", "old"),
    ]


def test_its_name_takes_no_other_modules_place(write: Write) -> None:
    write({"json.py": "import sys\ndef build(): return sys.modules['json'].dumps([1])"})
    sys.modules["json"] = __import__("json")
    assert called("json.py:build") == "[1]"


def test_a_name_that_is_no_identifier_will_do(write: Write) -> None:
    write({"my-model.v2.py": "def build(): return 1"})
    assert called("my-model.v2.py:build") == 1


def test_dataclasses_find_the_module_that_they_are_in(write: Write) -> None:
    write(
        {
            "net.py": "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "@dataclass\nclass Config:\n  width: int = 3\ndef build(): return Config().width"
        }
    )
    assert called("net.py:build") == 3


def test_a_file_in_a_package_is_imported_as_a_part_of_it(write: Write) -> None:
    write(
        {
            "src/pack/__init__.py": "",
            "src/pack/base.py": "x = 1",
            "src/pack/sub/__init__.py": "from ..base import x",
            "src/pack/sub/net.py": "from . import x\nfrom ..base import x as y\ndef build(): return x, y, __name__",
        }
    )
    assert called("src/pack/sub/net.py:build") == (1, 1, "pack.sub.net")
    assert load("src/pack/sub/__init__.py:x") == 1


def test_two_packages_of_one_name_are_kept_apart(write: Write) -> None:
    for name in ("old", "new"):
        write({f"{name}/pack/__init__.py": "", f"{name}/pack/net.py": f"def build(): return '{name}'"})
    assert [called(f"{name}/pack/net.py:build") for name in ("old", "new")] == ["old", "new"]


# --- modules ---------------------------------------------------------------------------------------------------------


def test_a_callable_in_an_installed_module(write: Write) -> None:
    write({})
    assert load("os.path:join") is os.path.join


def test_a_callable_in_a_module_of_the_current_folder(write: Write) -> None:
    write({"pack/net.py": "def build(): return __name__", "net.py": "def build(): return __name__"})
    assert [called(target) for target in ("pack.net:build", "net:build")] == ["pack.net", "net"]


def test_the_path_is_restored_even_if_the_target_changes_it(write: Write) -> None:
    write({"net.py": "import sys\nsys.path.append('elsewhere')\ndef build(): return 1"})
    assert called("net:build") == 1


# --- errors ----------------------------------------------------------------------------------------------------------

FILES = {
    "net.py": "def build(): ...\ndef build_large(): ...\ndef _hidden(): ...\nclass Net: ...\nfrom os import getcwd",
    "sub/other.py": "",
    "notes.txt": "",
    "unmistakable_module/__init__.py": "",
    "pack/__init__.py": "",
    "pack/net.py": "import nowhere_to_be_found",
}

REFUSED = {
    "net.py": "net.py is a file; name what in it gives the model as well, net.py:build",
    "net.py:": "net.py is a file; name what in it gives the model as well, net.py:build",
    r"C:\models\net.py": r"C:\models\net.py is a file; name what in it gives the model as well, C:\models\net.py:build",
    r"C:\models\nte.py:build": r"C:\models\nte.py:build: there is no file C:\models\nte.py; this folder has net.py",
    "run.jsonl": "run.jsonl is no model; if it is a trace, shapetrace show run.jsonl shows it",
    "nte.py:build": "nte.py:build: there is no file nte.py: did you mean net.py?",
    "sub/net.py:build": "sub/net.py:build: there is no file sub/net.py; sub has other.py",
    "gone/net.py:build": "gone/net.py:build: there is no folder gone",
    "./net:build": "./net:build: there is no file net: did you mean net.py?",
    "./notes.txt:build": "./notes.txt:build: notes.txt is no .py file: did you mean net.py?",
    "net.py:biuld": "net.py:biuld: there is no 'biuld' in net.py: did you mean build, build_large?",
    "net.py:qqq": "net.py:qqq: there is no 'qqq' in net.py; it has build, build_large, Net",
    "net.py:Net.small": "net.py:Net.small: there is no 'Net.small' in net.py: did you mean Net?",
    "net:biuld": "net:biuld: there is no 'biuld' in net: did you mean build, build_large?",
    "unmistakable_modle:build": "unmistakable_modle:build: there is no module 'unmistakable_modle', neither installed "
    "nor in the current folder: did you mean unmistakable_module?",
    "os.pth:join": "os.pth:join: there is no module 'pth' in os",
    "pack.nte:build": "pack.nte:build: there is no module 'nte' in pack: did you mean net?",
    "pack.qqq:build": "pack.qqq:build: there is no module 'qqq' in pack; it has net",
    "pack.net.deep:build": "pack.net.deep:build: pack.net.deep raised this while it was imported; "
    "`python -c 'import pack.net.deep'` must work first",
    "my model:build": "my model:build: 'my model' is no name of a module; one looks like package.module",
    "..net:build": "..net:build: '..net' is no name of a module; one looks like package.module",
}


@pytest.mark.parametrize("target", REFUSED)
def test_a_target_that_is_not_there_is_refused_with_what_is_near(target: str, write: Write) -> None:
    write(FILES)
    assert refusal(target) == REFUSED[target]


def test_a_package_in_another_ones_place_is_refused(write: Write) -> None:
    write({"json/__init__.py": "", "json/net.py": "def build(): ..."})
    import json

    assert refusal("json/__init__.py:build") == (
        f"json/__init__.py:build: it is the module json, but {json.__file__} is in use by that name"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import nowhere_to_be_found", ModuleNotFoundError),
        ("def build(:", SyntaxError),
        ("1 / 0", ZeroDivisionError),
        ("raise SystemExit(3)", SystemExit),
    ],
)
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("lone/net.py:f", "net.py raised this while it was imported; `python net.py` must work first"),
        ("pack/net.py:f", "net.py raised this while it was imported; `python -c 'import pack.net'` must work first"),
        ("pack.net:f", "pack.net raised this while it was imported; `python -c 'import pack.net'` must work first"),
    ],
)
def test_what_the_users_own_module_raises_is_the_cause(
    write: Write, target: str, message: str, text: str, error: type[BaseException]
) -> None:
    write({"lone/net.py": text, "pack/__init__.py": "", "pack/net.py": text})
    with pytest.raises(Raised) as raised:
        load(target)
    assert str(raised.value) == f"{target}: {message}"
    assert type(raised.value.__cause__) is error


def test_an_interrupt_is_nobodys_error(write: Write) -> None:
    write({"net.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        load("net.py:build")
