"""A comparison in value as text: the first tensor that diverges, by how much and where, and what diverges after it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from rich.text import Text

from ..diff.divergence import Apart, Copied, Divergence, Extreme, Relation, ValuesDiff
from ..passes.expressions import SIGNS
from ..records import Record
from ..schema import line_of
from ..schema import part as part_of
from .cells import axes, cut, escape, line, sizes, width_of, wrap
from .output import output
from .style import Style
from .words import span

__all__ = ["values"]

MOST = 8
"""How many of the tensors that diverge later are shown, unless all are."""


def values(found: ValuesDiff, style: Style | None = None) -> str:
    style = style or Style()
    return output([*head(found, style.columns), *body(found, style), Text(total(found))], style)


def head(found: ValuesDiff, width: int) -> Iterator[Text]:
    first = max(len(escape(trace.target)) for trace in (found.before, found.after))
    for sign, style, trace in (("---", "red", found.before), ("+++", "green", found.after)):
        said = f"{escape(trace.target).ljust(first)}  {escape(trace.model)}"
        yield Text(f"{sign} {said}".rstrip(), style)
    for word, text in (("inputs", found.inputs), ("weights", found.weights)):
        for label, part in zip_longest([word], wrap(escape(text), width - 13), fillvalue=""):
            yield Text(f"    {label:7}  {part}", "dim")


def body(found: ValuesDiff, style: Style) -> Iterator[Text]:
    first = found.first
    if first is not None:
        for sign, part in zip_longest("!", wrap(f"{named(first)}  {form(first)}", style.columns - 4), fillvalue=" "):
            yield Text(f"{sign}   {part}", "bold red")
        for text in [*measured(first), *beside(found)]:
            yield from (Text(f"      {part}") for part in wrap(text, style.columns - 6))
    for text in [*doubts(found), *strange(found), *lone(found)]:
        yield from (Text(f"    {part}", "yellow") for part in wrap(text, style.columns - 4))
    later = found.diverging[1:]
    if later:
        yield Text("    after it")
        yield from rows(later if style.all else chosen(later), style.columns)
    if found.copied and style.all:
        yield Text("    weights")
        yield from (Text(cut([(f"      {escape(went(each))}", "")], style.columns)[0][0]) for each in found.copied)
    if found.within and (style.all or first is None):
        yield Text("    without effect")
        yield from rows(found.within if style.all else chosen(found.within), style.columns)


def chosen(later: tuple[Divergence, ...]) -> list[Divergence]:
    """Of many: what has a role first of all, in their order, and the last, which is the result."""
    likely = [each for each in later if each.before.role or each.before.call.kind == "module"] or list(later)
    return likely if len(likely) <= MOST else [*likely[: MOST - 1], likely[-1]]


def rows(found: Iterable[Divergence], width: int) -> Iterator[Text]:
    """One line each, by the names of before: its largest absolute difference."""
    cells = [(escape(called(each.before)), form(each), largest(each)) for each in found]
    first, second = (max(width_of([(cell[at], "")]) for cell in cells) for at in (0, 1))
    room = max(width - 6 - second - 14, 20)
    for name, shape, difference in cells:
        at = 6 + min(first, room) + 2
        yield line([(cut([(name, "")], room), 6), ([(shape, "dim")], at), ([(difference, "yellow")], at + second + 2)])


# --- one tensor -------------------------------------------------------------------------------------------------------


def named(each: Divergence) -> str:
    """Where it is before, and after where it is called otherwise there."""
    one, other = called(each.before), called(each.after)
    return escape(one if one == other else f"{one} → {other}")


def called(record: Record) -> str:
    """Its path and name, and its role; of a step without a name what made it."""
    name = record.name or record.call.name
    role = f" · {record.role}" if record.role and record.role != name else ""
    return ".".join(filter(None, (record.path, name))) + role


def form(each: Divergence) -> str:
    one, other = shape(each.before), shape(each.after)
    return one if one == other else f"{one} → {other}"


def shape(record: Record) -> str:
    return axes(record.tensor.axes, tight=True) or sizes(record.shape, tight=True)


def measured(each: Divergence) -> Iterator[str]:
    apart = each.apart
    if apart is None:
        one, other = sizes(each.before.shape, tight=True), sizes(each.after.shape, tight=True)
        yield f"the first tensor that diverges: its shape is {one} before and {other} after"
        return
    allowed = f"rtol {apart.tolerance.relative:g}, atol {apart.tolerance.absolute:g}"
    yield f"the first tensor that diverges: {apart.differing} of {apart.elements} elements, {allowed}"
    yield f"largest absolute difference  {where(apart.absolute)}"
    if apart.relative is not None:
        yield f"largest relative difference  {where(apart.relative)}"
    if apart.relation is not None:
        yield related(apart.relation, each.before)


def related(relation: Relation, before: Record) -> str:
    """How after is made of before: often it says what is wrong."""
    if relation.kind == "factor":
        return f"after is before times {number(relation.number)}"
    if relation.kind == "sum":
        return f"after is before and {number(relation.number)} more"
    if relation.kind == "order":
        is_one = relation.dim is not None and len(before.axes) > relation.dim
        axis = f"what lies along {escape(str(before.axes[relation.dim or 0]))}" if is_one else "all elements"
        return f"the same but for the order: {axis}, in other places"
    sides = {"before": ["before"], "after": ["after"]}.get(relation.side, ["before", "after"])
    return f"the same but for keys that a mask hides {' or '.join(f'only {side}' for side in sides)}"


def where(extreme: Extreme) -> str:
    index = ",".join(map(str, extreme.index))
    return f"{number(extreme.difference)} at [{index}]: {number(extreme.before, 7)} → {number(extreme.after, 7)}"


def number(value: complex | float, digits: int = 4) -> str:
    return f"{value:.{digits}g}"


def largest(each: Divergence) -> str:
    found: Apart | None = each.apart
    if found is None:
        return "another shape"
    return "NaN or inf" if math.isinf(found.absolute.difference) else number(found.absolute.difference)


# --- around it --------------------------------------------------------------------------------------------------------


def beside(found: ValuesDiff) -> Iterator[str]:
    """What stands on one side only just before the first that diverges: often it is why."""
    for side, word in ((0, "before"), (1, "after")):
        alone = [pair[side] for pair in found.alone]
        names = [f"{called(record)} {shape(record)}" for record in alone if record is not None]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield escape(f"just before it, only {word}: {', '.join(names[-3:])}{more}")


def doubts(found: ValuesDiff) -> Iterator[str]:
    """Weights of which two things say otherwise where they belong."""
    for against, word in DOUBTS.items():
        pairs = [went(each) for each in found.copied if each.against == against]
        if pairs:
            more = f" and {len(pairs) - 2} more" if len(pairs) > 2 else ""
            yield escape(f"{word}: {', '.join(pairs[:2])}{more}")


DOUBTS = {
    "use": "copied by what they are called, but used otherwise",
    "order": "copied by what is made with them, but one module has them in another order",
}


def went(each: Copied) -> str:
    sides = zip((each.before, each.after), each.rows, strict=True)
    one, other = (name if rows is None else f"{name}[{span(rows)}]" for name, rows in sides)
    return one if one == other else f"{one} → {other}"


def strange(found: ValuesDiff) -> Iterator[str]:
    """NaN wherever it starts, and inf if it is on one side only: in masked scores it is meant."""
    before, after = found.strange
    for word, one, other in (("NaN", before.nan, after.nan), ("inf", before.inf, after.inf)):
        if word == "inf" and (one is None) == (other is None):
            continue
        for side, record in (("before", one), ("after", other)):
            if record is not None:
                yield escape(f"{word} starts {side} at {called(record)}{written(record)}")


def lone(found: ValuesDiff) -> Iterator[str]:
    for word, records in zip(("before", "after"), found.lone, strict=True):
        if records:
            names = [f"{returned(record)} {shape(record)}" for record in records[:3]]
            more = f" and {len(records) - 3} more" if len(records) > 3 else ""
            yield escape(f"returned {word}, and compared with nothing: {', '.join(names)}{more}")


def returned(record: Record) -> str:
    """What a model gives, by its place in that: "output", "output[1]", "output.loss"."""
    return part_of("output", record.key)


def written(record: Record) -> str:
    """Of a tensor that was there before what wrote into it, and where."""
    if not record.is_changed:
        return ""
    line = line_of(record.call.source)
    return f", changed by {SIGNS.get(record.call.name, record.call.name)}{line and f' ({line})'}"


def total(found: ValuesDiff) -> str:
    counts = [(len(found.diverging), "diverge"), (len(found.within), "differ without effect beyond the tolerance")]
    said = [f"{count} {word}" for count, word in counts if count]
    uncompared = [f"{found.uncompared} not comparable"] if found.uncompared else []
    return " · ".join([*said, f"{found.same} same", *uncompared])
