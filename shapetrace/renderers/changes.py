"""A diff as text: what is the same around the changes, and a sign before each of these.

+  there only after      -  there only before      ~  changed      ↕  moved
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.text import Text

from ..diff import Change, Diff, Item, Line
from ..passes.expressions import SIGNS
from .cells import Piece, axes, cut, escape, line, sizes, width_of, wrap
from .head import lettered, packed
from .output import output
from .style import Style
from .visible import Shown, visible
from .words import says

__all__ = ["CONTEXT", "changes"]

CONTEXT = 1
"""How many lines that are the same are shown before and after a change."""

MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow"), "moved": ("↕", "magenta")}

INDENT = 4
GAP = 2
RIGHT = 64
"""What the right column is left with, where that is less than half."""


def changes(diff: Diff, style: Style | None = None, *, context: int = CONTEXT) -> str:
    """The text of a diff; of one without changes no more than its header and what is the same."""
    style = style or Style()
    width = style.columns
    found = [
        *head(diff, width),
        *body(diff, width, None if style.all else context),
        *map(Text, flowed(total(diff), width, " · ")),
    ]
    return output(found, style)


# --- above and below --------------------------------------------------------------------------------------------------


def head(diff: Diff, width: int) -> Iterator[Text]:
    """Both sides, what of their sizes is the same, and the sizes that differ: with a sign if they make a difference."""
    before, after = diff.before, diff.after
    first = max(width_of([(escape(trace.target), "")]) for trace in (before, after))
    for sign, style, trace in (("---", "red", before), ("+++", "green", after)):
        title = f"{sign} {escape(trace.target)}"
        title += f"{' ' * (first + 4 - width_of([(title, '')]))}  {escape(trace.model)}"
        parts = [[(title.rstrip(), style)], [(escape(trace.description), style)]]
        whole, *more = packed([part for part in parts if part[0][0]], width - INDENT)
        yield from (whole, *(Text(" " * INDENT).append_text(text) for text in more))
    same = {letter: size for letter, size in before.sizes.items() if after.sizes.get(letter) == size}
    where = [both_known(before.dtype, after.dtype), both_known(before.device, after.device)]
    is_one = not any("→" in word for word in where)
    there = " ".join(filter(None, where))
    parts = lettered(msgspec.structs.replace(before, sizes=same), width - INDENT)
    parts += [[(there, "dim")]] if is_one and there else []
    if parts:
        yield from (Text(" " * INDENT).append_text(text) for text in packed(parts, width - INDENT))
    sign = f"{'~' if diff else ''}{' ' * INDENT}"[:INDENT]
    for each in diff.sizes:
        style = "yellow" if each.shapes else "dim"
        what = f"{sign}{escape(each.letter)} {both_told(each.before, each.after)}"
        yield Text.assemble((what, style), f": explains {plural(each.shapes, 'shape')}" if each.shapes else "")
    if diff.unnamed:
        one, other = diff.unnamed[0]
        name = escape(".".join(filter(None, (one.path, one.name or one.call.name))))
        count = plural(len(diff.unnamed), "tensor")
        said = f"{count} with a name of an axis on one side only: first {name} {form(one)} → {form(other)}"
        yield from (Text(f"{sign}{words}", "yellow") for words in wrap(said, width - INDENT))
    if not is_one:
        yield Text(f"{sign}{there}", "yellow" if diff else "dim")


def both_told(before: int | None, after: int | None) -> str:
    """The sizes of a letter; on one side there may be no axis that is called by it."""
    if before is None or after is None:
        return f"{after}, only after" if before is None else f"{before}, only before"
    return f"{before} → {after}"


def both_known(one: str, other: str) -> str:
    """What is said of both sides, as one where one does not say it: a portable trace names no device."""
    return both(escape(one or other), escape(other or one))


def total(diff: Diff) -> list[str]:
    """How many there are of each: "2 moved", "1 removed", "38 same"."""
    kinds = [change.kind for change in diff.changes]
    counts = [f"{kinds.count(kind)} {kind}" for kind in ("moved", "added", "removed", "changed") if kind in kinds]
    if not counts and diff:
        told = {"sizes": diff.explained, "names of axes": diff.unnamed}
        counts = [f"{' and '.join(word for word, places in told.items() if places)} differ, nothing else"]
    renamed = f", {diff.renamed} of them under another path" if diff.renamed else ""
    return [*counts, f"{diff.same} same{renamed}"]


# --- between ----------------------------------------------------------------------------------------------------------


def body(diff: Diff, width: int, context: int | None) -> Iterator[Text]:
    chosen = list(visible(diff.lines, context))
    names = [[("", "")] if each.line is None else name_of(each.line, each.depth) for each in chosen]
    details = [details_of(each) for each in chosen]
    longest = max((width_of(name) for name, said in zip(names, details, strict=True) if said), default=0)
    column = min(longest + GAP, max(width // 2, width - RIGHT))
    for each, name, said in zip(chosen, names, details, strict=True):
        if each.line is None:
            yield line([([(f"{' ' * INDENT}{'  ' * each.depth}…", "dim")], 0)])
            continue
        after = width_of(name) + GAP
        at = column if after <= column or after + width_of([(part, "") for part in said[:1]]) > width else after
        style = "dim" if each.line.change is None else ""
        first, *more = flowed(said, width - at) or [""]
        yield line([(cut(name, at - GAP if said else width), 0), ([(first, style)], at)])
        for text in more:
            yield line([([(text, style)], at)])


def flowed(parts: Sequence[str], width: int, between: str = "   ") -> list[str]:
    """Parts side by side, on as many lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and width_of([(lines[-1], "")]) + len(between) + width_of([(part, "")]) <= width:
            lines[-1] += f"{between}{part}"
        else:
            lines += wrap(part, width)
    return lines


# --- one line ---------------------------------------------------------------------------------------------------------


def name_of(each: Line, depth: int) -> list[Piece]:
    """The sign, and what it is about: its name, what it does, what made it."""
    change = each.change
    sign, style = MARKS[change.kind] if change is not None else (" ", "")
    one, other = each.before or each.after, each.after or each.before
    assert one is not None
    assert other is not None
    name = both(one.name or other.name, other.name or one.name)
    role = "" if change is not None and "role" in change.fields else other.role or one.role
    maker = both(made_by(one), made_by(other))
    if not name:
        name, role, maker = (role, "", maker) if role else (maker, "", "")
    known = role == other.name or (len(role) > 1 and says(f"{name} {maker if one.call.kind == 'module' else ''}", role))
    does = f" · {escape(role)}" if role and not known else ""
    bold = "bold " if change is not None or each.is_scope else ""
    maker = f"  {escape(maker)}" if maker else ""
    kind, mark = (maker, "dim"), (does, "dim" if each.is_scope else "magenta")
    return [
        (f"{sign}{' ' * (INDENT - 1)}{'  ' * depth}", style),
        (escape(name), f"{bold}{style}".strip()),
        *((kind, mark) if each.is_scope else (mark, kind)),
    ]


def both(one: str, other: str) -> str:
    return one if one == other else f"{one} → {other}"


def made_by(item: Item) -> str:
    if item.place.part == "inputs":
        return "input" if item.call.kind == "module" else "parameter"
    name = item.call.name
    return "" if item.name == name else SIGNS.get(name, name)


def details_of(each: Shown) -> list[str]:
    """What differs, and what there is to know of it."""
    found = each.line
    if found is None:
        return []
    change = found.change
    details = [] if change is None else list(said(change))
    if change is None or "axes" not in change.fields:
        item = found.after or found.before
        known = form(item) if item is not None and not found.is_scope else ""
        details = [*([known] if known else []), *details]
    if each.held:
        details.append(f"{plural(each.held, 'tensor')}, same")
    if found.blocks:
        details.append(repeated(found))
    return [escape(text) for text in details]


def form(item: Item) -> str:
    """Its axes, or else its shape; nothing of a module that is a scope."""
    if item.tensor is None:
        return ""
    return axes(item.tensor.axes, tight=True) or sizes(item.tensor.shape, tight=True)


def said(change: Change) -> Iterator[str]:
    for name, (before, after) in change.fields.items():
        if name == "axes":
            yield f"{axes(as_axes(before), tight=True)} → {axes(as_axes(after), tight=True)}"
        elif name == "order":
            yield f"{before} → {after}"
        elif name == "layers":
            yield f"{before} → {after} identical blocks"
        elif name == "made":
            yield f"{'made' if before else 'not materialised'} → {'made' if after else 'not materialised'}"
        elif name == "tied":
            yield " → ".join(f"tied to {each}" if each else "not tied" for each in (before, after))
        elif name == "class":
            continue
        else:
            yield f"{'' if name == 'shape' else name + ' '}{shown(before)} → {shown(after)}"
    item = change.before or change.after
    if item is not None and item.is_shell:
        yield "what is in it is paired"
    elif item is not None and change.kind in ("added", "removed") and item.is_scope:
        forms = dict.fromkeys(axes(each.axes, tight=True) or sizes(each.shape, tight=True) for each in change.tensors)
        yield f"{plural(len(change.covers), 'tensor')}: {' '.join(forms)}"
    if change.steps > 1:
        yield f"and {change.steps - 1} more {'step' if change.steps == 2 else 'steps'}"


def as_axes(value: object) -> tuple[str | int, ...]:
    return value if isinstance(value, tuple) else ()


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return sizes(value, tight=True)
    return "none" if value is None else str(value)


def repeated(found: Line) -> str:
    """Which other blocks this one stands for."""
    paths = [after if found.after is not None else before for before, after in found.blocks]
    if len(paths) == 1:
        return f"and {paths[0]}"
    return f"and {len(paths)} more, to {paths[-1]}"


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
