"""What stands above the tensors: what was run, at which sizes, and what a reader must know to believe the rest."""

from __future__ import annotations

from rich.text import Text

from ..letters import ORDER
from ..passes.diagnosis import diagnosis
from ..schema import Trace
from .cells import Piece, cut, escape, line, width_of, wrap

__all__ = ["does_of", "head", "lettered", "letters", "named", "packed"]


def head(trace: Trace, width: int) -> list[Text]:
    """As few lines as the width allows, then the notes, and the error with what is wrong."""
    said = [line for note in trace.notes for line in remark(f"note: {note}", width, "dim")]
    if trace.error is not None:
        said += remark(f"failed: {trace.error}", width, "bold red")
        if why := diagnosis(trace):
            said += remark(f"why: {why}", width, "")
    return [*packed(parts(trace, width), width), *said]


def parts(trace: Trace, width: int) -> list[list[Piece]]:
    """What the first lines are made of: name, description, target, sizes, dtype and device."""
    name, *target = named(trace)
    description = escape(trace.description)
    does = does_of(trace)
    title: list[Piece] = [(name, "bold"), (f" · {escape(does)}" if does else "", "dim")]
    whole: list[Piece] = [*title, (f"  {description}" if description else "", "")]
    found = [whole] if width_of(whole) <= width else [title, *([(text, "")] for text in wrap(description, width))]
    found += [[(target[0], "dim")]] if target else []
    found += lettered(trace, width)
    where = " ".join(escape(word) for word in (trace.dtype, trace.device, "weightless" * trace.weightless) if word)
    return [*found, [(where, "dim")]] if where else found


def does_of(trace: Trace) -> str:
    """What the model itself does, if it is no more than a part of a Transformer: "self-attention"."""
    return next((call.role or "" for call in trace.calls[:1] if call.path == ""), "")


def remark(text: str, width: int, style: str) -> list[Text]:
    first, *more = wrap(escape(text), width - 2)
    return [Text(first, style), *(Text(f"  {rest}", style) for rest in more)]


def named(trace: Trace) -> list[str]:
    """The class of the model, and the target where it says more than that."""
    target, model = escape(trace.target), escape(trace.model)
    if not model or model.casefold() == target.casefold():
        return [model or target]
    return [model, target]


def lettered(trace: Trace, width: int) -> list[list[Piece]]:
    """The letters with their sizes, none of them cut."""
    return [[(text, "cyan")] for text in wrap(letters(trace), width)] if trace.sizes else []


def letters(trace: Trace) -> str:
    order = {letter: place for place, letter in enumerate(ORDER)}
    known = sorted(trace.sizes, key=lambda letter: (order.get(letter, len(ORDER)), letter))
    return " ".join(f"{escape(letter)}={trace.sizes[letter]}" for letter in known)


def packed(parts: list[list[Piece]], width: int) -> list[Text]:
    """Parts side by side while they fit, three columns apart."""
    lines: list[list[tuple[list[Piece], int]]] = [[]]
    at = 0
    for part in parts:
        if lines[-1] and at + 3 + width_of(part) > width:
            lines.append([])
        start = at + 3 if lines[-1] else 0
        part = cut(part, width - start)
        lines[-1].append((part, start))
        at = start + width_of(part)
    return [line(cells) for cells in lines]
