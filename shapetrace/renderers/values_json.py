"""A comparison in value as one JSON object, for other programs.

    {"before": {"target": "gpt", …}, "after": {…}, "inputs": "the same",
     "weights": {"said": "2 copied, 1 by what is made with them", "pairs": [
        {"before": "attn.k_proj.weight", "after": "att.qkv.weight", "rows": [null, "16:32"], "by": "use",
         "against": null}, …]},
     "same": 3, "uncompared": 0,
     "diverging": [
        {"before": {"path": "blocks.0.attention", "name": "scores", "by": "truediv", "role": "scores",
                    "axes": ["B", "H", "T", "T"], "shape": [2, 2, 4, 4]},
         "after": {…},
         "apart": {"elements": 64, "differing": 64, "tolerance": {"relative": 1.3e-06, "absolute": 1e-05},
                   "absolute": {"difference": 1.5, "index": [0, 0, 1, 0], "before": 0.5, "after": 2.0},
                   "relative": {…},
                   "relation": {"kind": "factor", "side": "", "number": 4.0, "dim": null}}}, …],
     "within": […], "alone": [[{…}, null], …],
     "strange": [{"nan": null, "inf": {…}}, {…}], "lone": [[], [{…}]]}

"pairs" of "weights" tell which weight of before went to which of after when they were copied: which "rows" of either,
null for all; by "name", by "use" (what is made with both) or by the "order" of equal shapes; and whether their use, or
the "order" in which a module has them, is "against" it.

"diverging" has all tensors that diverge, in the order of both sides: the first is where the models part. "apart" is
null if their shapes differ, its "relative" if before is 0 wherever they differ; what is not finite in it is written as
text: "nan", "inf", "-inf". Its "relation" is null where it cannot be told how after is made of before; else its "kind"
says it: before times a number ("factor"), or so much more ("sum"); the same but for keys that are "hidden" on one
"side" only, or on each ("") others; the same in another "order" along a "dim", counted before, or anywhere (null).
"within" are tensors that differ and of which only what is the same, to rounding, is made, "alone" what stands on one
side only between the first that diverges and the last same one before it, "strange" where NaN and inf are first met,
before and after, "lone" what the models return and no value was compared with. "same" and "uncompared" are numbers of
tensors.
"""

from __future__ import annotations

import math

import msgspec

from ..diff.divergence import Copied, Divergence, Extreme, ValuesDiff
from ..files import encode
from ..records import Record
from .changes_json import tensor_at
from .words import span

__all__ = ["values_json"]


def values_json(found: ValuesDiff) -> str:
    """The whole comparison."""
    return encode(
        {
            "before": msgspec.to_builtins(found.before),
            "after": msgspec.to_builtins(found.after),
            "inputs": found.inputs,
            "weights": {"said": found.weights, "pairs": [copied(each) for each in found.copied]},
            "same": found.same,
            "uncompared": found.uncompared,
            "diverging": [told(each) for each in found.diverging],
            "within": [told(each) for each in found.within],
            "alone": [(side(one), side(other)) for one, other in found.alone],
            "strange": [{"nan": side(each.nan), "inf": side(each.inf)} for each in found.strange],
            "lone": [[side(record) for record in records] for records in found.lone],
        }
    ).decode()


def copied(each: Copied) -> dict[str, object]:
    return {
        "before": each.before,
        "after": each.after,
        "rows": [None if rows is None else span(rows) for rows in each.rows],
        "by": each.by,
        "against": each.against or None,
    }


def told(each: Divergence) -> dict[str, object]:
    apart = None
    if each.apart is not None:
        apart = {
            "elements": each.apart.elements,
            "differing": each.apart.differing,
            "tolerance": msgspec.to_builtins(each.apart.tolerance),
            "absolute": extreme(each.apart.absolute),
            "relative": extreme(each.apart.relative),
            "relation": None if each.apart.relation is None else msgspec.to_builtins(each.apart.relation),
        }
    return {"before": side(each.before), "after": side(each.after), "apart": apart}


def side(record: Record | None) -> dict[str, object] | None:
    if record is None:
        return None
    return tensor_at(record.path, record.name, record.call, record.role, record.tensor)


def extreme(found: Extreme | None) -> dict[str, object] | None:
    if found is None:
        return None
    numbers = {"difference": found.difference, "before": found.before, "after": found.after}
    return {"index": found.index, **{name: finite(value) for name, value in numbers.items()}}


def finite(value: complex) -> object:
    """A number that JSON has, or the text of one that it has not."""
    return str(value) if isinstance(value, complex) or not math.isfinite(value) else value
