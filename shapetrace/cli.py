"""The command line. What a user can get wrong ends in one message on stderr and exit status 2."""

from __future__ import annotations

import errno
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from . import __version__, files
from .comparison import diff
from .errors import ShapetraceError, TargetError
from .options import (
    All,
    Axes,
    Changes,
    Copies,
    Depth,
    Device,
    Inputs,
    Materialise,
    Ops,
    Output,
    RecordedOps,
    RecordedStats,
    Seed,
    Shape,
    Stats,
    Weightless,
    Width,
    letters,
    model_names,
    sizes,
)
from .streams import aside, complain, hush, read, say, set_encoding
from .view import View, emit, narrowed, view_of

if TYPE_CHECKING:
    from .targets import Request

__all__ = ["app", "main"]

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

UsageError: Any = typer.BadParameter.__base__
"""Of typer itself or of click, going by the version of typer."""

# --- commands ---------------------------------------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def shapetrace(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """What is this tensor? Run a PyTorch model and see every tensor: name, shape, stride, memory.

    \b
      shapetrace run gpt --B 2 --T 4           a reference model
      shapetrace run my_model.py:build         your own
      shapetrace run gpt --output gpt.jsonl    keep the record
      shapetrace show gpt.jsonl                and look at it again
      shapetrace diff preln postln             what differs between two
    """
    if version:
        say(f"shapetrace {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@letters
def run(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", hidden=True, autocompletion=model_names)],
    set: Changes = None,
    weightless: Weightless = None,
    device: Device = None,
    input: Inputs = None,
    seed: Seed = 0,
    axes: Axes = "",
    ops: Ops = False,
    materialise: Materialise = False,
    stats: Stats = False,
    copies: Copies = False,
    all: All = False,
    depth: Depth = None,
    format: Shape = None,
    output: Output = None,
    width: Width = None,
) -> None:
    """Run a model once and show its tensors.

    \b
      shapetrace run gpt
      shapetrace run gpt --B 2 --T 4 --head untied
      shapetrace run transformer --size paper --output paper.jsonl
      shapetrace run my_model.py:build --n-layers 3 --no-bias
      shapetrace run my_model.py:Net --input 'x: float32[B=2, T=4, 8]'
      shapetrace run gpt --copies --ops
      shapetrace run hf:llama --B 2 --T 16 --set num_hidden_layers=2
      shapetrace run torch.nn:Linear --in-features 8 --out-features 4 \\
                     --input 'float32[2, 8]'

    TARGET is a name that `shapetrace models` lists, or a callable in a file or module. It returns a model,
    (model, args) or (model, args, kwargs). A model or its class will do, too. What the callable takes are further
    options: --n-layers 3 is n_layers=3; --bias is bias=True, --no-bias is bias=False.

    A model that comes without inputs is given one for each SPEC, `name: dtype[sizes]`; without a name they go by
    position. A size is a number or a letter: [B=2, T] is 2 and what --T says. `int64[2, 4] < 100` draws from 0 to 99;
    without a limit, integers stay below the rows of the smallest embedding in the model, or below 10.

    If the model raises, what it did until then is shown, then its own traceback, and the exit status is 2.
    """
    view = view_of(format, output, all, depth, width, copies)
    run_and_show(requested(context), view)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    target: Annotated[str, typer.Argument(metavar="TARGET", hidden=True, autocompletion=model_names)],
    update: Annotated[bool, typer.Option("--update", help="write FILE, unless it holds this trace")] = False,
    set: Changes = None,
    weightless: Weightless = None,
    device: Device = None,
    input: Inputs = None,
    seed: Seed = 0,
    axes: Axes = "",
    ops: Ops = False,
    materialise: Materialise = False,
) -> None:
    """Run a model and compare its trace with a file.

    \b
      shapetrace check traces/gpt.jsonl gpt --B 2 --T 4
      shapetrace check traces/net.jsonl net.py:build --n-layers 3
      shapetrace check --update traces/gpt.jsonl gpt --B 2 --T 4

    TARGET and its options, --B and the other letters among them, are those of `shapetrace run`. FILE holds what is the
    same on every machine: names, axes, shapes, roles; no strides, devices or versions.

    The exit status is 0 if nothing differs, 1 if something does, 2 if there was trouble, as that of diff.
    """
    from .check import Check, check

    words = tuple(context.obj[1:])
    raise typer.Exit(check(Check(file, requested(context), words, update)))


@app.command()
def show(
    file: Annotated[str, typer.Argument(metavar="FILE", hidden=True)],
    ops: RecordedOps = None,
    stats: RecordedStats = None,
    copies: Copies = False,
    all: All = False,
    depth: Depth = None,
    format: Shape = None,
    output: Output = None,
    width: Width = None,
) -> None:
    """Show a trace file; nothing is run.

    \b
      shapetrace show gpt.jsonl
      shapetrace show gpt.jsonl --format markdown --output gpt.md

    FILE is what `shapetrace run … --output FILE.jsonl` wrote, or `trace.save` in Python; or a pipe, or - for stdin.
    """
    view = view_of(format, output, all, depth, width, copies)
    emit(narrowed(read(file), ops=ops, stats=stats), view)


@app.command()
def models() -> None:
    """List the models that have a name, with their options.

    \b
      shapetrace models
      shapetrace run gpt --B 3

    A package adds its own as entry points of the group "shapetrace.models": builders, as `shapetrace run` takes them.
    """
    from .targets import registry

    for model in registry.summaries():
        options = textwrap.fill(" ".join(model.options), 80, initial_indent=" " * 13, subsequent_indent=" " * 13)
        say(f"{model.name:12} {model.line}\n{options}".rstrip())


app.command()(letters(diff))


# --- what the commands do ---------------------------------------------------------------------------------------------


def requested(context: typer.Context) -> Request:
    """What a command is to run, from its words."""
    from .targets import Request, Way

    asked = context.params
    for word in filter(None, (asked.get("file"), asked["target"])):
        if word.startswith("-"):
            takes = "FILE TARGET" if "file" in asked else "TARGET"
            raise TargetError(f"the target comes first, then its options: {context.command_path} {takes} {word} …")
    others = tuple(option.name for option in context.command.params if option.name and not option.name.isupper())
    given = tuple(
        name for name in others if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    )
    return Request(
        asked["target"],
        options=(*sizes(context), *context.args),
        inputs=tuple(asked["input"] or ()),
        seed=asked["seed"],
        ops=asked["ops"],
        axes=asked["axes"],
        others=others,
        given=given,
        materialise=asked["materialise"],
        stats=asked.get("stats", False),
        way=Way(tuple(asked["set"] or ()), asked["weightless"], asked["device"]),
    )


def run_and_show(request: Request, view: View) -> None:
    from .targets import Raised, record

    try:
        with aside():
            trace = record(request)
    except Raised as raised:
        if raised.partial is not None:
            partial = raised.partial()
            emit(partial, msgspec.structs.replace(view, format="tree", output=None) if view.output else view)
            if view.output is not None:
                emit(partial, view)
                raised.keeping = ""
        raise
    emit(trace, view)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status."""
    set_encoding()
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        status = app(words, prog_name="shapetrace", standalone_mode=False, obj=words)
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # typer's way out of a broken pipe, and of shell completion
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        hush()
        return 0
    except OSError as error:  # a disk that is full when typer prints the help
        if error.errno != errno.ENOSPC:
            raise
        hush()
        complain(f"shapetrace: the output cannot be written: {files.reason(error)}")
        return 2
    except (UsageError, ShapetraceError) as error:
        complain(explained(error))
        return 2


def explained(error: Any) -> str:
    """What is said of an error that is the user's, or of the user's code."""
    if isinstance(error, UsageError):
        usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""  # typer does not always know where it was
        command = error.ctx.command_path if error.ctx else "shapetrace"
        return f"shapetrace: {error.format_message()}\n{usage}Try '{command} --help' for help."
    if error.__cause__ is None:
        return f"shapetrace: {error}"
    from .targets import own_traceback

    return f"{own_traceback(error.__cause__)}\nshapetrace: {error}"
