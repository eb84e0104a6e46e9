"""Functions that are for tensors of so many dims, and no others."""

from __future__ import annotations

from .fault import Fault

__all__ = ["counted", "spatial"]

DIMS = {
    "bincount": (1,),
    "block_diag": (0, 1, 2),
    "bucketize": (1,),
    "diag": (1, 2),
    "dot": (1,),
    "embedding_bag": (1, 2),
    "multinomial": (1, 2),
    "outer": (1,),
    "trace": (2,),
    "vdot": (1,),
}
"""The numbers of dims that a function takes."""

INSTEAD = {
    "diag": "diagonal(dim1=-2, dim2=-1) takes those of the last two",
    "dot": "({0} * {1}).sum(-1) takes the product of each row",
    "multinomial": "{0}.flatten(0, -2) has a row for each",
    "outer": "{0}.unsqueeze(-1) * {1}.unsqueeze(-2) does so for each row",
    "trace": "diagonal(dim1=-2, dim2=-1).sum(-1) takes those of the last two",
}
"""What does the same with more dims."""

MODES = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
"""How many dims the modes of `interpolate` are for, batch and channels among them."""


def counted(fault: Fault) -> str | None:
    """A vector or a matrix is wanted, and there are more dims, or fewer."""
    dims = DIMS.get(fault.name)
    given = [given for key, given in fault.given.items() if fault.name != "bucketize" or key in ("1", "boundaries")]
    given = given[:1] if fault.name == "embedding_bag" else given
    wrong = next((x for x in given if dims and len(x.shape) not in dims), None)
    if dims is None or wrong is None:
        return None
    wanted = f"at most {dims[-1]} dims" if len(dims) > 1 else f"{dims[0]} dim{'s' * (dims[0] > 1)}"
    said = f"{fault.name} is for tensors of {wanted}, and {wrong} has {len(wrong.shape)}"
    instead = INSTEAD.get(fault.name) if len(wrong.shape) > max(dims) else None
    codes = [x.code for x in given]
    return f"{said}; {instead.format(*codes, *codes)}" if instead else said


def spatial(fault: Fault) -> str | None:
    """`interpolate` changes all dims but batch and channels, and its mode says how many these are."""
    x, size = fault.tensor("0", "input"), fault.ints(1, "size")
    if fault.name != "interpolate" or x is None or len(x.shape) < 2:
        return None
    rest = [x.dim(dim) for dim in range(2, len(x.shape))]
    said = f"interpolate leaves the first two dims of {x}, batch and channels, and changes the others"
    if size is not None and len(size) > 1 and len(size) != len(rest):
        return f"{said}: {len(size)} sizes were given for {len(rest)}, [{', '.join(rest)}]"
    mode = fault.call.literals.get("mode", "").strip("'")
    wanted = MODES.get(mode, len(x.shape))
    if wanted == len(x.shape):
        return None
    other = next((name for name, dims in MODES.items() if dims == len(x.shape)), "nearest")
    return f"{said}; mode={mode!r} is for {wanted - 2} of them, mode={other!r} for the {len(rest)} that there are"
