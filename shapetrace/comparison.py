"""`shapetrace diff`: two sides, each a trace file or what `run` takes, compared; with --values the two as they run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import files
from .contexts import context
from .errors import FileError
from .options import Axes, Changes, Inputs, Seed, Width, number, sizes
from .schema import Trace
from .streams import STDIN, aside, complain, names_trace, read, say
from .valuation import Valued, values_of

if TYPE_CHECKING:
    from .diff import Diff
    from .diff.divergence import ValuesDiff
    from .targets import Request

__all__ = ["diff"]

FORMATS = ("tree", "json")
SUFFIXES = {".txt": "tree", ".json": "json"}


def format_name(text: str) -> str:
    if text not in FORMATS:
        raise typer.BadParameter(f"it is {' or '.join(FORMATS)}, not {text!r}.")
    return text


def diff(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="BEFORE", hidden=True)],
    after: Annotated[str, typer.Argument(metavar="AFTER", hidden=True)],
    set: Changes = None,
    input: Inputs = None,
    axes: Axes = "",
    all: Annotated[bool, typer.Option("--all", help="show what is the same, too")] = False,
    unified: Annotated[
        int | None,
        typer.Option("--unified", "-U", metavar="N", parser=number(0, 10_000), help="lines around each change; else 1"),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="compare stride, contiguity and memory, too")] = False,
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
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write to FILE: .txt as it is shown, .json for programs")
    ] = None,
    width: Width = None,
) -> None:
    """Compare two traces: what was added, removed, moved and changed.

    \b
      shapetrace diff preln postln
      shapetrace diff gpt 'gpt[G=1,norm=post]' --B 3
      shapetrace diff old.jsonl new.jsonl --exact
      shapetrace diff <(git show HEAD:traces/gpt.jsonl) gpt
      shapetrace diff hf:gpt2 'hf:gpt2[num_hidden_layers=2]'
      shapetrace diff old.py:build new.py:build
      shapetrace diff old.py:build new.py:build --values --weights copy

    BEFORE and AFTER are trace files (.jsonl, a pipe, - for stdin), or what `shapetrace run` takes. Options of one side
    stand in brackets, also those that `run` takes for it: 'net.py:Net[input=x: float32[2, 8], n-layers=3]'. Tensors
    correspond by name, role and place in the structure, never by shape.

    FIELD is shape, axes, role, dtype, layout, device (of a tensor that is not where its model is), class, tied (to
    another weight), bias, made, error, layers, order or structure (what was added and removed); with --exact also
    stride, contiguity and memory.

    With --values both run, on the inputs of BEFORE, and the first tensor whose value diverges is named. Inputs go by
    name, or by what both models make of them; those of AFTER that are like none are its own. The weights are their
    own, made with the same seed; copied, they go by name and shape, or by what both make with them unless names say
    otherwise, and the rest by the order of equal shapes; --all shows which went where. A function(before, after) of
    yours gets the models. The values of BEFORE are held in memory until AFTER has its own.

    The exit status is 0 if the sides are the same, 1 if they differ, 2 if they cannot be compared.
    """
    from .diff import compare
    from .diff.fields import chosen

    fields = {"only": tuple(only or ()), "ignore": tuple(ignore or ())}
    chosen(**fields, exact=exact)  # refused before anything slow begins
    if before == after == STDIN:
        raise typer.BadParameter("stdin is one trace: only one of both sides can be -.")
    what = content(format, output)
    how = sizes(context), tuple(input or ()), tuple(set or ()), axes, seed
    by_value: dict[str, object] = {"--weights": weights, "--rtol": rtol, "--atol": atol}
    if values:
        refuse_with("--values", {"--exact": exact, "--only": only, "--ignore": ignore, "--unified": unified})
        requests = request(before, *how), request(after, *how)
        parted = values_of(Valued(*requests, weights, rtol, atol))
        put(
            values_text(parted, what, all=all, width=width, is_file=output is not None),
            output,
            f"{before} against {after}",
        )
        raise typer.Exit(1 if parted else 0)
    refuse_without("--values", by_value)
    if names_trace(before) and names_trace(after):
        refuse_of_files(context, {"--input": input, "--set": set, "--axes": axes or None})
    ours, theirs = side(before, *how), side(after, *how)
    with uncollected():
        found = compare(ours, theirs, exact=exact, **fields)
        text = rendered(
            found if what == "json" else named(found, before, after),
            what,
            all=all,
            context=unified,
            width=width,
            is_file=output is not None,
        )
    put(text, output, f"{before} against {after}")
    raise typer.Exit(1 if found else 0)


@context
def uncollected() -> Iterator[None]:
    """Without looks for cycles: there are none among the records of two traces, of which each look goes through all. A
    tenth to a fifth of the time for 10,000 calls."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def put(text: str, output: Path | None, what: str) -> None:
    if output is None:
        say(text)
    else:
        files.write(output, f"{text}\n".encode("utf-8", "backslashreplace"))
        complain(f"{output}: written, {what}")


def refuse_with(option: str, others: dict[str, object]) -> None:
    if given := [name for name, value in others.items() if value not in (None, False)]:
        raise typer.BadParameter(f"{option} compares values and does not go with {', '.join(given)}.")


def refuse_of_files(context: typer.Context, others: dict[str, object]) -> None:
    """Options of a target that is run, where both sides were."""
    given = [word.partition("=")[0] for word in sizes(context)] + [name for name, value in others.items() if value]
    if is_given(context, "seed"):
        given.append("--seed")
    if given:
        does = "is" if len(given) == 1 else "are"
        raise typer.BadParameter(f"{', '.join(given)} {does} of what is run, and both sides are files.")


def is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def named(found: Diff, before: str, after: str) -> Diff:
    """With the names of two files in the header, where they are called the same there."""
    if found.before.target != found.after.target or before == after or not names_trace(before) & names_trace(after):
        return found
    return found.headed(f"{before} ({found.before.target})", f"{after} ({found.after.target})")


def refuse_without(option: str, others: dict[str, object]) -> None:
    if given := [name for name, value in others.items() if value is not None]:
        raise typer.BadParameter(f"{', '.join(given)} {'goes' if len(given) == 1 else 'go'} with {option}.")


def side(text: str, *how: Any) -> Trace:
    """The trace that is in a file, or that comes of running a target. Options are of the target alone."""
    if names_trace(text):
        return read(text)
    from .targets import record

    with aside():
        return record(request(text, *how))


def request(
    target: str, options: tuple[str, ...], inputs: tuple[str, ...], changes: tuple[str, ...], axes: str, seed: int
) -> Request:
    from .targets import Request, Way

    return Request(target, options, inputs, seed=seed, axes=axes, way=Way(changes))


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
