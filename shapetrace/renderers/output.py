"""Lines of rich text as what is handed to a terminal, a file or a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console
from rich.text import Text

from .style import Style

__all__ = ["html", "output"]

PRE = '<pre style="line-height: normal; white-space: pre; overflow-x: auto">{code}</pre>'


def output(lines: Iterable[Text], style: Style) -> str:
    """Lines without spaces at their ends; with colour codes only if the style is coloured."""
    text = joined(lines)
    return printed(text).export_text(styles=True).rstrip("\n") if style.is_colored else text.plain


def html(lines: Iterable[Text]) -> str:
    """A <pre> in the colours of a terminal."""
    return printed(joined(lines)).export_html(inline_styles=True, code_format=PRE)


def joined(lines: Iterable[Text]) -> Text:
    whole = list(lines)
    for line in whole:
        line.rstrip()
    return Text("\n").join(whole)


def printed(text: Text) -> Console:
    """A console that has recorded `text`, whatever the terminal, the notebook and the environment are."""
    console = Console(
        file=StringIO(),
        record=True,
        force_terminal=True,
        force_jupyter=False,
        legacy_windows=False,
        color_system="truecolor",
        no_color=False,
        _environ={},
    )
    console.print(text, soft_wrap=True)
    return console
