"""How to show a trace."""

from __future__ import annotations

import os
import shutil
import sys

import msgspec

__all__ = ["Style"]

NARROWEST = 40
"""Below this a tree cannot be read; a smaller width is taken for this one."""


class Style(msgspec.Struct, frozen=True):
    """What a renderer is asked for.

    width   in columns; None for the terminal's, or 80 where there is none
    color   None for colours on a terminal, unless the environment has NO_COLOR
    all     every call, also unnamed steps, masks and blocks that are identical
    depth   how many levels of modules are opened; None for all
    """

    width: int | None = None
    color: bool | None = None
    all: bool = False
    depth: int | None = None

    @property
    def columns(self) -> int:
        if self.width is not None:
            return max(self.width, NARROWEST)
        return max(shutil.get_terminal_size().columns, NARROWEST) if on_terminal() else 80

    @property
    def is_colored(self) -> bool:
        if self.color is not None:
            return self.color
        return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
