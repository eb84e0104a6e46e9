"""The list of copies, largest first: what was copied, by what, where, and why that was necessary."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from rich.text import Text

from ..files import FORMAT, encode
from ..passes.accounts import nbytes
from ..passes.copies import Copy, copies, totals
from ..schema import Trace, line_of
from .cells import Piece, cut, cut_front, escape, line, width_of, wrap
from .columns import GAP, longest
from .head import head
from .markdown import cells as grid_row
from .markdown import code, opening, plain
from .output import output
from .style import Style
from .summary import said

__all__ = ["copy_list"]

TITLES = ("bytes", "", "copy", "made by", "in")
BELOW = ("why", "line")

HIDDEN = "copies inside of functions, as matmul makes them, are seen with --ops"
NONE = "nothing was copied"
UNKNOWN = "what was copied is not known: the trace has no functions, or is portable and has no storages"


class Group(msgspec.Struct, frozen=True):
    """Copies that are the same but for the index of the layer. `path` has "*" where they differ."""

    copy: Copy
    count: int
    path: str


def copy_list(trace: Trace, style: Style, format: str) -> str:
    """In one of `FORMATS`; the table is the text. JSON has each copy, the others those of equal layers once."""
    found = sorted(copies(trace), key=lambda copy: -copy.nbytes)
    if format == "json":
        header = msgspec.to_builtins(msgspec.structs.replace(trace, calls=()))
        return encode(
            {"shapetrace": FORMAT, **header, "memory": totals(trace), "copies": [*map(fields, found)]}
        ).decode()
    groups = [Group(copy, 1, copy.path) for copy in found] if style.all else grouped(found)
    has_ops = any(call.kind == "op" for call in trace.calls)
    last = [] if has_ops or totals(trace) is None else [HIDDEN]
    if format == "markdown":
        return markdown(trace, groups, last)
    width = style.columns
    lines = [Text(part) for part in wrap(escape(summed(trace)), width)]
    hints = [Text(part, "dim") for text in last for part in wrap(text, width)]
    return output([*head(trace, width), *lines, *rows(groups, width), *hints], style)


def fields(copy: Copy) -> dict[str, object]:
    return {
        "name": copy.name,
        "path": copy.path,
        "nbytes": copy.nbytes,
        "of": copy.memory.of,
        "why": copy.memory.why,
        "by": copy.by,
        "inside": copy.inside,
        "source": copy.source,
        "since": copy.since,
        "line": copy.line,
    }


def summed(trace: Trace) -> str:
    found = totals(trace)
    return UNKNOWN if found is None else said(found) or NONE


def grouped(found: Sequence[Copy]) -> list[Group]:
    alike: dict[object, list[Copy]] = {}
    for copy in found:
        pattern = re.sub(r"(?<![^.])\d+(?![^.])", "*", copy.path)
        alike.setdefault((pattern, msgspec.structs.replace(copy, path="")), []).append(copy)
    return [Group(copies[0], len(copies), common([copy.path for copy in copies])) for copies in alike.values()]


def common(paths: Sequence[str]) -> str:
    """Paths of the same form as one: "layers.0.attn" and "layers.1.attn" are "layers.*.attn"."""
    columns = zip(*(path.split(".") for path in paths), strict=True)
    return ".".join(words[0] if len(set(words)) == 1 else "*" for words in columns)


def rows(groups: Sequence[Group], width: int) -> list[Text]:
    """A line each where there is room for the reason as well, else the reason below."""
    if not groups:
        return []
    grid = [[*front(group), *back(group.copy)] for group in groups]
    titles: list[list[Piece]] = [[(title, "dim")] for title in (*TITLES, *BELOW)]
    widths = [longest(map(width_of, column), title) for column, title in zip(zip(*grid), (*TITLES, *BELOW))]  # noqa: B905
    if sum(size + GAP for size in widths if size) - GAP <= width:
        return [line(list(zip(cells, starts(widths), strict=True))) for cells in (titles, *grid)]
    least = len(TITLES)
    widths = shared(widths[:least], width)
    at = starts(widths)
    lines = [placed(titles[:least], widths, at)]
    for cells in grid:
        lines.append(placed(cells[:least], widths, at))
        why, where = ("".join(text for text, _ in cell) for cell in cells[least:])
        below = wrap(" · ".join(filter(None, (why, where))), width - at[2])
        lines += [line([([(text, "yellow" if why else "dim")], at[2])]) for text in below]
    return lines


def shared(widths: list[int], width: int) -> list[int]:
    """The columns of a first line: module, name and function give way to fit into `width`."""
    for place in (4, 2, 3):
        over = sum(size + GAP for size in widths if size) - GAP - width
        widths[place] = min(widths[place], max(widths[place] - over, 8))
    return widths


def starts(widths: Sequence[int]) -> list[int]:
    at = [0]
    for size in widths[:-1]:
        at.append(at[-1] + (size + GAP if size else 0))
    return at


def placed(cells: list[list[Piece]], widths: Sequence[int], at: Sequence[int]) -> Text:
    """The first columns in line; of a module's path the end is what stays."""
    fitted = [
        (cut_front if place == 4 else cut)(pieces, size) if pieces else []
        for place, (pieces, size) in enumerate(zip(cells, widths, strict=True))
    ]
    return line(list(zip(fitted, at, strict=True)))


def front(group: Group) -> list[list[Piece]]:
    copy = group.copy
    times = f"×{group.count}" if group.count > 1 else ""
    return [
        [(nbytes(copy.nbytes), "bold yellow")],
        [(times, "dim")],
        [(escape(copy.name), "bold")],
        [(escape(copy.made_by), "dim")],
        [(escape(group.path) or "the model", "dim")],
    ]


def back(copy: Copy) -> list[list[Piece]]:
    return [[(escape(why(copy)), "yellow")], [(escape(line_of(copy.source)), "dim")]]


def why(copy: Copy) -> str:
    """Why it was made; and where it was made necessary, if that is on another line."""
    if copy.line is None or copy.source is None or copy.line == copy.source or not copy.is_elsewhere:
        return copy.why
    if copy.line[0] == copy.source[0]:
        return f"{copy.why} in line {copy.line[1]}"
    return f"{copy.why} in {line_of(copy.line)}"


def markdown(trace: Trace, groups: Sequence[Group], last: Sequence[str]) -> str:
    titles = ("bytes", "times", "copy", "made by", "in", *BELOW)
    lines = [grid_row(titles), grid_row(["---"] * len(titles)), *(grid_row(shown(group)) for group in groups)]
    table = ["\n".join(lines)] if groups else []
    return "\n\n".join([*opening(trace), plain(summed(trace)), *table, *map(plain, last)])


def shown(group: Group) -> list[str]:
    copy = group.copy
    made_by, module = code(copy.made_by), code(group.path) or "the model"
    return [
        nbytes(copy.nbytes),
        str(group.count),
        code(copy.name),
        made_by,
        module,
        plain(why(copy)),
        code(line_of(copy.source)),
    ]
