"""What is out of the way of a first look: unnamed steps, masks, casts that changed nothing, the insides of one step."""

from __future__ import annotations

from bisect import bisect_left

from ..passes.memory import Account, Memory
from ..passes.plumbing import is_float, plumbing
from ..schema import Call, TensorMeta, Trace

__all__ = ["Noise"]

POINTWISE = frozenset(
    """abs add clamp cos div dropout erf exp float gelu log mean mul mul_ neg pow reciprocal relu rsqrt sigmoid silu sin
    softplus sqrt square std sub sum tanh to type type_as var""".split()
)
"""Functions that treat every position alike: a module of these alone (RMSNorm, GELU written out) changes no shape."""


class Noise:
    def __init__(self, trace: Trace, stops: list[int], accounts: list[Account]) -> None:
        self.calls = trace.calls
        self.stops = stops
        self.accounts = accounts
        self.plumbing = plumbing(trace)
        self.given = {t.storage for t in self.calls[0].inputs.values()} if self.calls else set()
        self.returned = {t.number for t in self.calls[0].outputs.values()} - {None} if self.calls else set()
        self.failing = [index for index, call in enumerate(self.calls) if call.error is not None]

    def is_input(self, tensor: TensorMeta) -> bool:
        """Whether an argument of a module inside is noise: masks and positions, unless the model was given them."""
        return tensor in self.plumbing or (not is_float(tensor) and tensor.storage not in self.given)

    def is_result(self, call: Call, key: str, tensor: TensorMeta, made: Memory | None) -> bool:
        """Whether a result is noise: plumbing that the model does not return, empty from the start, or what it was
        before under the name it had."""
        if (tensor in self.plumbing and tensor.number not in self.returned) or (0 in tensor.shape and not call.inputs):
            return True
        return made is not None and made.kind == "same" and call.variable(key) in (None, made.of)

    def fails(self, index: int) -> bool:
        """Whether a call raised, or one inside of it did."""
        return bisect_left(self.failing, index) < bisect_left(self.failing, self.stops[index])

    def shows_inside(self, index: int) -> bool:
        """Whether there is something to see in a module: modules, what is never made, or named tensors that are more
        than one step."""
        inside = range(index + 1, self.stops[index])
        if any(self.calls[inner].kind == "module" or self.calls[inner].unmade for inner in inside) or self.fails(index):
            return True
        functions = [inner for inner in inside if self.calls[inner].kind == "function"]
        named = any(self.names_something(inner) for inner in functions)
        return named and not self.is_one_step(index, functions)

    def names_something(self, index: int) -> bool:
        call, account = self.calls[index], self.accounts[index]
        return any(
            (call.variable(key) or tensor.role) is not None
            and not self.is_result(call, key, tensor, account.statements.get(key))
            for key, tensor in call.outputs.items()
        )

    def is_one_step(self, index: int, functions: list[int]) -> bool:
        """Whether a module takes memory once at most, or treats every position alike: no shape changes in it."""
        if not self.accounts[index].steps:
            return False
        if sum(self.takes_memory(inner) for inner in functions) <= 1:
            return True
        return all(self.calls[inner].name in POINTWISE for inner in functions)

    def takes_memory(self, index: int) -> bool:
        """Whether a function computes something new from what it was given; zeros to start with do not count."""
        steps = self.accounts[index].steps.values()
        return bool(self.calls[index].inputs) and any(step.kind in ("new", "copy") for step in steps)
