"""Say what each tensor does in a Transformer, from the data flow alone, whoever wrote it and whatever they called it.

Attention is a softmax over a product of two activations whose result goes into a product with a third, or torch's
fused function. A softmax over a projection (logits, a router, pooling), or one whose result meets only a parameter,
is none. The stream is found from attention, or from tokens: it begins at the first value of theirs to which something
made of it is added. So a model of tokens has one also if nothing attends; any other has no more than logits and loss,
and the embedding of what its logits choose from: what else is looked up in a table need not be a token.

x              what a module is given that attends or feeds forward, or a block of both; on its input
q, k, v        what enters the products, split by heads, [B, H, T, D]; after norm and rotation, before k is turned and,
               if there are fewer of them than queries, before k and v are repeated, [B, G, S, D]. With a cache: with
               what it held. If only what q is a multiple of has a name, that
scores         the last stage before softmax that has a name (scaled, masked …), of the shape of the weights: the one
               that `scores` refers to where `scores = …` is said several times
weights        what multiplies the values: after softmax, cast and dropout, by heads, [B, H, T, S]; or what the model
               gives as a result of that: the very tensors that it returns as attentions
head_output    weights times values, by heads
concat         the heads joined
attn_out       their projection, where it is added to what attended, or made in a module that was given that; none that
               is what the model says: that its loss reads, or that a model of tokens gives as its result, in another
               width than what attends has, or of queries that nothing projected
residual       the stream: where it begins, each sum x + f(x), and in post-LN its norm, for that is added to next
norm           each other norm of the stream, of what attention or a feed-forward gives, or of what logits are a
               projection of; not those of q and k. `Trace.roles` also finds the norms that are the stream
ffn_hidden     what the last projection of a feed-forward is given
ffn_out        and what it makes of it
token_embedding, position_embedding   where they are added up; the stream of a model with rotations begins as the first.
               Positions are rows for each place, looked up, computed or cut from a table; a parameter as it is has the
               role where it is added
rotation       the tables of cosines and sines that queries and keys are multiplied with
logits, loss   of cross entropy, or of CTC; other losses, and those that are written out, where the model gives them.
               Without a loss, the result that is as wide as the table of tokens is long, what the result is log-softmax
               of, and what the model gives in a field called logits

A tensor has one role, on one record: where the code names it (see `Places`). A call has the role of what it does:
"self-attention", "causal self-attention", "cross-attention", "feed-forward", "pre-LN block", "post-LN block", and
"res-post-norm block" (Liu et al., Swin Transformer V2), where what is added is normalised and the stream is not.
Causal is said where the mask is: each query sees up to one key more than the one before it, and nothing beyond; or
where torch is asked for it. What cannot be told has no role: a wrong one is worse than none.
"""

from __future__ import annotations

import msgspec

from ...schema import TensorMeta, Trace
from .attention import Attention, attentions
from .elements import Elements, Held, nothing
from .embeddings import is_beside, positions, rotations, tokens
from .flow import Flow, Node
from .forms import dropped, given_out
from .functions import FUSED, LOOKUPS, LOSSES, OTHER_LOSSES, SOFTMAX, short_name
from .learned import mark_learned
from .losses import losses
from .masks import Masks
from .modules import Modules
from .norms import last_of_norm
from .places import Places
from .results import called_logits, is_said, logits, said_of
from .stream import Stream, stream

__all__ = ["name_roles", "normed", "with_unmade"]


def name_roles(trace: Trace, held: Held = nothing) -> Trace:
    """The trace with roles. A portable trace has no tensor numbers, so no data flow: it keeps those it has.

    held   gives elements of masks that the model holds or was given
    """
    if not any(short_name(call) in TELLING for call in trace.calls):
        return trace
    with Flow(trace) as flow:
        mark_learned(flow)
        found = attentions(flow, Masks(flow, held))
        elements = Elements(flow, held)
        looked_up = tokens(flow, elements)
        roles = Roles(flow)
        for one in found:
            roles.of_attention(one)
        made = stream(flow, found, looked_up, roles.said)
        roles.of_ends(found, made, looked_up, elements)
        roles.of_stream(made)
        return roles.applied(trace, Modules(flow, found, made), found)


TELLING = SOFTMAX | FUSED | LOOKUPS | LOSSES | OTHER_LOSSES | {"exp", "log_softmax", "logsumexp"}
"""A model that calls none of these has neither attention, nor tokens, nor a loss."""


class Roles:
    """The roles found so far. A value keeps the first that it is given."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.places = Places(flow)
        self.nodes: dict[int, str] = {}
        self.outputs: dict[int, dict[str, str]] = {}
        self.inputs: dict[int, dict[str, str]] = {}
        self.ends = losses(flow)
        told = [scores for _, scores in self.ends if scores is not None] or logits(flow)
        self.logits = [*told, *called_logits(flow)]
        self.said = [node for node in map(said_of, self.logits) if node is not None]

    def give(self, node: Node | None, role: str) -> None:
        place = None if node is None or node.at in self.nodes else self.places.of(node)
        if node is not None and place is not None:
            self.nodes[node.at] = role
            self.outputs.setdefault(place[0], {}).setdefault(place[1], role)

    def give_all(self, node: Node, role: str, whole: tuple[int, ...], *, scaled: bool = False) -> None:
        """Also to what the model gives out of it, as `given_out`."""
        self.give(node, role)
        for form in given_out(node, self.flow, whole, scaled=scaled):
            self.give(form, role)

    def of_attention(self, one: Attention) -> None:
        for node in one.weights:
            self.give(node, "weights")
        self.give(one.q, "q")
        self.give(one.k, "k")
        self.give(one.v, "v")
        self.give(one.scores, "scores")
        self.give(one.head_output, "head_output")
        self.give(one.concat, "concat")
        self.give(one.attn_out, "attn_out")

    def of_ends(self, found: list[Attention], made: Stream, looked_up: list[Node], elements: Elements) -> None:
        for loss, _ in self.ends:
            self.give(loss, "loss")
        for node in self.logits:
            self.give_all(node, "logits", (-1,))
        is_transformer = bool(found or made.values)
        embedded = [node for node in looked_up if is_transformer or is_said(node, self.logits)]
        embedded = [node for node in embedded if not is_beside(node, made.first())]
        for node in embedded:
            self.give_all(node, "token_embedding", (0, -1))
        for node in positions(embedded, made.first(), elements):
            self.give(node, "position_embedding")
            if node.meta.name is not None:  # a parameter as it is: no call made it
                user = node.users[0]
                key = user.keys[user.inputs.index(node)]
                self.inputs.setdefault(user.index, {}).setdefault(key, "position_embedding")
        for node in rotations(found):
            self.give(node, "rotation")

    def of_stream(self, made: Stream) -> None:
        for branch in made.branches:
            if branch.attention is None:
                self.give(branch.hidden, "ffn_hidden")
                self.give(branch.out, "ffn_out")
        for role, nodes in (("residual", made.values), ("norm", made.norms)):
            for node in nodes.values():
                if node.name not in LOOKUPS and last_of_norm(node) is node:
                    self.give_all(node, role, (0, -1), scaled=role == "residual")
        for node in (form for start in made.first() for form in dropped(start)):
            self.give_all(node, "residual", (0, -1))
        for node in self.said:
            if node.norm_of is not None:
                self.give(node, "norm")

    def applied(self, trace: Trace, modules: Modules, found: list[Attention]) -> Trace:
        fused = {
            one.fused: unmade(one.operands[0].meta, one.operands[1].meta) for one in found if one.fused is not None
        }
        calls = list(trace.calls)
        for index in {*self.outputs, *self.inputs, *modules.calls, *fused}:
            call = calls[index]
            given = {modules.given[index]: "x"} if index in modules.given else self.inputs.get(index, {})
            calls[index] = msgspec.structs.replace(
                call,
                inputs=marked(call.inputs, given),
                outputs=marked(call.outputs, self.outputs.get(index, {})),
                role=modules.calls.get(index, call.role),
                unmade=fused.get(index, call.unmade),
            )
        return msgspec.structs.replace(trace, calls=tuple(calls))


def unmade(q: TensorMeta, k: TensorMeta) -> dict[str, TensorMeta]:
    """What a fused attention of these queries and keys stands for and never makes."""
    shape = (*q.shape[:-1], k.shape[-2])
    return {role: TensorMeta(shape, dtype=q.dtype, device=q.device, role=role) for role in ("scores", "weights")}


def normed(trace: Trace) -> frozenset[int | None]:
    """The numbers of tensors that a norm ended with, whatever role they have. A portable trace has none."""
    with Flow(trace) as flow:
        ends = [node for node in flow.nodes if node.norm_of is not None and last_of_norm(node) is node]
        return frozenset(node.meta.number for node in ends) - {None}


def with_unmade(trace: Trace) -> Trace:
    """The trace with what each fused attention stands for, and no other role: that takes a fraction of the time."""
    calls = list(trace.calls)
    for index, call in enumerate(calls):
        if call.kind == "function" and short_name(call) in FUSED:
            q, k = (call.inputs.get(place, call.inputs.get(name)) for place, name in (("0", "query"), ("1", "key")))
            if q is not None and k is not None and min(len(q.shape), len(k.shape)) > 1:
                calls[index] = msgspec.structs.replace(call, unmade=unmade(q, k))
    return msgspec.structs.replace(trace, calls=tuple(calls))


def marked(tensors: dict[str, TensorMeta], roles: dict[str, str]) -> dict[str, TensorMeta]:
    """The same tensors, some with a role."""
    if not roles:
        return tensors
    return {
        key: msgspec.structs.replace(tensor, role=roles[key]) if key in roles else tensor
        for key, tensor in tensors.items()
    }
