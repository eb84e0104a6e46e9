"""The data flow of a trace as a graph: one node for each value that a tensor ever had.

A tensor that is written in place has another value after it, so it gets another node; so have, when they are next
read, the tensors that share its memory. A function that returns its input (dropout in eval) makes no node.
"""

from __future__ import annotations

import msgspec

from ...schema import Call, TensorMeta, Trace
from ..plumbing import is_float
from .functions import LINEARS, PARTS, PICKS, PRODUCTS, SHAPING, WAVES, of_einsum, short_name
from .norms import norm_of

__all__ = ["Flow", "Node"]


class Node(msgspec.Struct, eq=False, gc=False):
    """A value of a tensor. Unknown to the garbage collector, which would visit them all again and again: a flow lets go
    of its nodes itself.

    at           place in the order in which values were made
    index, key   the call that made it, and where in its results; -1 if none did, and where among the model's arguments
    name         of the function that made it, as `short_name` has it
    inputs       what it was made of; `keys` are those of the arguments
    users        what was made of it
    places       (index of a call, key) of each result that it is: of a function, of the module around it, …
    is_data      it depends on what the model was given
    is_weight    it is a parameter or buffer, or another form of one
    is_position  whole numbers that were counted: `arange`, `cumsum`
    is_rotation  made of sines and cosines
    norm_of      what it is a normalised form of
    """

    at: int
    index: int
    key: str
    name: str
    meta: TensorMeta
    keys: tuple[str, ...] = ()
    inputs: tuple[Node, ...] = ()
    users: list[Node] = []
    places: list[tuple[int, str]] = []
    is_data: bool = False
    is_weight: bool = False
    is_position: bool = False
    is_rotation: bool = False
    norm_of: Node | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.meta.shape

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape} of call {self.index}>"


class Flow:
    """nodes    in the order in which they were made
    parents   for each call the index of the one it ran inside of, or -1
    ends      for each call the index after the last one that ran inside of it
    handed    places in the flow of what the outermost modules gave as results
    """

    def __init__(self, trace: Trace) -> None:
        self.calls = trace.calls
        self.nodes: list[Node] = []
        self.parents = [-1] * len(self.calls)
        self.ends = [len(self.calls)] * len(self.calls)
        self.handed: set[int] = set()
        self.current: dict[int, Node] = {}  # number of a tensor -> the value it has now
        self.writes: dict[int, Node] = {}  # storage -> the last value that was written to it
        self.follow()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.users.clear()

    def follow(self) -> None:
        calls, running = self.calls, list[int]()
        index, count = 0, len(calls)
        while index < count:
            call = calls[index]
            depth = call.depth
            while running and calls[running[-1]].depth >= depth:
                self.leave(running.pop(), index)
            parent = self.parents[index] = running[-1] if running else -1
            if parent < 0:
                self.enter(call)
            after = index + 1
            if after < count and calls[after].depth > depth and self.is_open(index):
                running.append(index)
                index = after
                continue
            while after < count and calls[after].depth > depth:  # the ops that a function ran
                self.parents[after] = parent
                after += 1
            self.step(index, call)
            self.ends[index] = index = after
        while running:
            self.leave(running.pop(), count)
        for node in self.nodes:  # now that all users of each are known
            node.norm_of = norm_of(node)

    def is_open(self, index: int) -> bool:
        """Whether what runs inside tells more than the call itself: not so for the ops of a function."""
        calls = self.calls
        if calls[index].kind == "module":
            return True
        inner = index + 1
        while inner < len(calls) and calls[inner].depth > calls[index].depth:
            if calls[inner].kind != "op":
                return True
            inner += 1
        return False

    def enter(self, call: Call) -> None:
        """What an outermost call is given is data, if it is no parameter; if that is no module, what nothing made."""
        for key, meta in call.inputs.items():
            if meta.number is None or meta.name is not None:
                continue
            made = self.current.get(meta.number)
            if made is None:
                self.source(meta, key).is_data = True
            elif call.kind == "module":
                made.is_data = True

    def leave(self, index: int, end: int) -> None:
        """A module ends. A result that nothing inside of it made comes from all that it was given."""
        self.ends[index] = end
        call = self.calls[index]
        for key, meta in call.outputs.items():
            if meta.number is None:
                continue
            node = self.current.get(meta.number)
            if node is None:
                inputs = tuple([self.read(given) for given in call.inputs.values()])
                node = self.current[meta.number] = self.add(index, key, "opaque", meta, tuple(call.inputs), inputs)
            self.place(node, index, key)

    def place(self, node: Node, index: int, key: str) -> None:
        node.places.append((index, key))
        if self.parents[index] < 0 and self.calls[index].kind == "module":
            self.handed.add(node.at)

    def source(self, meta: TensorMeta, key: str = "") -> Node:
        """A tensor that no recorded call made."""
        node = Node(len(self.nodes), -1, key, "", meta, is_weight=meta.name is not None)
        self.nodes.append(node)
        if meta.number is not None:
            self.current[meta.number] = node
        return node

    def read(self, meta: TensorMeta) -> Node:
        """The value that a tensor has now."""
        number = meta.number
        node = None if number is None else self.current.get(number)
        if node is None or number is None:
            return self.source(meta)
        if self.writes and meta.storage is not None:
            written = self.writes.get(meta.storage)
            if written is not None and written.at > node.at:
                merged = self.add(written.index, "", "merge", meta, ("0", "1"), (node, written))
                merged.places = list(node.places)
                self.current[number] = merged
                return merged
        return node

    def around(self, *nodes: Node) -> int:
        """The smallest module that all of these were made in; -1 if there is none."""
        indices = [node.index for node in nodes if node.index >= 0]
        if not indices:
            return -1
        first, module = min(indices), max(indices)
        while module >= 0 and (module > first or self.calls[module].kind != "module"):
            module = self.parents[module]
        return module

    def step(self, index: int, call: Call) -> None:
        """A call that makes a node for each of its results, and for each tensor that it writes to."""
        keys = tuple(call.inputs)
        inputs = tuple([self.read(meta) for meta in call.inputs.values()])
        name = short_name(call)
        if name == "einsum":
            name = of_einsum(call)
        numbers = [meta.number for meta in call.inputs.values()]
        for number in call.written:
            if number in numbers:
                self.write(index, name, number, keys, inputs, call)
        for key, meta in call.outputs.items():
            if meta.number is None:
                continue
            if meta.number in numbers:
                node = self.current[meta.number]
            else:
                node = self.current[meta.number] = self.add(index, key, name, meta, keys, inputs)
            self.place(node, index, key)

    def write(
        self, index: int, name: str, number: int, keys: tuple[str, ...], inputs: tuple[Node, ...], call: Call
    ) -> None:
        """A tensor gets another value. Where the call does not return it, its records stay the ones it had before."""
        before = next(node for node in inputs if node.meta.number == number)
        meta = next((out for out in call.outputs.values() if out.number == number), before.meta)
        node = self.current[number] = self.add(index, "", name, meta, keys, inputs)
        if not call.outputs:
            node.places = list(before.places)
        if meta.storage is not None:
            self.writes[meta.storage] = node

    def add(
        self, index: int, key: str, name: str, meta: TensorMeta, keys: tuple[str, ...], inputs: tuple[Node, ...]
    ) -> Node:
        node = Node(len(self.nodes), index, key, name, meta, keys, inputs)
        self.nodes.append(node)
        for given in inputs:
            given.users.append(node)
            if given.is_data:
                node.is_data = True
            if given.is_rotation:
                node.is_rotation = True
        mark(node)
        return node


def mark(node: Node) -> None:
    """What else a node is, beside what follows from its inputs."""
    name, inputs = node.name, node.inputs
    is_mixed = name in PRODUCTS or name in LINEARS or name == "softmax"
    if name in WAVES:
        node.is_rotation = True
    elif node.is_rotation:
        node.is_rotation = not is_mixed and all(
            given.is_rotation or not given.is_data or not is_float(given.meta) for given in inputs
        )
    if not is_float(node.meta):
        sources = inputs[:1] if name in PICKS else inputs
        node.is_position = name in ("arange", "cumsum") or (
            node.meta.dtype != "bool" and any(given.is_position for given in sources)
        )
    if inputs and not node.is_data and (name in SHAPING or name in PARTS):
        node.is_weight = inputs[0].is_weight
