"""What must hold of a model of the zoo: each check is a function that says what differs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch

from shapetrace import Trace
from shapetrace.records import Record, records
from shapetrace.schema import TensorMeta

from .outputs import difference, tensors
from .sizes import Sizes
from .specimens import Specimen, specimen

HIDDEN_STATES = ("hidden_states", "encoder_hidden_states", "decoder_hidden_states")


class Verdict(NamedTuple):
    """What a check found. `holds` is None where there is nothing to check; `text` says why, or what differs.

    apart   it does not hold because the model itself gives something else than it says
    """

    holds: bool | None
    text: str = ""
    named: int = 0
    dims: int = 0
    apart: bool = False


class Subject(NamedTuple):
    """A type at its first sizes, traced once for all checks."""

    group: str
    model_type: str
    sizes: Sizes
    specimen: Specimen
    trace: Trace
    result: Any = None


def subject(group: str, model_type: str) -> Subject:
    """Raises what the type raises where nobody traces it."""
    return traced(group, model_type, specimen(group, model_type, Sizes()))


def traced(group: str, model_type: str, bare: Specimen) -> Subject:
    """Of what has run at the first sizes, and nobody traced it."""
    result, trace = bare.trace()
    return Subject(group, model_type, Sizes(), bare, trace, result)


def output(s: Subject) -> Verdict:
    """The traced output is that of the bare forward, bit for bit, and nothing is left behind."""
    first = s.specimen.run()
    bare, bare_state = s.specimen.run(), state(s.specimen)
    if difference(first, bare):
        return Verdict(None, f"two bare runs differ: {difference(first, bare)}")
    traced, _ = s.specimen.trace()
    found = difference(bare, traced) or difference(bare_state, state(s.specimen))
    return Verdict(found is None, found or "")


def state(specimen: Specimen) -> dict[str, Any]:
    """Random numbers to come, and all that a forward may write to in its model."""
    model = specimen.model
    return {
        "torch": torch.get_rng_state().clone(),
        "numpy": torch.from_numpy(np.random.rand(4)),
        "random": torch.tensor(random.random()),
        "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()},
    }


def attentions(s: Subject) -> Verdict:
    """The tensors that the model returns as attentions are those of role "weights": the very same, and no others but
    what a module that attends returns, and the model does not hand on."""
    theirs = {key: tensor.number for key, tensor in s.trace.calls[0].outputs.items() if is_attention(key)}
    ours = {record.tensor.number: record for record in s.trace.roles("weights") if record.materialised}
    missed = [key for key, number in theirs.items() if number not in ours]
    if not theirs:  # it returns none though it was asked to: nothing to compare with
        return Verdict(None, f"returns no attentions, {len(ours)} have the role" if ours else "no attentions")
    kept = set(theirs.values()) | given_by_modules(s.trace)
    others = [where(record) for number, record in ours.items() if number not in kept]
    if not missed and not others:
        return Verdict(True, f"{len(ours)}")
    values = dict(tensors(s.result))
    wrong = [key for key in missed if not is_distribution(values[f"[{key.replace('[', '][', 1)}"])]
    if wrong and wrong == missed and len(others) <= len(wrong):
        known = roles_by_number(s.trace)
        texts = [f"{key} is {found(known, s.trace.calls[0].outputs[key])}" for key in wrong]
        return Verdict(False, f"returned are no distributions: {listed(texts)}", apart=True)
    texts = [f"not weights: {listed(missed)}"] * bool(missed) + [f"not returned: {listed(others)}"] * bool(others)
    return Verdict(False, "; ".join(texts))


def is_attention(key: str) -> bool:
    """Whether a model says that it returns attentions there: "cross_attentions[0]"."""
    return key.partition("[")[0].endswith("attentions")


def is_distribution(weights: torch.Tensor) -> bool:
    """Whether its rows are shares of what is attended to, some of which may go to what is not shown."""
    return bool((weights >= 0).all()) and bool((weights.sum(-1) < 1.001).all())


def given_by_modules(trace: Trace) -> set[int | None]:
    """Numbers of what modules return that have others inside."""
    given: set[int | None] = set()
    for index, call in enumerate(trace.calls):
        inside = takewhile(lambda inner, depth=call.depth: inner.depth > depth, trace.calls[index + 1 :])
        if call.kind == "module" and any(inner.kind == "module" for inner in inside):
            given |= {tensor.number for tensor in call.outputs.values()}
    return given


def sdpa(s: Subject) -> Verdict:
    """Fused attention stands for as many weights, of the same shapes, as eager attention makes."""
    try:
        fused = specimen(s.group, s.model_type, s.sizes, "sdpa")
    except Exception as error:
        return Verdict(None, f"no sdpa: {first_line(error, 40)}")
    made, unmade = shapes(s.trace), shapes(fused.trace()[1])
    if made == unmade:
        return Verdict(True, f"{sum(made.values())}") if made else Verdict(None, "no attentions")
    return Verdict(False, f"eager {written(made)}, sdpa {written(unmade)}")


def shapes(trace: Trace) -> Counter[tuple[int, ...]]:
    """Shapes of the attention weights of a trace, made or not."""
    found = trace.roles("weights")
    made = {record.tensor.number: record for record in found if record.materialised}
    wholes = Counter(whole(record).number for record in made.values())
    tensors = {
        tensor.number: tensor
        for record in made.values()
        for tensor in [whole(record) if wholes[whole(record).number] > 1 else record.tensor]
    }
    unmade = [record.shape for record in found if not record.materialised]
    return Counter([*(tensor.shape for tensor in tensors.values()), *unmade])


def whole(record: Record) -> TensorMeta:
    """What weights are a part of, where a model gives those of one attention in parts."""
    given = next(iter(record.call.inputs.values()), record.tensor)
    return given if record.call.name == "__getitem__" else record.tensor


def written(shapes: Counter[tuple[int, ...]]) -> str:
    return " ".join(f"{count}×{shape}" for shape, count in sorted(shapes.items())) or "none"


def roles(s: Subject) -> Verdict:
    """Hidden states, logits and loss that the model returns have these roles.

    The first hidden state may be the token embedding itself, where nothing is added to it; the last may be a norm.
    """
    known = roles_by_number(s.trace)
    wrong = []
    for name in HIDDEN_STATES:
        states = list(returned(s.trace, name))
        for index, (key, tensor) in enumerate(states):
            is_last = key.partition("]")[0] == states[-1][0].partition("]")[0]
            allowed = {"residual", "token_embedding" if index == 0 else "", "norm" if is_last else ""}
            wrong += [f"{key} is {found(known, tensor)}"] * (not known.get(tensor.number, set()) & allowed)
    for name in ("logits", "loss"):
        for key, tensor in returned(s.trace, name):
            wrong += [f"{key} is {found(known, tensor)}"] * (name not in known.get(tensor.number, set()))
    return Verdict(not wrong, listed(wrong))


def found(known: dict[int | None, set[str]], tensor: TensorMeta) -> str:
    return " and ".join(sorted(known.get(tensor.number, set()))) or "nothing"


def roles_by_number(trace: Trace) -> dict[int | None, set[str]]:
    known: dict[int | None, set[str]] = {}
    for record in records(trace):
        if record.role is not None and record.materialised:
            known.setdefault(record.tensor.number, set()).add(record.role)
    return known


def returned(trace: Trace, *names: str) -> Iterator[tuple[str, TensorMeta]]:
    """The tensors that the model returned under these names: "logits", "attentions[0]"."""
    for key, tensor in trace.calls[0].outputs.items():
        if key.partition("[")[0] in names:
            yield key, tensor


def where(record: Record) -> str:
    return f"{record.path}.{record.name or record.call.name} {record.shape}"


def listed(texts: list[str], most: int = 2) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def first_line(error: BaseException, most: int = 160) -> str:
    text = (str(error.__cause__ or error).strip() or "no text").splitlines()[0]  # configurations hide the reason behind
    return f"{type(error.__cause__ or error).__name__}: {text[:most]}{'…' * (len(text) > most)}"
