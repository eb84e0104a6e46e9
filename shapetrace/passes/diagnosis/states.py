"""Recurrence: the width of what goes in, whose dim the batch is, and the state it begins with."""

from __future__ import annotations

from .fault import Fault

__all__ = ["recurrent", "state"]

STATE = r"Expected hidden(?:\[\d\])? size \((\d+), (\d+), (\d+)\), got \[(\d+), (\d+), (\d+)\]"

MEANING = (
    "num_layers, twice that if it goes both ways, in dim 0",
    "the batch in dim 1, with batch_first=True too",
    "hidden_size in its last dim",
)


def recurrent(fault: Fault) -> str | None:
    """`LSTM`, `GRU` and `RNN`: width, and whose dim the batch is."""
    x = fault.tensor("input")
    if fault.name not in ("LSTM", "GRU", "RNN") or x is None or len(x.shape) != 3:
        return None
    width = fault.numbers(r"input.size\(-1\) must be equal to input_size. Expected (\d+), got (\d+)")
    if width is not None and width[1] == x.shape[-1]:
        return f"the {fault.name} was made with input_size={width[0]}, and {x} has {x.dim(-1)} in its last dim"
    state = fault.numbers(r"Expected hidden(?:\[\d\])? size \(\d+, (\d+), \d+\), got \[\d+, (\d+), \d+\]")
    if state is None or state[0] not in x.shape[:2] or state[0] == state[1]:
        return None
    at = 1 if state[0] == x.shape[1] else 0
    said = f"the {fault.name} takes dim {at} of {x} as batch, {x.dim(at)}, and its state has {state[1]} there"
    if x.shape[1 - at] == state[1]:
        return f"{said}, as dim {1 - at} has: {'is batch_first=True meant?' if at else 'is batch_first=False meant?'}"
    return said


def state(fault: Fault) -> str | None:
    """The state is [layers, batch, hidden], whatever the input is."""
    sizes = fault.numbers(STATE)
    if fault.name not in ("LSTM", "GRU", "RNN") or sizes is None:
        return None
    wanted, got = tuple(sizes[:3]), tuple(sizes[3:])
    h = next((given for key, given in fault.given.items() if key.startswith("hx") and given.shape == got), None)
    apart = [dim for dim in range(3) if wanted[dim] != got[dim]]
    if h is None or not apart:
        return None
    dim = apart[0]
    return f"the state of the {fault.name} has {MEANING[dim]}, which is {wanted[dim]}: {h} has {h.dim(dim)} there"
