"""A diff as one JSON object, for other programs.

    {"before": {"target": "gpt", …}, "after": {…},
     "same": 35, "renamed": 0, "counts": {"added": 2, "removed": 3, "changed": 2},
     "sizes": {"B": {"before": 2, "after": 3, "shapes": 57}},
     "unnamed": 0,
     "changes": [
        {"kind": "changed",
         "before": {"path": "blocks.0.attention", "name": "k", "by": "split", "role": null,
                    "axes": ["B", "T", "C"], "shape": [2, 4, 8]},
         "after": {…},
         "fields": {"axes": [["B", "T", "C"], ["B", "T", "G·D"]]},
         "blocks": [["blocks.1", "blocks.1"]], "steps": 1, "tensors": 2, "shapes": []}, …]}

"before" and "after" at the top are headers as in a trace file. "renamed" is how many of those that are the same are in
a module that goes by another path. "sizes" are the letters whose sizes differ, each with the number of shapes that
differ by nothing else; "unnamed" is how many tensors have, on one side only, a name for an axis, of which the other
side knows the size. Of a change, a side where it is not there is null, "axes" and "shape" are null for what is no
single tensor, "by" is the class of the module or the function. "fields" has what differs, each as [before, after]:
shape, axes, role, dtype, layout, class, tied (the name of a weight that a layer before has as well), bias (its shape,
of what is called otherwise on either side), made (false for what a fused call stands for and never makes), error;
"order" of what moved, in words; "layers" of identical blocks, their numbers; and, compared exactly, stride, contiguity,
memory, device. "blocks" are the paths, before and after, of the other blocks in which the same changed, "steps" how
many masks or unnamed steps in a row it speaks for, "tensors" how many tensors in all, and "shapes" what these are of
what was added or removed.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from ..diff import Change, Diff, Item
from ..files import encode
from ..schema import Call, TensorMeta

__all__ = ["changes_json", "tensor_at"]


def changes_json(diff: Diff) -> str:
    """The whole diff but for what is the same, of which the number is given."""
    return encode(
        {
            "before": msgspec.to_builtins(diff.before),
            "after": msgspec.to_builtins(diff.after),
            "same": diff.same,
            "renamed": diff.renamed,
            "counts": dict(Counter(change.kind for change in diff.changes)),
            "sizes": {
                each.letter: {"before": each.before, "after": each.after, "shapes": each.shapes} for each in diff.sizes
            },
            "unnamed": len(diff.unnamed),
            "changes": [told(change) for change in diff.changes],
        }
    ).decode()


def told(change: Change) -> dict[str, object]:
    return {
        "kind": change.kind,
        "before": side(change.before),
        "after": side(change.after),
        "fields": change.fields,
        "blocks": change.blocks,
        "steps": change.steps,
        "tensors": len(change.covers),
        "shapes": [tensor.shape for tensor in change.tensors],
    }


def side(item: Item | None) -> dict[str, object] | None:
    return None if item is None else tensor_at(item.path, item.name, item.call, item.role or None, item.tensor)


def tensor_at(path: str, name: str, call: Call, role: str | None, tensor: TensorMeta | None) -> dict[str, object]:
    return {
        "path": path,
        "name": name,
        "by": call.name,
        "role": role,
        "axes": None if tensor is None else tensor.axes or tensor.shape,
        "shape": None if tensor is None else tensor.shape,
    }
