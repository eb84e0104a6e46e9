"""Run two models on the same inputs and find the first tensor in which they part.

Each side runs twice: for its trace, by which tensors are paired, and for the values. Those of the first side are kept,
of each tensor that has a counterpart; when the second has made that one they are compared and let go. So at most the
activations of one model are held at a time, and beside the models two copies of their weights. Fused attention runs
written out, so that its scores and weights are compared, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import nn

from ..capture import Detail, record
from ..capture.copied import Copies, copied
from ..capture.naming import Sourcing
from ..capture.notes import note
from ..capture.undisturbed import undisturbed
from ..contexts import context
from ..diff.divergence import ValuesDiff
from ..schema import Trace
from .inputs import Inputs, fitted, named, refilled
from .runs import Runs
from .uses import Use, uses
from .weights import Copying, copy_weights

__all__ = ["Inputs", "Side", "Weights", "compare", "compare_values"]

Weights = Literal["own", "copy"] | Callable[[nn.Module, nn.Module], object]


def compare_values(
    before_model: nn.Module,
    after_model: nn.Module,
    /,
    *args: Any,
    weights: Weights = "own",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> ValuesDiff:
    """Where two models part that are given the same inputs, `args` and `kwargs` of the first.

    The second is given them by the same names, or else in the same places. Copies run; neither model changes.

    weights      "own": each has its own; "copy": a copy of the second gets the weights of the first, by name and shape,
                 or else by what both make with them, unless names say otherwise, and what is left by
                 the order of equal shapes. Or a function of your own, which is given copies of both
                 models and puts the weights of the first into the second
    rtol, atol   tolerances; those of `torch.testing` for the dtype if None
    seed         of torch's random numbers, for each run
    """
    given = Inputs(args, kwargs)
    theirs = fitted(before_model, after_model, given)
    sides = Side(before_model, given), Side(after_model, theirs, given="the same inputs")
    return compare(*sides, weights=weights, rtol=rtol, atol=atol, seed=seed)


class Side(NamedTuple):
    """A model and its inputs.

    target    as what it was asked for, if not by its class
    sources   how it can be built at other sizes
    given     what its inputs are, in words
    """

    model: nn.Module
    inputs: Inputs
    target: str = ""
    sources: Sequence[Sourcing] = ()
    given: str = "its own inputs"

    def traced(self, model: nn.Module, seed: int) -> Trace:
        args, kwargs = again(self.inputs)
        with self.running(seed):
            found = record(copied(model), args, kwargs, Detail(materialise=True), sources=self.sources)
        return msgspec.structs.replace(found, target=self.target or found.target)

    @context
    def running(self, seed: int) -> Iterator[None]:
        """What is raised here says whose it is: two models run the same code as often as not."""
        torch.manual_seed(seed)
        try:
            yield
        except Exception as error:
            note(error, f"shapetrace: raised by {self.target or type(self.model).__name__}, given {self.given}")
            raise


def compare(
    before: Side,
    after: Side,
    *,
    weights: Weights = "own",
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    refill: bool = False,
) -> ValuesDiff:
    """`compare_values`, for two models that each have inputs.

    refill   whether the second's own only say what it takes: the values are those of the first
    """
    with undisturbed():
        second = copied(after.model)
        first = before.traced(before.model, seed)
        if refill:
            after = with_inputs_of(before, after, first, seed)
        done = weighed(before.model, second, weights, lambda: (first, after.traced(second, seed)))
        runs = Runs(first, after.traced(second, seed), rtol, atol)
        for side, model, run in ((before, before.model, runs.keep), (after, second, runs.compare)):
            with side.running(seed):
                run(copied(model), *again(side.inputs))
    inputs = after.given if refill else "the same"
    return msgspec.structs.replace(runs.found(), weights=done.said, copied=done.copied, inputs=inputs)


def with_inputs_of(before: Side, after: Side, first: Trace, seed: int) -> Side:
    """The second side with the inputs of the first.

    first   the trace of the first side; the second runs with its own inputs only if names do not tell which is which
    """
    known: tuple[dict[str, Use], dict[str, Use]] = {}, {}
    if named(before.model, before.inputs).keys() != named(after.model, after.inputs).keys():
        known = uses(first), uses(after.traced(after.model, seed))
    own, said = refilled(before.model, after.model, before.inputs, after.inputs, known)
    return after._replace(inputs=own, given=said)


def weighed(
    before: nn.Module, after: nn.Module, weights: Weights, traced: Callable[[], tuple[Trace, Trace]]
) -> Copying:
    if weights == "own":
        return Copying("each its own", ())
    if weights == "copy":
        return copy_weights(before, after, *traced())
    assert callable(weights)
    weights(copied(before), after)
    return Copying(f"put in by {getattr(weights, '__name__', 'a function')}", ())


def again(inputs: Inputs) -> Inputs:
    """A copy: a forward may change what it is given, as a cache."""
    with Copies(lambda tensor, _: tensor.detach().clone().requires_grad_(tensor.requires_grad)):
        return Inputs(*copy.deepcopy((inputs.args, inputs.kwargs)))
