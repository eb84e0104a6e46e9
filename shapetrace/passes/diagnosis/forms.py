"""What is given in another form than is taken: None, one tensor for a list, one state for two."""

from __future__ import annotations

import re

from .fault import Fault, modules

__all__ = ["array", "listed_tensors", "none", "one_state", "two_states"]

LIST = re.compile(
    r"(\w+)\(\)(?:: argument '\w+' \(position \d+\) must be tuple of Tensors, not Tensor"
    r"| received an invalid combination of arguments - got \(Tensor, .*\), "
    r"but expected one of:\n \* \(tuple of Tensors )"  # torch 2.6
)


def none(fault: Fault) -> str | None:
    """A layer that is given None."""
    key = next((key for key, text in fault.call.literals.items() if text == "None"), None)
    if fault.call.kind != "module" or key is None or "must be Tensor, not NoneType" not in fault.text:
        return None
    return f"{fault.name} takes a tensor, and its {key} is None: what was to give it returned nothing, or was never set"


def listed_tensors(fault: Fault) -> str | None:
    """`cat(a, b)`: torch refuses it before there is a call to see."""
    found = LIST.search(fault.text)
    if found is None:
        return None
    return f"{found[1]} takes its tensors in a list, and was given one alone: torch.{found[1]}([a, b], dim)"


def array(fault: Fault) -> str | None:
    x = fault.tensor("0")
    if x is None or "call numpy() on Tensor that requires grad" not in fault.text:
        return None
    return f"a gradient is wanted of {x}, and NumPy knows of none: {x.code}.detach().numpy()"


def two_states(fault: Fault) -> str | None:
    """An `LSTM` that is given h for (h, c): it takes the first two of its batch, or of its layers, for these."""
    around = [fault.trace.calls[index] for index in modules(fault.trace, fault.index)]
    if not around or around[-1].name != "LSTM" or "hx" not in around[-1].inputs:
        return None
    shape = list(around[-1].inputs["hx"].shape)
    return f"the LSTM begins with two states, in a tuple (h, c), and was given one tensor {shape}"


def one_state(fault: Fault) -> str | None:
    """A `GRU` or an `RNN` that is given (h, c)."""
    if fault.name not in ("GRU", "RNN") or "hx[0]" not in fault.call.inputs or "'tuple' object" not in fault.text:
        return None
    return (
        f"the {fault.name} begins with one state, and was given a tuple: the first of it alone, {fault.given['hx[0]']}"
    )
