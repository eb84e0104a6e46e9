"""Roles."""

from __future__ import annotations

import msgspec

from ...schema import Call, TensorMeta, Trace
from .attention import Attention, attentions
from .flow import Flow, Node
from .places import Places

__all__ = ["name_roles"]

PARTS = ("q", "k", "v", "scores", "weights", "head_output", "concat", "attn_out")


class Names:
    """The roles found so far; the first one that a record is given stays."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.places = Places(flow)
        self.nodes: dict[int, str] = {}
        self.outputs: dict[int, dict[str, str]] = {}
        self.inputs: dict[int, dict[str, str]] = {}
        self.calls: dict[int, str] = {}
        self.unmade: dict[int, dict[str, TensorMeta]] = {}

    def give(self, node: Node | None, role: str) -> None:
        if node is None or node.at in self.nodes:
            return
        place = self.places.of(node)
        if place is None:
            return
        self.nodes[node.at] = role
        self.outputs.setdefault(place[0], {}).setdefault(place[1], role)


def name_roles(trace: Trace) -> Trace:
    flow = Flow(trace)
    found = attentions(flow)
    if not found:
        return trace
    names = Names(flow)
    for one in found:
        for node in one.given:
            names.give(node, "weights")
        for role in PARTS:
            if role != "weights" or not one.given:
                names.give(getattr(one, role), role)
        if one.fused is not None:
            names.unmade[one.fused] = unmade(one)
    return applied(trace, names)


def unmade(found: Attention) -> dict[str, TensorMeta]:
    q, k, _ = found.operands
    shape = (*q.shape[:-1], k.shape[-2])
    return {
        role: TensorMeta(shape, dtype=q.meta.dtype, device=q.meta.device, role=role) for role in ("scores", "weights")
    }


def applied(trace: Trace, names: Names) -> Trace:
    calls = list(trace.calls)
    for index in {*names.outputs, *names.inputs, *names.calls, *names.unmade}:
        call = calls[index]
        calls[index] = msgspec.structs.replace(
            call,
            inputs=marked(call.inputs, names.inputs.get(index)),
            outputs=marked(call.outputs, names.outputs.get(index)),
            role=names.calls.get(index, call.role),
            unmade=names.unmade.get(index, call.unmade),
        )
    return msgspec.structs.replace(trace, calls=tuple(calls))


def marked(tensors: dict[str, TensorMeta], roles: dict[str, str] | None) -> dict[str, TensorMeta]:
    if not roles:
        return tensors
    return {
        key: msgspec.structs.replace(tensor, role=roles[key]) if key in roles else tensor
        for key, tensor in tensors.items()
    }


_ = Call
