"""Roles."""

from __future__ import annotations

import msgspec

from ...schema import Call, TensorMeta, Trace
from .attention import Attention, attentions, given_out, handed_out
from .ends import embeddings, logits, losses, rotations
from .flow import Flow, Node
from .functions import LOOKUPS
from .modules import Modules
from .places import Places
from .stream import stream

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
    of_stream(names, found)
    of_ends(names, found)
    return applied(trace, names)


def of_ends(names: Names, found: list[Attention]) -> None:
    flow = names.flow
    tokens, positions = embeddings(flow)
    for loss, scores in losses(flow):
        names.give(loss, "loss")
        names.give(scores, "logits")
    if "logits" not in names.nodes.values():
        for node in logits(flow):
            names.give(node, "logits")
    for node in tokens:
        names.give(node, "token_embedding")
    for node in positions:
        names.give(node, "position_embedding")
    for node in rotations(found):
        names.give(node, "rotation")


def of_stream(names: Names, found: list[Attention]) -> None:
    made = stream(names.flow, found)
    modules = Modules(names.flow, found, made)
    names.calls = modules.calls
    names.inputs = {index: {key: "x"} for index, key in modules.inputs.items()}
    for branch in made.branches:
        if branch.attention is None:
            names.give(branch.hidden, "ffn_hidden")
            names.give(branch.out, "ffn_out")
    handed = handed_out(names.flow)
    for role, nodes in (("residual", made.values), ("norm", made.norms)):
        for node in nodes.values():
            if node.name not in LOOKUPS and node.index >= 0:
                names.give(node, role)
                for form in given_out(node, handed, (0, -1)):
                    names.give(form, role)


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
