"""What layers do with their parameters: share one with a layer before them, and add a bias."""

from __future__ import annotations

from ..passes.roles.functions import LINEARS, LOOKUPS, PRODUCTS, SUMS, short_name
from ..schema import Call, TensorMeta
from .fields import Fields
from .items import Item, Side

__all__ = ["Parameters", "told"]


class Parameters:
    """Of one side.

    ties    of functions the name of a parameter that another layer, or a table, took before
    biases  of products the shape of their own bias
    added   the numbers of tensors to which a bias is added in a step of its own
    """

    def __init__(self, side: Side) -> None:
        self.side = side
        self.ties: dict[int, str] = {}
        self.biases: dict[int, tuple[int, ...]] = {}
        self.added: set[int | None] = set()
        first: dict[str, tuple[str, bool]] = {}
        for at, call in enumerate(side.calls):
            name = short_name(call)
            if not is_step(side, at):
                continue
            if name in SUMS and any(map(is_thin, call.inputs.values())):
                self.added.update(tensor.number for tensor in call.inputs.values() if tensor.number is not None)
            if name not in LINEARS | LOOKUPS | PRODUCTS:
                continue
            for tensor in call.inputs.values():
                use = call.path, name in LOOKUPS
                if tensor.name is not None and first.setdefault(tensor.name, use) != use:
                    self.ties[at] = tensor.name
            if name not in LOOKUPS and (bias := bias_of(call)) is not None:
                self.biases[at] = bias.shape

    def tie(self, item: Item) -> str | None:
        return next((self.ties[at] for at in self.inside(item) if at in self.ties), None)

    def bias(self, item: Item) -> tuple[int, ...] | None:
        return next((self.biases[at] for at in self.inside(item) if at in self.biases), None)

    def has_bias(self, item: Item) -> bool:
        """Whether it has one of its own, or one is added to what it gives."""
        return self.bias(item) is not None or any(each.number in self.added for each in item.call.outputs.values())

    def inside(self, item: Item) -> range:
        return range(item.place.at, self.side.stops[item.place.at])


def told(sides: tuple[Parameters, Parameters], one: Item, other: Item) -> Fields:
    """What of this one of two layers that correspond has, and the other has not. A bias of functions or modules that
    are called alike is told as a parameter, and one that is added in a step of its own as that step."""
    (ours, theirs), at, there = sides, one.place.at, other.place.at
    found: Fields = {}
    if one.is_scope or other.is_scope:
        return found
    ties = ours.tie(one), theirs.tie(other)
    if (ties[0] is None) != (ties[1] is None) and ours.side.weights[at] and theirs.side.weights[there]:
        found["tied"] = ties
    biases = ours.bias(one), theirs.bias(other)
    is_alone = ours.has_bias(one) != theirs.has_bias(other) and (biases[0] is None) != (biases[1] is None)
    if is_alone and one.call.name != other.call.name and ours.side.does[at] == theirs.side.does[there] == "product":
        found["bias"] = biases
    return found


def is_step(side: Side, at: int) -> bool:
    """Whether it is a function in which no other is seen."""
    is_leaf = side.stops[at] == at + 1 or side.calls[at + 1].kind == "op"
    return side.calls[at].kind == "function" and is_leaf


def bias_of(call: Call) -> TensorMeta | None:
    """The parameter of one dim that a product takes beside its two factors."""
    return next(filter(is_thin, call.inputs.values()), None) if len(call.inputs) > 2 else None


def is_thin(tensor: TensorMeta) -> bool:
    return tensor.name is not None and sum(size != 1 for size in tensor.shape) < 2
