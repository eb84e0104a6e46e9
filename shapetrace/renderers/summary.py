"""What stands below the tensors: the bytes that the forward took, and those of them that it copied, by what."""

from __future__ import annotations

from rich.text import Text

from ..passes.accounts import nbytes
from ..passes.copies import Totals, totals
from ..schema import Trace
from .cells import escape, wrap

__all__ = ["said", "summary"]


def summary(trace: Trace, width: int) -> list[Text]:
    """As many lines as it needs; none where nothing was copied, or nothing is known of memory."""
    text = said(totals(trace))
    if not text:
        return []
    first, *more = wrap(escape(text), width - 2)
    return [Text(first, "dim"), *(Text(f"  {rest}", "dim") for rest in more)]


def said(found: Totals | None) -> str:
    """ "9.6 kB in activations · 3 copies, 1.5 kB: contiguous 2, reshape 1"; nothing where nothing was copied."""
    if found is None or not found.count:
        return ""
    by = ", ".join(f"{name} {count}" for name, count in found.by.items())
    copied = f"{found.count} {'copy' if found.count == 1 else 'copies'}, {nbytes(found.copied)}: {by}"
    return f"{nbytes(found.activations)} in activations · {copied}"
