"""A loss of two tensors that do not go together: logits have a dim of classes, targets have none."""

from __future__ import annotations

from .fault import Fault

__all__ = ["class_range", "class_weights", "classes", "of_pairs", "probabilities", "same_size"]


def classes(fault: Fault) -> str | None:
    """Logits are [N, V] or [N, V, …], targets [N] or [N, …]."""
    logits, target = fault.tensor("0", "input"), fault.tensor("1", "target")
    if fault.name not in ("cross_entropy", "nll_loss") or logits is None or target is None or not target.is_integer:
        return None
    a, b = logits.shape, target.shape
    if not a or (*a[:1], *a[2:]) == b:
        return None
    wanted = [*a[:1], *a[2:]]
    said = f"{fault.name} takes its classes from dim 1 of {logits}, so a target of {wanted}, not {target}"
    if len(a) > 2 and a[:-1] == b:
        width = a[-1]
        return (
            f"{said}; its classes are last, {logits.dim(-1)}: "
            f"{logits.code}.reshape(-1, {width}) and {target.code}.reshape(-1), or {logits.code}.transpose(1, -1)"
        )
    if len(a) == 2 and len(b) > 1 and a[0] == count(b):
        return f"{said}; {target.code}.reshape(-1) is of {a[0]}"
    if len(b) == 2 and b == (a[0], 1):
        return f"{said}; {target.code}.squeeze(1) is of {a[0]}"
    if len(b) == 1 and len(a) == 2 and a[0] != b[0]:
        return f"{said}: {logits.dim(0)} rows met {target.dim(0)} targets"
    return said


def count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def class_range(fault: Fault) -> str | None:
    found = fault.numbers(r"Target (-?\d+) is out of bounds")
    logits, target = fault.tensor("0", "input"), fault.tensor("1", "target")
    if fault.name not in ("cross_entropy", "nll_loss") or found is None or logits is None or target is None:
        return None
    dim = 1 if len(logits.shape) > 1 else 0
    last = logits.shape[dim] - 1
    ignored = fault.call.literals.get("ignore_index", "-100")
    return (
        f"{target} holds the class {found[0]}, and {logits} has {logits.dim(dim)} classes, 0 to {last}: "
        f"a target to leave out is ignore_index={ignored}"
    )


def class_weights(fault: Fault) -> str | None:
    """A weight for each class."""
    logits, weight = fault.tensor("0", "input"), fault.tensor("weight", "2")
    if fault.name not in ("cross_entropy", "nll_loss") or logits is None or weight is None or not logits.shape:
        return None
    dim = 1 if len(logits.shape) > 1 else 0
    if weight.shape == logits.shape[dim : dim + 1]:
        return None
    return f"{fault.name} takes a weight for each class: {weight} met {logits.dim(dim)} classes of {logits}"


def probabilities(fault: Fault) -> str | None:
    """`binary_cross_entropy` of what is no probability."""
    x = fault.tensor("0", "input")
    if fault.name != "binary_cross_entropy" or x is None or "between 0 and 1" not in fault.text:
        return None
    return (
        f"binary_cross_entropy takes probabilities, and {x} or its target is not all between 0 and 1: of logits take "
        "binary_cross_entropy_with_logits"
    )


def of_pairs(fault: Fault) -> str | None:
    """`cosine_embedding_loss`: two rows are one pair, and a pair has one target."""
    x, y, target = fault.tensor("0", "input1"), fault.tensor("1", "input2"), fault.tensor("2", "target")
    if fault.name != "cosine_embedding_loss" or x is None or y is None or target is None:
        return None
    if x.shape != y.shape or len(x.shape) != 2 or len(target.shape) != 1 or x.shape[0] == target.shape[0]:
        return None
    return f"{fault.name} has a target for each row: {x.dim(0)} rows of {x} met {target.dim(0)} of {target}"


def same_size(fault: Fault) -> str | None:
    """Losses that compare two tensors element by element."""
    x, target = fault.tensor("0", "input"), fault.tensor("1", "target")
    if "must be the same as input size" not in fault.text and "different to the input size" not in fault.text:
        return None
    if x is None or target is None or x.shape == target.shape:
        return None
    if len(x.shape) != len(target.shape):
        return f"{fault.name} wants equal shapes: {x} has {len(x.shape)} dims, {target} has {len(target.shape)}"
    dim = next(dim for dim, (a, b) in enumerate(zip(x.shape, target.shape, strict=True)) if a != b)
    return f"{fault.name} wants equal shapes: dim {dim} is {x.dim(dim)} in {x} and {target.dim(dim)} in {target}"
