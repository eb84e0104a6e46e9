"""What there is in one trace to be paired with another: its modules, and the tensors that its functions give.

A module that holds others, or several tensors with roles, is a scope: what is in it is paired in turn. Any other, a
`Linear`, counts as one step, and so does each result of a function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Literal, NamedTuple

import msgspec

from ..passes.nesting import ends, siblings, within
from ..passes.roles.functions import LINEARS, LOOKUPS, NORMS, PRODUCTS, short_name
from ..schema import Call, TensorMeta, Trace, part
from .stages import made_inside

__all__ = ["INDEX", "NONE", "Around", "Item", "Part", "Place", "Side", "Sign"]

Around = frozenset[Hashable]
"""What is known of where a step stands in the flow: roles, names of modules, activations."""

NONE: Around = frozenset()

LAYERS = LINEARS | LOOKUPS | NORMS

Sign = Literal["", "negated", "negative"]

Part = Literal["call", "inputs", "unmade", "outputs", "changed"]
"""Of a call: the call as a whole, or where one of its tensors stands; what it changed stands among its inputs."""

INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


class Place(NamedTuple):
    """Where something stands in a trace: `at` which call, in which part of it, and the key of the tensor there."""

    at: int
    part: Part
    key: str = ""


class Item(msgspec.Struct, frozen=True, gc=False):
    """What stands on one side of a pair.

    place     of the tensor; of a module, the call
    path      of the module in whose forward it is
    name      the variable, else what the module is called there; "" for a step without a name
    call
    tensor    None for a module that is a scope, or for a call that gives no tensor
    is_scope  whether it holds what is paired in turn
    is_shell  whether what it holds is paired as if it stood there itself
    role      of the tensor, or of the call as a whole
    origin, aim  of a step between what is known: the nearest of that of which it is made, and which are made of it:
              "k" of what is projected to keys
    structure  of a module, see `Side.structures`
    nick      what it is called on both sides together, where one name abbreviates the other: see `nicknamed`
    sign      where both sides negate something on the way to the same: whether it is that, or what comes of it
    """

    place: Place
    path: str
    name: str
    call: Call
    tensor: TensorMeta | None = None
    is_scope: bool = False
    role: str = ""
    is_shell: bool = False
    origin: Around = NONE
    aim: Around = NONE
    structure: int = 0
    nick: str = ""
    sign: Sign = ""

    @property
    def is_block(self) -> bool:
        """Whether it is one of several modules of a list."""
        return self.place.part == "call" and self.call.kind == "module" and INDEX.search(self.name) is not None

    @property
    def maker(self) -> str:
        """The module that gave the tensor, as it is called at `path`; "" for a function."""
        return within(self.path, self.call.path) if self.call.kind == "module" else ""


class Side:
    """One trace in a comparison.

    structures  of each call a number; calls with equal ones hold the same, but for shapes, roles and a module's index
    forms       of each call a number; calls with equal ones hold the same, and do the same
    roles       of each call its own and those of its results
    holds       of each call the roles inside of it
    scopes      of each call whether it is a scope
    weights     of each call how many parameters it takes, with what is inside
    does        of each call whether it multiplies, or else looks something up, with what is inside
    """

    def __init__(self, trace: Trace, known: dict[object, int]) -> None:
        self.trace = trace
        self.stops = ends(trace.calls)
        self.calls = made_inside(trace.calls, self.stops)
        count = len(self.calls)
        self.structures, self.forms = [0] * count, [0] * count
        self.holds: list[frozenset[str]] = [NO_ROLES] * count
        self.scopes = [False] * count
        self.does = [""] * count
        self.weights = [0] * count
        self.roles = list(map(roles_of, self.calls))
        for index in reversed(range(count)):
            call = self.calls[index]
            children = list(siblings(self.stops, index + 1, self.stops[index]))
            if children:
                held = {role for child in children for role in (*self.holds[child], *self.roles[child])}
                self.holds[index] = frozenset(held) if held else NO_ROLES
                self.scopes[index] = self.is_scope(call, children)
            self.weights[index] = sum(tensor.name is not None for tensor in call.inputs.values())
            self.weights[index] += sum(self.weights[child] for child in children)
            self.does[index] = work(call)
            for child in children:
                if self.does[child] == "product" or not self.does[index]:
                    self.does[index] = self.does[child]
            self.structures[index] = known.setdefault(self.structure(index, children), len(known))
            self.forms[index] = known.setdefault(self.form(index, children), len(known))

    def is_scope(self, call: Call, children: list[int]) -> bool:
        if call.kind != "module" or call.depth == 0:
            return any(self.calls[child].kind != "op" for child in children)
        if sum(tensor.role is not None for tensor in call.outputs.values()) > 1:
            return True
        for child in children:
            if self.calls[child].kind == "module" or self.scopes[child] or self.calls[child].unmade:
                return True
        return sum(bool(self.roles[child]) for child in children) > 1

    def structure(self, index: int, children: list[int]) -> object:
        call = self.calls[index]
        inside = tuple((self.word(call, self.calls[child]), self.structures[child]) for child in children)
        inputs = tuple((key, tensor.name and within(call.path, tensor.name)) for key, tensor in call.inputs.items())
        said = call.kind, call.name, tuple(call.variables.items()), call.error
        return said, inputs, tuple(call.unmade), tuple(call.outputs), inside

    def form(self, index: int, children: list[int]) -> object:
        call = self.calls[index]
        roles = call.role, tuple(tensor.role for tensor in call.outputs.values())
        return self.structures[index], roles, tuple(self.forms[child] for child in children)

    def word(self, call: Call, child: Call) -> str:
        """What a module is called inside of another, without its index."""
        return INDEX.sub("*", within(call.path, child.path)) if child.kind == "module" else ""

    def layer(self, index: int) -> str:
        """What a module with parameters, or a function that does what is mostly done by one, does with its parameters:
        "product", "lookup" or "other"; "" for any other call."""
        call = self.calls[index]
        if call.kind == "module":
            return (self.does[index] or "other") if self.weights[index] else ""
        name = short_name(call)
        return self.does[index] or "other" if name in LAYERS or (name in PRODUCTS and self.weights[index]) else ""

    def classes(self, index: int) -> Counter[str]:
        """Of what is right inside of a call how many there are of a class."""
        return Counter(self.calls[child].name for child in siblings(self.stops, index + 1, self.stops[index]))

    def modules(self, index: int) -> frozenset[str]:
        """What the modules right inside of a call are called there, without their indices."""
        inside = (self.calls[child] for child in siblings(self.stops, index + 1, self.stops[index]))
        return frozenset(self.word(self.calls[index], call) for call in inside if call.kind == "module")

    def content(self, index: int) -> Hashable:
        """The sizes of all that is made inside of a call, and of what it gives."""
        inside = self.calls[index : self.stops[index]]
        return tuple([tensor.shape for call in inside for tensor in call.outputs.values()])

    def items(self, index: int, path: str) -> list[Item]:
        """What is inside of a call that runs in the module at `path`; of all the trace, for -1."""
        start, stop = (0, len(self.calls)) if index < 0 else (index + 1, self.stops[index])
        return [item for child in siblings(self.stops, start, stop) for item in self.of(child, path)]

    def given(self, index: int, key: str, path: str) -> Item:
        """An argument of a call that runs in the module at `path`: of a module, or a parameter of a function."""
        call = self.calls[index]
        tensor = call.inputs[key]
        name = key if call.kind == "module" else within(path, tensor.name or key)
        path = call.path if call.kind == "module" else path
        return Item(Place(index, "inputs", key), path, name, call, tensor, False, tensor.role or "")

    def given_out(self, index: int, key: str, path: str) -> Item:
        call = self.calls[index]
        tensor = call.outputs[key]
        name = call.variable(key) or part("output", key)
        return Item(Place(index, "outputs", key), path, name, call, tensor, False, tensor.role or "")

    def at(self, place: Place, path: str) -> Item:
        """The tensor at a place, in or below the module at `path`."""
        index, what, key = place
        call, tensor = self.calls[index], self.tensor(place)
        name = call.variable(key) or "" if what == "outputs" else key
        return Item(place, path, name, call, tensor, False, tensor.role or "")

    def tensor(self, place: Place) -> TensorMeta:
        """What stands at a place that is no call as a whole."""
        tensors: dict[str, TensorMeta] = getattr(self.calls[place.at], place.part)
        return tensors[place.key]

    def main(self, item: Item) -> Place:
        """Where the tensor of an item stands."""
        index, what, _ = item.place
        return item.place if what != "call" else Place(index, "outputs", next(iter(item.call.outputs), ""))

    def result_role(self, index: int, key: str) -> str:
        """What a result of a module does: the role of the tensor inside that it is, or else of the last of its form."""
        tensor = self.calls[index].outputs[key]
        for inner in range(self.stops[index] - 1, index, -1):
            for made in self.calls[inner].outputs.values():
                is_same = made.number == tensor.number if tensor.number is not None else made.shape == tensor.shape
                if made.role and is_same:
                    return made.role
        return ""

    def made_role(self, index: int, key: str) -> str:
        """The role of what a module gives, of the very tensor; "" where tensors have no numbers."""
        return self.result_role(index, key) if self.calls[index].outputs[key].number is not None else ""

    def places(self, item: Item) -> Iterator[Place]:
        """Where the tensors are that an item stands for: of a module, all that is in it."""
        index, what, _ = item.place
        if what != "call":
            yield item.place
            return
        for inner in range(index, index + 1 if item.is_shell else self.stops[index]):
            call = self.calls[inner]
            if call.kind == "module":
                yield from (Place(inner, "inputs", key) for key in call.inputs)
            yield from (Place(inner, "unmade", key) for key in call.unmade)
            yield from (
                Place(inner, "outputs", key)
                for key, tensor in call.outputs.items()
                if not item.is_shell or not tensor.role  # those stand for themselves
            )

    def of(self, index: int, path: str) -> Iterator[Item]:
        call = self.calls[index]
        if call.kind == "module":
            yield self.module(index, path)
            return
        if self.scopes[index]:
            yield Item(Place(index, "call"), path, call.variable("") or call.name, call, None, True, call.role or "")
            return
        yield from self.results(index, path)

    def module(self, index: int, path: str) -> Item:
        call, is_scope = self.calls[index], self.scopes[index]
        own = within(path, call.path)
        tensor = None if is_scope else next(iter(call.outputs.values()), None)
        role = call.role or (next((t.role for t in call.outputs.values() if t.role), None) if tensor else None)
        if role is None and not is_scope:
            role = next(iter(self.holds[index]), None)
        place, structure = Place(index, "call"), self.structures[index]
        return Item(place, path, own, call, tensor, is_scope, role or "", structure=structure)

    def results(self, index: int, path: str) -> Iterator[Item]:
        """An item for each tensor that a call gives; one for the call itself if it gives none."""
        call = self.calls[index]
        for role, tensor in call.unmade.items():
            yield Item(Place(index, "unmade", role), path, role, call, tensor, False, tensor.role or role)
        for key, tensor in call.outputs.items():
            name = call.variable(key) or ""
            yield Item(Place(index, "outputs", key), path, name, call, tensor, False, tensor.role or "")
        if not call.unmade and not call.outputs:
            yield Item(Place(index, "call"), path, "", call)


def work(call: Call) -> str:
    name = short_name(call)
    return (
        "product"
        if name in LINEARS or name in PRODUCTS or name.startswith("conv")
        else "lookup"
        if name in LOOKUPS
        else ""
    )


def roles_of(call: Call) -> frozenset[str]:
    """The roles of a call and of its results."""
    if call.role is None and not call.unmade and all(tensor.role is None for tensor in call.outputs.values()):
        return NO_ROLES
    tensors = (*call.unmade.values(), *call.outputs.values())
    return frozenset(role for role in (call.role, *(tensor.role for tensor in tensors)) if role is not None)


NO_ROLES: frozenset[str] = frozenset()
