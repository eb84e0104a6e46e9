"""The options of the commands. Each is read here; what reads it is imported when it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "All",
    "Axes",
    "Changes",
    "Copies",
    "Depth",
    "Device",
    "Inputs",
    "Materialise",
    "Ops",
    "Output",
    "RecordedOps",
    "RecordedStats",
    "Seed",
    "Shape",
    "Stats",
    "Weightless",
    "Width",
    "letters",
    "model_names",
    "number",
    "sizes",
]

LETTERS = {
    "B": "batch",
    "T": "length; of the target, if there is a source",
    "S": "length of the source",
    "C": "model width",
    "H": "heads",
    "F": "feed-forward width",
    "V": "vocabulary",
    "G": "key/value heads",
    "L": "layers",
}


def letters(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes the size of each letter, too: behind its arguments, for `sizes` to read."""

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:
        command(*args, **{name: value for name, value in given.items() if name not in LETTERS})

    plain = inspect.signature(command, eval_str=True)
    own = [*plain.parameters.values()]
    behind = sum(each.default is each.empty for each in own)
    found = [
        inspect.Parameter(
            letter,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None,
            annotation=Annotated[str | None, typer.Option(f"--{letter}", metavar="N", help=axis)],
        )
        for letter, axis in LETTERS.items()
    ]
    run.__signature__ = plain.replace(parameters=[*own[:behind], *found, *own[behind:]])  # type: ignore[attr-defined]
    return run


def sizes(context: typer.Context) -> tuple[str, ...]:
    """Those that a command was given, as options of a target."""
    given = ((letter, context.params[letter]) for letter in LETTERS if context.params.get(letter) is not None)
    return tuple(f"--{letter}={text}" for letter, text in given)


def number(least: int, most: int) -> Callable[[object], int]:
    """Reads a whole number from `least` to `most`."""

    def read(text: object) -> int:
        from .targets.options import whole

        found = whole(str(text), least=least, most=most)
        if found is None:
            raise typer.BadParameter(f"it is a whole number from {least} to {most}, not {text!r}.")
        return found

    return read


def format_name(text: str) -> str:
    from .renderers import FORMATS

    if text not in FORMATS:
        raise typer.BadParameter(f"it is {', '.join(FORMATS)}, not {text!r}.")
    return text


def model_names() -> list[str]:
    from .targets import registry

    return registry.names()


Inputs = Annotated[list[str] | None, typer.Option("--input", metavar="SPEC", help="a tensor to call the model with")]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", parser=number(0, 2**64 - 1), help="of the random numbers; 0 if not given", show_default=False
    ),
]
Axes = Annotated[
    str, typer.Option(metavar="SIZES", help="sizes of axes that cannot be told: 'C=768 H=12'", show_default=False)
]
Ops = Annotated[bool, typer.Option("--ops", help="show the aten ops that each function runs, too")]
RecordedOps = Annotated[
    bool | None, typer.Option("--ops/--no-ops", help="the aten ops inside each function; else if they were recorded")
]
RecordedStats = Annotated[
    bool | None, typer.Option("--stats/--no-stats", help="what values are like; else if that was recorded")
]
Materialise = Annotated[
    bool, typer.Option("--materialise", help="run fused attention written out: its scores and weights are real")
]
Stats = Annotated[
    bool,
    typer.Option("--stats", help="show of each tensor mean, deviation and extremes, and whether it has NaN or inf"),
]
All = Annotated[bool, typer.Option("--all", help="leave nothing out and fold nothing: masks, casts, equal blocks")]
Depth = Annotated[
    int | None, typer.Option(metavar="N", parser=number(0, 1000), help="how many levels of modules to open")
]
Shape = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", parser=format_name, help="tree (the default), table, json, markdown"),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="write to FILE: .jsonl keeps the record, .txt, .md and .json what is shown"),
]
Width = Annotated[
    int | None, typer.Option(metavar="N", parser=number(1, 10_000), help="how many columns wide; else as the terminal")
]
Copies = Annotated[bool, typer.Option("--copies", help="show the copies instead, the largest first, and why")]
Changes = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=VALUE", help="of the configuration of a model of hf:, as if it said so"),
]
Weightless = Annotated[
    bool | None,
    typer.Option("--weightless/--no-weightless", help="without memory for weights: of any size; hf: is so by itself"),
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="where it is built and runs: cpu, cuda")]
