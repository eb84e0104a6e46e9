"""`shapetrace diff`: two sides, each a trace file or what `run` takes, compared; with --values the two as they run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import files
from .errors import FileError
from .options import Output, Seed, Width, number, size
from .schema import Trace
from .streams import aside, complain, say
from .valuation import Valued, values_of

if TYPE_CHECKING:
    from .diff import Diff
    from .diff.divergence import ValuesDiff

__all__ = ["diff"]

FORMATS = ("tree", "json")
SUFFIXES = {".txt": "tree", ".json": "json"}


def format_name(text: str) -> str:
    if text not in FORMATS:
        raise typer.BadParameter(f"it is {' or '.join(FORMATS)}, not {text!r}.")
    return text


def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", hidden=True)],
    after: Annotated[str, typer.Argument(metavar="AFTER", hidden=True)],
    B: Annotated[str | None, size("B", "batch, of both sides")] = None,
    T: Annotated[str | None, size("T", "length; of the target, if there is a source")] = None,
    S: Annotated[str | None, size("S", "length of the source")] = None,
    C: Annotated[str | None, size("C", "model width")] = None,
    H: Annotated[str | None, size("H", "heads")] = None,
    F: Annotated[str | None, size("F", "feed-forward width")] = None,
    V: Annotated[str | None, size("V", "vocabulary")] = None,
    L: Annotated[str | None, size("L", "layers")] = None,
    all: Annotated[bool, typer.Option("--all", help="show what is the same, too")] = False,
    unified: Annotated[
        int | None,
        typer.Option("--unified", "-U", metavar="N", parser=number(0, 10_000), help="lines around each change; else 1"),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="compare stride, contiguity, memory and device, too")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="FIELD", help="compare this alone; several times")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="FIELD", help="leave this out; several times")] = None,
    values: Annotated[
        bool, typer.Option("--values", help="run both on the inputs of BEFORE: where do their values part?")
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="copy: AFTER gets those of BEFORE; file.py:function puts them there; else own"
        ),
    ] = None,
    rtol: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="relative tolerance; else by the dtype")
    ] = None,
    atol: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="absolute tolerance; else by the dtype")
    ] = None,
    seed: Seed = 0,
    format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", parser=format_name, help="tree (the default), json")
    ] = None,
    output: Output = None,
    width: Width = None,
) -> None:
    """Compare two traces: what was added, removed, moved and changed.

    \b
      shapetrace diff preln postln
      shapetrace diff gpt 'gpt[G=1,norm=post]' --B 3
      shapetrace diff old.jsonl new.jsonl --exact
      shapetrace diff old.py:build new.py:build
      shapetrace diff old.py:build new.py:build --values --weights copy

    BEFORE and AFTER are trace files (.jsonl), or what `shapetrace run` takes; options of one side stand in brackets.
    Tensors correspond by name, role and place in the structure, never by shape.

    FIELD is shape, axes, role, dtype, layout, class, made, error, layers, order or structure (what was added and
    removed); with --exact also stride, contiguity, memory and device.

    With --values both run, on the inputs of BEFORE, and the first tensor whose value diverges is named. The weights are
    their own, made with the same seed; copied, they go by name and shape, and the rest by the order of equal shapes. A
    function(before, after) of yours gets the models. The values of BEFORE are held in memory until AFTER has its own.

    The exit status is 0 if the sides are the same, 1 if they differ, 2 if they cannot be compared.
    """
    from .diff import compare
    from .diff.fields import chosen

    fields = {"only": tuple(only or ()), "ignore": tuple(ignore or ())}
    chosen(**fields, exact=exact)  # refused before anything slow begins
    what = content(format, output)
    letters = {"B": B, "T": T, "S": S, "C": C, "H": H, "F": F, "V": V, "L": L}
    options = tuple(f"--{letter}={text}" for letter, text in letters.items() if text is not None)
    by_value: dict[str, object] = {"--weights": weights, "--rtol": rtol, "--atol": atol}
    if values:
        refuse_with("--values", {"--exact": exact, "--only": only, "--ignore": ignore, "--unified": unified})
        parted = values_of(Valued(before, after, options, seed, weights, rtol, atol))
        put(
            values_text(parted, what, all=all, width=width, is_file=output is not None),
            output,
            f"{before} against {after}",
        )
        raise typer.Exit(1 if parted else 0)
    refuse_without("--values", by_value)
    ours, theirs = side(before, options, seed), side(after, options, seed)
    found = compare(ours, theirs, exact=exact, **fields)
    text = rendered(found, what, all=all, context=unified, width=width, is_file=output is not None)
    put(text, output, f"{before} against {after}")
    raise typer.Exit(1 if found else 0)


def put(text: str, output: Path | None, what: str) -> None:
    if output is None:
        say(text)
    else:
        files.write(output, f"{text}\n".encode("utf-8", "backslashreplace"))
        complain(f"{output}: written, {what}")


def refuse_with(option: str, others: dict[str, object]) -> None:
    if given := [name for name, value in others.items() if value not in (None, False)]:
        raise typer.BadParameter(f"{option} compares values and does not go with {', '.join(given)}.")


def refuse_without(option: str, others: dict[str, object]) -> None:
    if given := [name for name, value in others.items() if value is not None]:
        raise typer.BadParameter(f"{', '.join(given)} {'goes' if len(given) == 1 else 'go'} with {option}.")


def side(text: str, options: tuple[str, ...], seed: int) -> Trace:
    """The trace that is in a file, or that comes of running a target. Options are of the target alone."""
    if text.endswith(".jsonl") or Path(text).is_file():
        return files.load(text)
    from .targets import Request, record

    with aside():
        return record(Request(text, options, seed=seed))


def content(format: str | None, output: Path | None) -> str:
    if format is not None or output is None:
        return format or "tree"
    if output.suffix not in SUFFIXES:
        raise FileError(
            f"{output}: the end of its name does not say what to write; use {', '.join(SUFFIXES)}, or give --format"
        )
    return SUFFIXES[output.suffix]


def values_text(found: ValuesDiff, what: str, *, all: bool, width: int | None, is_file: bool) -> str:
    from .renderers import Style, values, values_json

    if what == "json":
        return values_json(found)
    return values(found, Style(width=width or 80, color=False, all=all) if is_file else Style(width=width, all=all))


def rendered(found: Diff, what: str, *, all: bool, context: int | None, width: int | None, is_file: bool) -> str:
    from .renderers import CONTEXT, Style, changes, changes_json

    if what == "json":
        return changes_json(found)
    style = Style(width=width or 80, color=False, all=all) if is_file else Style(width=width, all=all)
    return changes(found, style, context=CONTEXT if context is None else context)
