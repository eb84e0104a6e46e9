"""A diff as text: what is the same around the changes, and a sign before each of these.

+  there only after      -  there only before      ~  changed      ↕  moved
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.text import Text

from ..diff import Change, Diff, Item, Line
from ..passes.expressions import SIGNS
from ..schema import Trace
from .cells import Piece, axes, cut, escape, line, sizes, width_of, wrap
from .head import letters, packed
from .output import output
from .style import Style

__all__ = ["CONTEXT", "changes"]

CONTEXT = 1
"""How many lines that are the same are shown before and after a change."""

MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow"), "moved": ("↕", "magenta")}

GAP = 2
LEAST = 24
"""What the right column is left with."""


class Shown(msgspec.Struct, frozen=True):
    """A line that is shown; without one, so many that are not.

    held   of a module that is not opened how many tensors are in it
    """

    line: Line | None
    depth: int
    held: int = 0


def changes(diff: Diff, style: Style | None = None, *, context: int = CONTEXT) -> str:
    """The text of a diff; of one without changes no more than its header and what is the same."""
    style = style or Style()
    width = style.columns
    found = [*head(diff, width), *body(diff, width, None if style.all else context), Text(total(diff))]
    return output(found, style)


# --- above and below --------------------------------------------------------------------------------------------------


def head(diff: Diff, width: int) -> Iterator[Text]:
    before, after = diff.before, diff.after
    first = max(width_of([(escape(trace.target), "")]) for trace in (before, after))
    for sign, style, trace in (("---", "red", before), ("+++", "green", after)):
        title = f"{escape(trace.target).ljust(first)}  {escape(trace.model)}"
        said = [f"{sign} {title.rstrip()}", escape(trace.description)]
        yield from packed([[(part, style)] for part in said if part], width)
    same = {letter: size for letter, size in before.sizes.items() if after.sizes.get(letter) == size}
    where = {" ".join(word for word in (trace.dtype, trace.device) if word) for trace in (before, after)}
    parts = [[(letters(msgspec.structs.replace(before, sizes=same)), "cyan")]] if same else []
    parts += [[(escape(text), "dim")] for text in where if len(where) == 1 and text]
    if parts:
        yield from (Text("    ").append_text(text) for text in packed(parts, width - 4))
    for each in diff.sizes:
        what = f"{each.letter} {shown(each.before)} → {shown(each.after)}"
        why = f": explains {plural(each.shapes, 'shape')}" if each.shapes else ""
        yield Text.assemble((f"~   {escape(what)}", "yellow" if each.shapes else "cyan"), (why, ""))
    if len(where) > 1:
        yield Text(f"~   {' → '.join(escape(where_of(trace)) for trace in (before, after))}", "yellow")


def where_of(trace: Trace) -> str:
    return " ".join(word for word in (trace.dtype, trace.device) if word)


def total(diff: Diff) -> str:
    """ "2 moved · 1 removed · 38 same" """
    kinds = [change.kind for change in diff.changes]
    counts = [f"{kinds.count(kind)} {kind}" for kind in ("moved", "added", "removed", "changed") if kind in kinds]
    if not counts and diff:
        counts = ["sizes differ, nothing else"]
    return " · ".join([*counts, f"{diff.same} same"])


# --- between ----------------------------------------------------------------------------------------------------------


def body(diff: Diff, width: int, context: int | None) -> Iterator[Text]:
    chosen = list(visible(diff.lines, context))
    names = [name_of(each.line, each.depth) if each.line is not None else [] for each in chosen]
    longest = max((width_of(name) for each, name in zip(chosen, names, strict=True) if details_of(each)), default=0)
    column = min(longest + GAP, max(width // 2, width - LEAST - 40))
    for each, name in zip(chosen, names, strict=True):
        if each.line is None:
            yield line([([(f"{'  ' * (each.depth + 2)}…", "dim")], 0)])
            continue
        details = details_of(each)
        overflows = width_of(name) >= column
        if not details or (overflows and width_of(name) + GAP + width_of([(details[0], "")]) <= width):
            at = max(column, width_of(name) + GAP)
            name = cut(name, width)
        else:
            at, name = column, cut(name, column - GAP)
        style = "dim" if each.line.change is None else ""
        packed_details = flowed(details, width - at)
        first, *more = packed_details or [""]
        yield line([(name, 0), ([(first, style)], at)])
        for text in more:
            yield line([([(text, style)], at)])


def flowed(parts: Sequence[str], width: int) -> list[str]:
    """Parts three columns apart, on as many lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and width_of([(lines[-1], "")]) + 3 + width_of([(part, "")]) <= width:
            lines[-1] += f"   {part}"
        else:
            lines += wrap(part, width)
    return lines


def visible(lines: Sequence[Line], context: int | None) -> Iterator[Shown]:
    """All lines for None; else those of changes with some around them, below the modules that they are in."""
    if context is None:
        yield from (Shown(each, each.depth) for each in lines)
        return
    held, has_change = [0] * len(lines), [False] * len(lines)
    open_: list[int] = []
    siblings: dict[int, list[int]] = {-1: []}
    for index, each in enumerate(lines):
        while open_ and lines[open_[-1]].depth >= each.depth:
            open_.pop()
        siblings.setdefault(open_[-1] if open_ else -1, []).append(index)
        for parent in open_:
            held[parent] += not each.is_scope
            has_change[parent] |= each.change is not None
        open_.append(index)
    wanted: set[int] = set()
    for group in siblings.values():
        marks = [place for place, index in enumerate(group) if lines[index].change is not None or has_change[index]]
        for mark in marks:
            reach = context if lines[group[mark]].change is not None else 0
            wanted.update(group[max(0, mark - reach) : mark + reach + 1])
    gap: int | None = None
    hidden_depth = -1
    for index, each in enumerate(lines):
        if hidden_depth >= 0 and each.depth > hidden_depth:
            continue
        hidden_depth = -1
        if index not in wanted:
            if gap is None:
                gap = each.depth
            hidden_depth = each.depth
            continue
        if gap is not None:
            yield Shown(None, gap)
            gap = None
        is_closed = each.is_scope and not has_change[index]
        yield Shown(each, each.depth, held[index] if is_closed else 0)
        if is_closed:
            hidden_depth = each.depth
    if gap is not None and wanted:
        yield Shown(None, gap)


# --- one line ---------------------------------------------------------------------------------------------------------


def name_of(each: Line, depth: int) -> list[Piece]:
    """The sign, and what it is about: its name, what it does, what made it."""
    change = each.change
    sign, style = MARKS[change.kind] if change is not None else (" ", "")
    before, after = each.before or each.after, each.after or each.before
    assert before is not None
    assert after is not None
    role = after.role if not (change and "role" in change.fields) else ""
    names = both(label(before), label(after))
    maker = both(made_by(before), made_by(after)) if change is None or change.kind != "moved" else made_by(after)
    bold = "bold " if change is not None or each.is_scope else ""
    return [
        (f"{sign}   {'  ' * depth}", style),
        (escape(names), f"{bold}{style}".strip()),
        (f" · {escape(role)}" if role and role not in (label(after), names) else "", "magenta"),
        (f"  {escape(maker)}" if maker and maker != names else "", "dim"),
    ]


def both(one: str, other: str) -> str:
    return one if one == other else f"{one or '·'} → {other or '·'}"


def label(item: Item) -> str:
    """Its name; of a step without one what made it."""
    return item.name or item.role or SIGNS.get(item.call.name, item.call.name)


def made_by(item: Item) -> str:
    if item.place.part == "inputs":
        return "input" if item.call.kind == "module" else "parameter"
    name = item.call.name
    return "" if not item.name and not item.role else SIGNS.get(name, name)


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
        elif name == "class":
            continue
        else:
            yield f"{'' if name == 'shape' else name + ' '}{shown(before)} → {shown(after)}"
    item = change.before or change.after
    if item is not None and item.is_shell:
        yield "what is in it is paired"
    elif item is not None and change.kind in ("added", "removed") and item.is_scope:
        yield plural(len(change.covers), "tensor")
    if change.steps > 1:
        yield f"and {plural(change.steps - 1, 'step')} beside it"


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
