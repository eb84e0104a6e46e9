"""The data flow of a trace as a graph: one node for each value that a tensor ever had.

A tensor that is written in place has another value after it, so it gets another node; so have, when they are next
read, the tensors that share its memory. A function that returns its input (dropout in eval) makes no node.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...schema import Call, TensorMeta, Trace
from ..plumbing import TRIANGLES, is_float
from .functions import (
    ACTIVATIONS,
    CASTS,
    COMPARISONS,
    LAYOUTS,
    LINEARS,
    LOOKUPS,
    PARTS,
    PRODUCTS,
    SHAPING,
    short_name,
)

__all__ = ["Flow", "Node", "base", "is_projection", "numel", "single"]


class Node:
    """A value of a tensor.

    at           place in the order in which values were made
    index, key   the call that made it, and where in its results; index -1 if none did
    inputs       what it was made of, by key of the argument
    users        what was made of it
    places       (index of the call, key) of each result that it is: function, module around it, …
    is_data      it depends on what the model was given
    is_weight    it is a parameter or buffer, or another form of one
    is_causal    a triangle, or a comparison of positions, went into it
    is_position  whole numbers that count: made of `arange` or `cumsum` alone
    is_rotation  made of sines or cosines
    """

    __slots__ = (
        "at",
        "index",
        "inputs",
        "is_causal",
        "is_data",
        "is_position",
        "is_rotation",
        "is_weight",
        "key",
        "keys",
        "meta",
        "name",
        "norm_of",
        "places",
        "users",
    )

    def __init__(self, at: int, index: int, key: str, name: str, meta: TensorMeta) -> None:
        self.at = at
        self.index = index
        self.key = key
        self.name = name
        self.meta = meta
        self.inputs: list[Node] = []
        self.keys: list[str] = []
        self.users: list[Node] = []
        self.places: list[tuple[int, str]] = []
        self.is_data = False
        self.is_weight = False
        self.is_causal = False
        self.is_position = False
        self.is_rotation = False
        self.norm_of: Node | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.meta.shape

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape} of call {self.index}>"


class Flow:
    """Nodes of a trace, in the order they were made; for each call the module around it and where it ends."""

    def __init__(self, trace: Trace) -> None:
        self.calls = calls = trace.calls
        self.nodes: list[Node] = []
        self.current: dict[int, Node] = {}
        self.writes: dict[int, Node] = {}
        self.given: dict[int, set[int | None]] = {}
        self.parents = [-1] * len(calls)
        self.ends = [len(calls)] * len(calls)
        running: list[int] = []
        count = len(calls)
        index = 0
        while index < count:
            call = calls[index]
            depth = call.depth
            while running and calls[running[-1]].depth >= depth:
                self.leave(running.pop(), index)
            self.parents[index] = running[-1] if running else -1
            if index + 1 < count and calls[index + 1].depth > depth and self.is_open(index):
                if depth == 0 or not running:
                    self.enter(call)
                running.append(index)
                index += 1
                continue
            if not running:
                self.enter(call)
            self.step(index, call)
            index += 1
            while index < count and calls[index].depth > depth:  # the ops that a function ran
                self.parents[index] = running[-1] if running else -1
                index += 1
        while running:
            self.leave(running.pop(), count)

    def is_open(self, index: int) -> bool:
        """Whether what runs inside tells more than the call itself: not so for the ops of a function."""
        calls = self.calls
        if calls[index].kind == "module":
            return True
        depth = calls[index].depth
        for inner in range(index + 1, len(calls)):
            if calls[inner].depth <= depth:
                return False
            if calls[inner].kind != "op":
                return True
        return False

    def enter(self, call: Call) -> None:
        """What the outermost module is given is data."""
        for key, meta in call.inputs.items():
            if meta.number is not None and meta.number not in self.current and meta.name is None:
                node = self.source(meta)
                node.key = key
                node.is_data = True

    def leave(self, index: int, end: int) -> None:
        """A module ends. A result that nothing inside of it made comes from all that it was given."""
        self.ends[index] = end
        call = self.calls[index]
        for key, meta in call.outputs.items():
            number = meta.number
            if number is None:
                continue
            node = self.current.get(number)
            if node is None:
                node = self.make(index, key, "opaque", meta, call)
            node.places.append((index, key))

    def source(self, meta: TensorMeta) -> Node:
        """A tensor that no recorded call made."""
        node = Node(len(self.nodes), -1, "", "", meta)
        node.is_weight = meta.name is not None
        self.nodes.append(node)
        if meta.number is not None:
            self.current[meta.number] = node
        return node

    def read(self, meta: TensorMeta) -> Node:
        """The value that a tensor has now."""
        number = meta.number
        node = self.current.get(number) if number is not None else None
        if node is None:
            return self.source(meta)
        if self.writes and meta.storage is not None:
            written = self.writes.get(meta.storage)
            if written is not None and written.at > node.at:
                merged = Node(len(self.nodes), written.index, "", "merge", meta)
                self.nodes.append(merged)
                self.join(merged, [("0", node), ("1", written)])
                merged.is_data = node.is_data or written.is_data
                merged.is_causal = node.is_causal or written.is_causal
                self.current[number] = merged  # type: ignore[index]
                return merged
        return node

    def step(self, index: int, call: Call) -> None:
        """A call that is a node for each of its results."""
        self.ends[index] = index + 1
        inputs = [(key, self.read(meta)) for key, meta in call.inputs.items()]
        numbers = {meta.number for meta in call.inputs.values()}
        name = short_name(call)
        for number in call.written:
            meta = next((meta for meta in call.inputs.values() if meta.number == number), None)
            if meta is None:
                continue
            meta = next((out for out in call.outputs.values() if out.number == number), meta)
            node = self.add(index, "", name, meta, inputs, call)
            self.current[number] = node
            if meta.storage is not None:
                self.writes[meta.storage] = node
        for key, meta in call.outputs.items():
            if meta.number is None:
                continue
            if meta.number in numbers:
                known = self.current[meta.number]
                if not known.places:
                    known.key = key
                known.places.append((index, key))
                continue
            node = self.add(index, key, name, meta, inputs, call)
            self.current[meta.number] = node
            node.places.append((index, key))

    def make(self, index: int, key: str, name: str, meta: TensorMeta, call: Call) -> Node:
        inputs = [(key, self.read(given)) for key, given in call.inputs.items()]
        node = self.add(index, key, name, meta, inputs, call)
        if meta.number is not None:
            self.current[meta.number] = node
        return node

    def join(self, node: Node, inputs: list[tuple[str, Node]]) -> None:
        for key, given in inputs:
            node.keys.append(key)
            node.inputs.append(given)
            given.users.append(node)

    def add(
        self, index: int, key: str, name: str, meta: TensorMeta, inputs: list[tuple[str, Node]], call: Call
    ) -> Node:
        node = Node(len(self.nodes), index, key, name, meta)
        self.nodes.append(node)
        self.join(node, inputs)
        given = node.inputs
        for one in given:
            if one.is_data:
                node.is_data = True
            if one.is_causal:
                node.is_causal = True
            if one.is_rotation:
                node.is_rotation = True
        if node.is_rotation:
            node.is_rotation = all(one.is_rotation or not one.is_data or not is_float(one.meta) for one in given)
        if name in TRIANGLES or (
            name in COMPARISONS and len(given) == 2 and all(one.is_position for one in given) and is_grid(node)
        ):
            node.is_causal = True
        elif node.is_causal and (name in PRODUCTS or name in LINEARS or name == "softmax"):
            node.is_causal = False
        if name in ("cos", "sin", "polar"):
            node.is_rotation = True
        elif node.is_rotation and (name in PRODUCTS or name in LINEARS):
            node.is_rotation = False
        if not is_float(meta):
            node.is_position = name in ("arange", "cumsum") or (
                bool(given) and any(one.is_position for one in given) and meta.dtype != "bool"
            )
        if given and not node.is_data and (name in SHAPING or name in PARTS):
            node.is_weight = given[0].is_weight
        norms(node)
        return node


def is_grid(node: Node) -> bool:
    """Whether it lets positions meet positions."""
    one, other = node.inputs
    return len(node.shape) >= 2 and one.shape[-2:] != other.shape[-2:]


def norms(node: Node) -> None:
    """Set `norm_of` where a normalisation ends: torch's own, or x times the root of its mean square, by hand."""
    name, given = node.name, node.inputs
    if not given:
        return
    if name in ("layer_norm", "rms_norm", "native_layer_norm", "fused_rms_norm"):
        if node.key in ("", "0"):
            node.norm_of = base(given[0])
    elif name in ("mul", "multiply", "div", "true_divide") and len(given) == 2:
        one, other = given
        for x, scale in ((one, other), (other, one)):
            if scale.is_data and x.is_data and is_statistic(scale) and is_float(x.meta) and x.shape != scale.shape:
                node.norm_of = centred(x)
                return
            if x.norm_of is not None and not scale.is_data and x.shape == node.shape and len(scale.shape) <= 1:
                node.norm_of = x.norm_of
                return
    elif name == "add" and len(given) == 2:
        one, other = given
        for x, shift in ((one, other), (other, one)):
            if x.norm_of is not None and shift.is_weight and len(shift.shape) == 1 and x.name in ("mul", "multiply"):
                node.norm_of = x.norm_of
                return
    elif name in CASTS and given[0].norm_of is not None and given[0].name not in ("layer_norm", "rms_norm"):
        node.norm_of = given[0].norm_of


def is_statistic(node: Node) -> bool:
    """One over the root of something taken along the last dim, or that root."""
    if not node.shape or node.shape[-1] != 1:
        return False
    for _ in range(3):
        if node.name in ("rsqrt", "sqrt", "std", "norm", "linalg_vector_norm"):
            return True
        if node.name in ("add", "to", "reciprocal", "pow", "clamp", "rdiv", "rtruediv") and node.inputs:
            if node.name == "pow" and node.inputs[0].name == "add":
                return True
            node = node.inputs[0]
            continue
        return False
    return False


def centred(x: Node) -> Node:
    """What it is without its mean taken off."""
    found = base(x)
    if found.name in ("sub", "subtract") and len(found.inputs) == 2 and found.inputs[1].shape[-1:] == (1,):
        return base(found.inputs[0])
    return found


def numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def single(node: Node) -> Node | None:
    """What it was made of, if that is one tensor and, maybe, a number."""
    given = node.inputs
    if not given:
        return None
    if len(given) == 1:
        return given[0]
    tensors = [one for one in given if numel(one.shape) != 1 or one.is_data]
    return tensors[0] if len(tensors) == 1 else None


SAME = LAYOUTS | CASTS | frozenset({"dropout", "alias"})


def base(node: Node) -> Node:
    """What it is another form of: without reshaping, casts and dropout."""
    while node.inputs and (node.name in SAME or (node.name == "getitem" and node.inputs[0].shape == node.shape)):
        node = node.inputs[0]
    return node


def is_projection(node: Node) -> bool:
    """A product with something that is no activation: `linear`, or a product with a parameter."""
    if node.name in LINEARS:
        return True
    return node.name in PRODUCTS and any(given.is_weight for given in node.inputs)


def projected(node: Node) -> Node:
    """What a projection was given."""
    if node.name == "addmm" and len(node.inputs) > 1:
        return next((given for given in node.inputs[1:] if not given.is_weight), node.inputs[1])
    return next((given for given in node.inputs if not given.is_weight), node.inputs[0])


def upward(node: Node, most: int) -> Iterator[Node]:
    """`node` and what it was made of, nearest first; data only, where there is some."""
    seen = {node.at}
    queue = [node]
    for one in queue:
        yield one
        for given in one.inputs:
            if given.at not in seen and len(seen) < most:
                seen.add(given.at)
                queue.append(given)


_ = (ACTIVATIONS, LOOKUPS)
