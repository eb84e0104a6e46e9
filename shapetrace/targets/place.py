"""A place that a target names, before anything is imported from it; and what the kinds of target have in common."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from ..contexts import context
from ..errors import TargetError, near

__all__ = ["AS_IT_IS", "Place", "Way", "attribute", "hint", "importable"]


class Way(msgspec.Struct, frozen=True):
    """How what a target names is to be run.

    changes      of fields of its configuration, as they are written: "num_hidden_layers=2"
    weightless   whether without memory for its weights; None is as that kind of target does by itself
    device       where it is built and runs; None is where it is built when nobody says
    """

    changes: tuple[str, ...] = ()
    weightless: bool | None = None
    device: str | None = None


AS_IT_IS = Way()


class Place(msgspec.Struct, frozen=True):
    """Where a target is.

    target       as its user writes it; a registered name as it is registered
    load         imports it: the builder, the class or the model
    folder       where modules can be imported from while it is loaded and runs
    registered   whether it has a name, so that what its builder refuses is the user's doing
    weightless   whether it makes its models on fake tensors by itself, where that is wanted
    instead      gives what may be run if this cannot be
    note         what a reader must know of a trace of it; in it {reason} is why it was run instead of another
    is_told      whether what it raises is told, rather than what was raised before it was run instead
    notes        what else a reader must know, once it is built
    guesses      whether its inputs are made by guessing, so that others may be given
    """

    target: str
    load: Callable[[], object]
    folder: Path | None = None
    registered: bool = False
    weightless: bool = False
    instead: Callable[[], Place] | None = None
    note: str = ""
    is_told: bool = False
    notes: dict[str, None] = msgspec.field(default_factory=dict)
    guesses: bool = False


@context
def importable(folder: Path | None) -> Iterator[None]:
    """Modules can be imported from `folder`, before all others. After that `sys.path` is as it was, they are forgotten.

    Otherwise the next target would be given them in the place of its own: a `layers.py` stands beside many models.
    """
    path, modules = sys.path[:], set(sys.modules)
    if folder is not None:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        if folder is not None and str(folder) not in path:
            for name in [new for new in sys.modules if new not in modules and stands_in(folder, new)]:
                del sys.modules[name]


def stands_in(folder: Path, name: str) -> bool:
    """Whether the module `name`, or the package that it is in, lies right in `folder`."""
    known = getattr(sys.modules.get(name.partition(".")[0]), "__dict__", {})
    files = [*(known.get("__path__") or ()), known.get("__file__") or ""]
    return any(Path(file).parent == folder for file in files if file)


def attribute(target: str, module: ModuleType, name: str) -> object:
    """What is called `name` in a module; after a dot, what is in there."""
    value: object = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            where = target.removesuffix(f":{name}")
            others = hint(name, offered(module), "it has")
            raise TargetError(f"{target}: there is no {name!r} in {where}{others}") from None
    return value


def offered(module: ModuleType) -> list[str]:
    """The functions, classes and models that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    ]


def hint(word: str, words: Iterable[str], holds: str = "", suffix: str = "") -> str:
    """The end of a message: which of `words` may have been meant; if none is near, that a place `holds` them."""
    words = list(words)
    if meant := near(word, words):
        return f": did you mean {', '.join(name + suffix for name in meant)}?"
    if not holds or not words:
        return ""
    return f"; {holds} {', '.join(name + suffix for name in words[:8])}{', …' if len(words) > 8 else ''}"
