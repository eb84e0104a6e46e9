"""Traces written by hand, as small as a law needs them."""

from __future__ import annotations

from typing import Any

import msgspec

from shapetrace.diff import Change, Diff
from shapetrace.schema import Call, TensorMeta, Trace


class Node(msgspec.Struct, frozen=True):
    """A call to be, with what runs inside of it if it is a module."""

    name: str
    shape: tuple[int, ...] = (2, 8)
    variable: str = ""
    inside: tuple[Node, ...] | None = None
    cls: str = "Module"
    role: str | None = None


def trace_of(*nodes: Node, **header: Any) -> Trace:
    """A model that runs `nodes`. A module is given, and gives, a tensor of its shape."""
    whole = TensorMeta((2, 8))
    calls = [Call("module", "", "Net", 0, inputs={"x": whole}, outputs={"": whole})]

    def add(node: Node, path: str, depth: int) -> None:
        tensor = TensorMeta(node.shape, role=node.role)
        variables = {"": node.variable} if node.variable else {}
        if node.inside is None:
            calls.append(Call("function", path, node.name, depth, variables, outputs={"": tensor}))
            return
        path = f"{path}.{node.name}" if path else node.name
        calls.append(Call("module", path, node.cls, depth, variables, inputs={"x": tensor}, outputs={"": tensor}))
        for child in node.inside:
            add(child, path, depth + 1)

    for node in nodes:
        add(node, "", 1)
    return Trace("net", "Net", calls=tuple(calls), **header)


def module(name: str, *inside: Node, cls: str = "Module", shape: tuple[int, ...] = (2, 8)) -> Node:
    return Node(name, shape, inside=inside, cls=cls)


def linear(name: str, shape: tuple[int, ...] = (2, 8)) -> Node:
    return module(name, Node("linear", shape), cls="Linear", shape=shape)


def told(diff: Diff) -> list[str]:
    """Each change as a line: its kind, where it is before and after, and what differs."""
    return [" ".join(filter(None, (change.kind, named(change), fields(change)))) for change in diff.changes]


def named(change: Change) -> str:
    sides = [
        item and ".".join(filter(None, (item.path, item.name or item.call.name)))
        for item in (change.before, change.after)
    ]
    return " → ".join(dict.fromkeys(side for side in sides if side is not None))


def fields(change: Change) -> str:
    return ", ".join(f"{name} {before} → {after}" for name, (before, after) in change.fields.items())
