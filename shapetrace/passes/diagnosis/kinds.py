"""Tensors of two dtypes or on two devices, and what must not be written in place."""

from __future__ import annotations

from collections.abc import Iterable

from .fault import Fault, Given, listed

__all__ = [
    "attention_mask",
    "devices",
    "dtypes",
    "floating",
    "ids",
    "index_dtype",
    "leaf",
    "mask_dtype",
    "several",
    "source_dtype",
    "target_dtype",
    "whole_numbers",
]

OF_ONE_DTYPE = frozenset("linear matmul __matmul__ __rmatmul__ mm bmm mv addmm baddbmm conv1d conv2d conv3d".split())
"""Functions whose tensors are all of one dtype; others may take an index or a mask beside."""


def dtypes(fault: Fault) -> str | None:
    """Which tensor is of which dtype, where one call wants one."""
    words = ("same dtype", "scalar type", "Input type", "to have the same dtype", "same type")
    if not any(word in fault.text for word in words) or fault.name in ("embedding", "cross_entropy", "nll_loss"):
        return None
    alike = [given for given in fault.given.values() if given.is_float or fault.name in OF_ONE_DTYPE]
    kinds = by(alike, "dtype")
    if len(kinds) < 2:
        return None
    own = [given for given in alike if given.tensor.name is not None]
    others = [given for given in alike if given.tensor.name is None]
    said = f"{fault.name} wants one dtype: {mixed(kinds)}"
    if own and others and others[0].tensor.dtype != own[0].tensor.dtype:
        x, dtype = others[0], own[0].tensor.dtype
        if x.is_integer:
            return f"{said}; if {x.name} holds ids an embedding comes first, else {x.code}.to(torch.{dtype})"
        return f"{said}; {x.code}.to(torch.{dtype}) makes it that of the parameters"
    first, *rest = alike
    other = next(given for given in rest if given.tensor.dtype != first.tensor.dtype)
    return f"{said}; {other.code}.to({first.code}.dtype) makes them one"


def devices(fault: Fault) -> str | None:
    """Which tensor is on which device. A single number on the CPU goes with any."""
    if "same device" not in fault.text and "expected device" not in fault.text:
        return None
    there = [given for given in fault.given.values() if given.shape or given.tensor.device != "cpu"]
    kinds = by(there, "device")
    if len(kinds) < 2:
        return None
    own = [given for given in there if given.tensor.name is not None]
    others = [given for given in there if given.tensor.name is None]
    said = f"{fault.name} wants one device: {mixed(kinds, 'on ')}"
    if own and others and own[0].tensor.device != others[0].tensor.device:
        return f"{said}; move one of them, {others[0].code}.to({own[0].tensor.device!r}) or the model"
    return f"{said}; move one of them with .to(…), or make it with device=…"


def by(given: Iterable[Given], what: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in given:
        found.setdefault(getattr(each.tensor, what), []).append(each.name)
    return found


def mixed(kinds: dict[str, list[str]], word: str = "") -> str:
    """ "x is float64, weight and bias are float32"."""
    parts = [f"{listed(names)} {'is' if len(names) == 1 else 'are'} {word}{kind}" for kind, names in kinds.items()]
    return ", ".join(parts)


def ids(fault: Fault) -> str | None:
    """An embedding of what is no integer."""
    given = fault.tensor("0", "input")
    if fault.name != "embedding" or given is None or given.is_integer:
        return None
    return (
        f"an embedding looks rows up by number, and {given} is {given.tensor.dtype}: "
        f"{given.code}.long() if it holds ids; if it is embedded already, leave this call out"
    )


def mask_dtype(fault: Fault) -> str | None:
    mask = fault.tensor("1", "mask")
    if not fault.name.startswith("masked_") or mask is None or mask.tensor.dtype == "bool":
        return None
    if "must match the size" in fault.text:
        return None
    said = f"a mask says yes or no, and {mask} is {mask.tensor.dtype}"
    return f"{said}: {mask.code}.bool(), or {mask.name} == 0 for what it leaves out"


def attention_mask(fault: Fault) -> str | None:
    """A mask of fused attention says yes or no, or is added to the scores; and causal is a mask itself."""
    mask, q = fault.tensor("attn_mask", "3"), fault.tensor("0", "query")
    if fault.name != "scaled_dot_product_attention" or mask is None or q is None:
        return None
    if fault.call.literals.get("is_causal", fault.call.literals.get("5")) == "True":
        both = f"{mask.code} & torch.ones(…, dtype=torch.bool).tril()"
        said = f"is_causal=True is a mask, and {mask} is another: put both into one"
        return f"{said}, {both}, without is_causal" if mask.tensor.dtype == "bool" else f"{said}, without is_causal"
    if mask.tensor.dtype in ("bool", q.tensor.dtype) or "dtype" not in fault.text:
        return None
    said = f"a mask is bool, True where a query may look, or added to the scores as {q.tensor.dtype}"
    return f"{said}; {mask} is {mask.tensor.dtype}: {mask.code}.bool()"


def source_dtype(fault: Fault) -> str | None:
    """What is scattered is of the dtype of what it goes into."""
    x, source = fault.tensor("0"), fault.tensor("3", "src", "source")
    if not fault.name.startswith(("scatter", "index_")) or x is None or source is None:
        return None
    if x.tensor.dtype == source.tensor.dtype or ("dtype" not in fault.text and "scalar type" not in fault.text):
        return None
    said = (
        f"{fault.name} puts tensors of one dtype together: {x} is {x.tensor.dtype}, {source} is {source.tensor.dtype}"
    )
    return f"{said}; {source.code}.to({x.code}.dtype)"


def whole_numbers(fault: Fault) -> str | None:
    """`one_hot` and `bincount` count classes."""
    x = fault.tensor("0", "input")
    if fault.name not in ("one_hot", "bincount") or x is None or x.is_integer:
        return None
    return f"{fault.name} takes the numbers of classes, and {x} is {x.tensor.dtype}: {x.code}.long() if it holds such"


def target_dtype(fault: Fault) -> str | None:
    target, logits = fault.tensor("1", "target"), fault.tensor("0", "input")
    if fault.name not in ("cross_entropy", "nll_loss") or target is None or logits is None:
        return None
    if target.tensor.dtype == "int64" or ("Long" not in fault.text and "scalar type" not in fault.text):
        return None
    if target.is_integer:
        kind = target.tensor.dtype
        return f"{fault.name} takes the numbers of classes as int64, and {target} is {kind}: {target.code}.long()"
    return (
        f"{fault.name} takes the numbers of classes, and {target} is {target.tensor.dtype}: {target.code}.long(); "
        f"probabilities of classes would be of the shape of {logits}"
    )


def index_dtype(fault: Fault) -> str | None:
    """An index of what is no whole number."""
    if "for index" not in fault.text and "used as indices must be" not in fault.text:
        return None
    index = next((given for key, given in fault.given.items() if key != "0" and given.is_float), None)
    if index is None:
        return None
    return f"an index is of whole numbers, and {index} is {index.tensor.dtype}: {index.code}.long()"


def floating(fault: Fault) -> str | None:
    """A function of floating point numbers that is given whole ones; or targets that are to be of the dtype of x."""
    x, target = fault.tensor("0", "input"), fault.tensor("1", "target")
    is_sized = "size" not in fault.text
    if (
        fault.name.startswith("binary_cross_entropy")
        and is_sized
        and x is not None
        and target is not None
        and not target.is_float
    ):
        kind = target.tensor.dtype
        return f"{fault.name} compares with numbers between 0 and 1, and {target} is {kind}: {target.code}.float()"
    words = ("not implemented for 'Long'", "not implemented for 'Int'", "not implemented for 'Bool'", "floating point")
    if x is None or x.is_float or not any(word in fault.text for word in words) or len(fault.given) > 1:
        return None
    return (
        f"{fault.name} is for floating point numbers, and {x} is {x.tensor.dtype}: {x.code}.float(), or embed ids first"
    )


def several(fault: Fault) -> str | None:
    """A module that is given all that another returns, where it takes one tensor of it."""
    key = next((key for key in fault.call.inputs if key.endswith("[0]")), None)
    if fault.call.kind != "module" or key is None or "must be Tensor, not" not in fault.text:
        return None
    first = fault.given[key]
    index = fault.maker(first.tensor)
    of = f"all that {fault.codes[index]} returns" if index is not None else "several"
    return f"{fault.name} takes a tensor, and was given {of}: the first of it is [{str(first).partition(' [')[2]}"


def leaf(fault: Fault) -> str | None:
    """A parameter that is written on while its gradient is wanted."""
    x = fault.tensor("0")
    if x is None or "leaf Variable that requires grad" not in fault.text:
        return None
    own = x.tensor.name
    what = f"{x.name}, the parameter {own}," if own and own != x.name else f"the parameter {x.name}" if own else x.name
    return f"{fault.name} writes on {what} whose gradient is wanted: do it under torch.no_grad(), or make a new tensor"
