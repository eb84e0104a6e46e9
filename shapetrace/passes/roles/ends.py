"""Where a model begins and where it ends: embeddings and rotations, logits and the loss."""

from __future__ import annotations

from ..plumbing import is_float
from .attention import Attention
from .flow import Flow, Node, base, is_projection, numel
from .functions import CASTS, DROPOUTS, LAYOUTS, LOOKUPS, LOSSES, PARTS, QUOTIENTS, SHAPING, SUMS, TIMES

__all__ = ["embeddings", "logits", "losses", "rotations"]


def losses(flow: Flow) -> list[tuple[Node, Node | None]]:
    """Each loss, as it leaves the model, and what its logits were before they were shifted and flattened."""
    found: list[tuple[Node, Node | None]] = []
    for node in flow.nodes:
        if node.name in LOSSES and node.inputs:
            loss = node
            for _ in range(6):
                after = [user for user in loss.users if user.name in SUMS | TIMES | QUOTIENTS | CASTS]
                if not after or numel(after[0].shape) != 1 or is_handed(loss, flow):
                    break
                loss = after[0]
            found.append((loss, unflattened(node.inputs[0], flow)))
    return found


def is_handed(node: Node, flow: Flow) -> bool:
    return bool(node.places) and flow.parents[node.places[-1][0]] < 0


def unflattened(node: Node, flow: Flow) -> Node | None:
    """Back from what a loss was given to the logits: what the model hands out, else the whole of them."""
    steps = [node]
    while True:
        if is_handed(node, flow) and len(node.shape) > 1 and node.index >= 0:
            return node
        passes = node.name in SHAPING or node.name in PARTS or node.name in ("pad", "log_softmax")
        if not passes or not node.inputs or len(steps) > 24:
            break
        node = node.inputs[0]
        steps.append(node)
    if node.index < 0 or not node.is_data:
        return None
    return node


def logits(flow: Flow) -> list[Node]:
    """Where there is no loss: what the model hands out that is as wide as a table of tokens is long."""
    tables = {node.inputs[1].shape[0] for node in flow.nodes if is_token_lookup(node)}
    found: list[Node] = []
    for node in flow.nodes:
        if not is_handed(node, flow) or len(node.shape) < 3 or node.shape[-1] not in tables:
            continue
        before = node
        for _ in range(16):
            if is_projection(before):
                found.append(node)
                break
            passes = before.name in LAYOUTS | CASTS | TIMES | QUOTIENTS | SUMS | PARTS | {"tanh", "clamp"}
            if not passes or not before.inputs:
                break
            before = next((given for given in before.inputs if given.is_data), before.inputs[0])
    return found


# Embeddings


def is_lookup(node: Node) -> bool:
    return node.name in LOOKUPS and len(node.inputs) >= 2 and is_float(node.meta)


def is_token_lookup(node: Node) -> bool:
    """By whole numbers that the model was given, and did not count itself."""
    return is_lookup(node) and node.inputs[0].is_data and not counts(node.inputs[0])


def counts(ids: Node) -> bool:
    """Whether they are positions: `arange`, or a running sum of what is no padding."""
    seen = {ids.at}
    queue = [ids]
    for node in queue:
        if node.is_position or node.name in ("arange", "cumsum"):
            return True
        for given in node.inputs:
            if given.at not in seen and len(seen) < 24:
                seen.add(given.at)
                queue.append(given)
    return False


def embeddings(flow: Flow) -> tuple[list[Node], list[Node]]:
    """Tables looked up by tokens, and what is added for positions."""
    looked_up = [node for node in flow.nodes if is_token_lookup(node)]
    tokens: list[Node] = []
    for node in looked_up:
        width = node.shape[-1]
        added = [other for other in looked_up if other is not node and meets(node, other)]
        if (
            all(other.inputs[1].shape[0] < node.inputs[1].shape[0] for other in added)
            and len(node.shape) >= 2
            and width
        ):
            tokens.append(node)
    positions: dict[int, Node] = {}
    for node in tokens:
        for total in sums_after(node):
            for given in total.inputs:
                found = base(given)
                if found is not node and is_position_table(found):
                    positions[found.at] = found
    return tokens, list(positions.values())


def meets(one: Node, other: Node) -> bool:
    """Whether two are added up, directly or with a third."""
    sums = {total.at for total in sums_after(one)}
    return any(total.at in sums for total in sums_after(other))


def sums_after(node: Node) -> list[Node]:
    """The sums that an embedding goes into, up to the norm or the first block."""
    found: list[Node] = []
    seen = {node.at}
    queue = [node]
    for one in queue:
        for user in one.users:
            if user.at in seen or len(seen) > 24 or len(found) > 4:
                continue
            if user.name in SUMS and user.shape[-1:] == node.shape[-1:]:
                found.append(user)
            elif user.name not in LAYOUTS | CASTS | DROPOUTS | TIMES:
                continue
            seen.add(user.at)
            queue.append(user)
    return found


def is_position_table(node: Node) -> bool:
    """Looked up by positions, or computed from them alone; as wide as the model."""
    if is_lookup(node):
        ids = node.inputs[0]
        if counts(ids):
            return True
        buffer = ids
        while buffer.inputs and (buffer.name in SHAPING or buffer.name in PARTS):
            buffer = buffer.inputs[0]
        return buffer.is_weight and 2 < numel(buffer.shape) <= node.inputs[1].shape[0]
    if not is_float(node.meta) or (node.is_data and not node.is_rotation):
        return False
    if node.is_rotation:
        return True
    source = node
    while source.inputs and (source.name in SHAPING or source.name in PARTS or source.name in ("index_select", "mul")):
        if source.name in ("getitem", "index_select") and any(counts(given) for given in source.inputs[1:]):
            return True
        source = source.inputs[0]
    return False


# Rotation


def rotations(found: list[Attention]) -> list[Node]:
    """The sines and cosines that queries and keys are multiplied with."""
    tables: dict[int, Node] = {}
    for one in found:
        for node in one.inside.values():
            if node.name not in TIMES:
                continue
            for given in node.inputs:
                if given.is_rotation and given.at not in one.inside:
                    table = first_table(given)
                    if table is not None:
                        tables[table.at] = table
    return [tables[at] for at in sorted(tables)]


def first_table(node: Node) -> Node | None:
    """The table of cosines it is a part of: the last form of that shape, scaled and cast."""
    steps = [node]
    for _ in range(16):
        if node.name in ("cos", "sin", "polar"):
            break
        before = [given for given in node.inputs if given.is_rotation]
        if len(before) != 1:
            return None
        node = before[0]
        steps.append(node)
    else:
        return None
    alike = node
    for step in reversed(steps):
        if step.name not in CASTS | TIMES | {"cos", "sin", "polar"} or step.shape != node.shape:
            break
        alike = step
    return alike
