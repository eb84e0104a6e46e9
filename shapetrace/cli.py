"""The command line. What a user can get wrong ends in one message on stderr and exit status 2."""

from __future__ import annotations

import errno
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from . import __version__, files
from .errors import ShapetraceError, TargetError
from .streams import complain, hush, say, set_encoding
from .view import View, emit, view_of

if TYPE_CHECKING:
    from .targets import Request

__all__ = ["app", "main"]

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

UsageError: Any = typer.BadParameter.__base__
"""Of typer itself or of click, going by the version of typer."""

# --- options: each is read here; targets and renderers are imported when there is something for them to do ------------


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


def size(letter: str, axis: str) -> Any:
    return typer.Option(f"--{letter}", metavar="N", help=axis)


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
    """
    if version:
        say(f"shapetrace {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", hidden=True, autocompletion=model_names)],
    B: Annotated[str | None, size("B", "batch")] = None,
    T: Annotated[str | None, size("T", "length; of the target, if there is a source")] = None,
    S: Annotated[str | None, size("S", "length of the source")] = None,
    C: Annotated[str | None, size("C", "model width")] = None,
    H: Annotated[str | None, size("H", "heads")] = None,
    F: Annotated[str | None, size("F", "feed-forward width")] = None,
    V: Annotated[str | None, size("V", "vocabulary")] = None,
    L: Annotated[str | None, size("L", "layers")] = None,
    G: Annotated[str | None, size("G", "key/value heads")] = None,
    set: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=VALUE", help="of the configuration of a model of hf:")
    ] = None,
    weightless: Annotated[
        bool | None,
        typer.Option("--weightless/--no-weightless", help="without memory for weights; hf: is, if it can be"),
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="where it runs: cpu, cuda")] = None,
    input: Annotated[list[str] | None, typer.Option(metavar="SPEC", help="a tensor to call the model with")] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", parser=number(0, 2**64 - 1), help="of the random numbers; 0 if not given", show_default=False
        ),
    ] = 0,
    axes: Annotated[
        str, typer.Option(metavar="SIZES", help="sizes of axes that cannot be told: 'C=768 H=12'", show_default=False)
    ] = "",
    ops: Annotated[bool, typer.Option("--ops", help="show the aten ops that each function runs, too")] = False,
    materialise: Annotated[
        bool, typer.Option("--materialise", help="run fused attention written out: its scores and weights are real")
    ] = False,
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
    from .targets import Request, Way

    if target.startswith("-"):
        raise TargetError(f"the target comes first, then its options: shapetrace run TARGET {target} …")
    view = view_of(format, output, all, depth, width, copies)
    letters = (f"--{name}={text}" for name, text in context.params.items() if name.isupper() and text is not None)
    others = tuple(option.name for option in context.command.params if option.name and not option.name.isupper())
    given = tuple(
        name for name in others if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    )
    options, specs = (*letters, *context.args), tuple(input or ())
    way = Way(tuple(set or ()), weightless, device)
    run_and_show(Request(target, options, specs, seed, ops, axes, others, given, materialise, way), view)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", hidden=True)],
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

    FILE is what `shapetrace run … --output FILE.jsonl` wrote, or `trace.save` in Python.
    """
    view = view_of(format, output, all, depth, width, copies)
    emit(files.load(file), view)


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


# --- what the commands do ---------------------------------------------------------------------------------------------


def run_and_show(request: Request, view: View) -> None:
    from .targets import Raised, record

    warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch says so where there is none; none is needed
    try:
        with redirect_stdout(sys.stderr):  # what the user's code prints is not the record
            trace = record(request)
    except Raised as raised:
        if raised.partial is not None:
            emit(raised.partial, msgspec.structs.replace(view, format="tree", output=None) if view.output else view)
            if view.output is not None:
                emit(raised.partial, view)
        raise
    emit(trace, view)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status."""
    set_encoding()
    try:
        status = app(arguments, prog_name="shapetrace", standalone_mode=False)
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
