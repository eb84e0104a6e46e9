"""Inputs that go together, found by asking: a model that is given others says what it lacks, or what does not fit.

A forward is tried, and what it raises is read: that an input is missing, that there are so many pieces of an image and
no tokens for them, that a dim has another size. These rules know no model: they are what such errors have in common.
"""

from __future__ import annotations

import linecache
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any

import msgspec
import torch
from torch import Tensor

from ...capture.rebuild import attribute
from ...capture.weightless import within
from ..options import join
from ..refusals import WEIGHTLESS, said
from .configs import parts, quietly
from .documented import documented, number
from .inputs import MAKERS, RESERVED, Maker, inputs
from .plans import Plan, takes

__all__ = ["asked"]

TRIES = 10

Given = Mapping[str, Any]


def asked(model: Any, plans: Sequence[Plan], sizes: Mapping[str, int]) -> tuple[Plan, str]:
    """The first of these plans, with what the model says that it lacks, with which it runs; and what was left out, why.

    If there is none, what the first has come to.
    """
    whole, error = fitted(model, plans[0], sizes)
    if error is None:
        return whole, ""
    for plan in plans[1:]:
        found, raised = fitted(model, plan, sizes)
        if raised is None:
            left = [name for name in whole.names if name not in found.names]
            return found, f"{join(left)} not given: with {'it' if len(left) == 1 else 'them'} {said(error)}"
    return whole, ""


def fitted(model: Any, plan: Plan, sizes: Mapping[str, int]) -> tuple[Plan, Exception | None]:
    """What a plan comes to, and what is raised with that; None if nothing is."""
    tried: list[tuple[Plan, Exception]] = []
    while True:
        given: Given = {}
        try:
            given = inputs(model, plan, sizes)
            with torch.no_grad(), within(model), quietly(logging.CRITICAL):
                model(**given)
        except Exception as error:
            tried.append((plan, error))
            before = [each for each, _ in tried]
            better = (other for rule in RULES for other in rule(model, plan, given, error) if other not in before)
            found = next(better, None)
            if found is None or len(tried) == TRIES:
                return next((each, error) for each, error in reversed(tried) if each.cache)
            plan = found
        else:
            return plan, None


def lacking(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It names an input that it was not given."""
    for word in re.findall(r"\w+", str(error)):
        if can_be_given(model, word, given):
            yield having(plan, word)


def none_there(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """The line that raised speaks of an input that is None."""
    if "None" not in str(error):
        return
    for traceback in reversed(list(chain(error.__traceback__))):
        frame = traceback.tb_frame
        lines = range(*statement(traceback))
        words = re.findall(r"\w+", " ".join(linecache.getline(frame.f_code.co_filename, line) for line in lines))
        for word in words:
            if frame.f_locals.get(word, word) is None and can_be_given(model, word, given):
                yield having(plan, word)


def chain(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def statement(traceback: TracebackType) -> tuple[int, int]:
    """The lines of what was running; from Python 3.11 on it is known that a call has several."""
    positions = getattr(traceback.tb_frame.f_code, "co_positions", None)
    found = next(islice(positions(), traceback.tb_lasti // 2, None), None) if positions else None
    first, last = (found or (None, None))[:2]
    line = traceback.tb_lineno
    return first or line, (last or line) + 1


def unseen(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It looks at a mask that it made itself, which is weightless as well; one that it is given has values."""
    if isinstance(error, WEIGHTLESS):
        for name in documented(type(model)):
            if name.endswith("mask") and can_be_given(model, name, given):
                yield having(plan, name)


def can_be_given(model: Any, name: str, given: Given) -> bool:
    kind = type(model)
    if name in given or name not in takes(kind) or name.endswith(("embeds", "embeddings", "labels", "outputs")):
        return False
    return name in documented(kind) or any(re.search(pattern, name) for pattern in MAKERS)


def having(plan: Plan, name: str) -> Plan:
    return msgspec.structs.replace(plan, names=(*plan.names, name))


def unmatched(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It has counted the pieces of an image, or of sound, and the ids that stand for them."""
    counted = COUNTED.search(str(error)) or PLACED.search(str(error))
    if counted is None or "input_ids" not in given:
        return
    wanted, width = int(counted["wanted"]), model.get_input_embeddings().weight.shape[1]
    token = token_for(model.config, (counted.groupdict().get("what") or "image").lower())
    for whole in (wanted // width if wanted % width == 0 else 0, wanted):  # the numbers in them, or they themselves
        each, left = divmod(whole, given["input_ids"].shape[0])
        if each and not left and each <= MOST:
            yield msgspec.structs.replace(plan, tokens={**plan.tokens, token: each})


COUNTED = re.compile(
    r"(?P<what>\w+) (?:features|tokens).*?tokens\D*\d+\D*features\D*(?P<wanted>\d+)", re.DOTALL | re.IGNORECASE
)
PLACED = re.compile(r"value tensor of shape \[(?P<wanted>\d+), \d+\] cannot be broadcast to indexing result")
MOST = 1 << 16


def token_for(config: Any, what: str) -> int:
    """The id that stands for a piece of an image, or of sound; any if there is none."""
    for _, part in parts(config):
        for name in (f"{what}_token_id", f"{what}_token_index"):
            if type(token := attribute(part, name)) is int:
                return token
    return RESERVED - 1


def misshapen(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It tells the size that it has, and the one that it expected."""
    text = str(error)
    if found := re.search(r"expected input\[([\d, ]+)\] to have (\d+) channels, but got (\d+)", text):
        shape, wanted, has = numbers(found[1]), int(found[2]), int(found[3])
        for name, own in floats(given):
            if own == shape and wanted == shape[-1]:
                yield shaped(plan, name, (*shape[2:], shape[1]))
            if own == shape[1:]:
                yield shaped(plan, name, (wanted, *own[1:]))
            for dim in range(1, len(own)):
                if own[dim] == has:
                    yield shaped(plan, name, (*own[1:dim], wanted, *own[dim + 1 :]))
    if found := re.search(r"of shape \((\w+(?:, \w+)+)\)", text):  # it says all of them
        for name, own in floats(given):
            maker = Maker(model, plan, {"B": own[0]})
            yield shaped(plan, name, tuple(number(word, maker.size) for word in found[1].split(", ")[1:]))
    for has, wanted in expectations(text):
        for name, own in floats(given):
            for dim in reversed(range(1, len(own))):
                if own[dim] == has:
                    yield shaped(plan, name, (*own[1:dim], wanted, *own[dim + 1 :]))
        for name, own in floats(given):  # of which it has taken something away, or has put several together
            if len(own) == 3 and has < own[2] and own[2] + wanted - has > 0:
                yield shaped(plan, name, (own[1], own[2] + wanted - has))
            elif len(own) == 3 and own[2] == wanted:
                yield shaped(plan, name, (own[1], 2 * wanted - has))
            elif len(own) == 3 and has % own[2] == 0 and wanted % (has // own[2]) == 0:
                yield shaped(plan, name, (own[1], wanted // (has // own[2])))


def expectations(text: str) -> Iterator[tuple[int, int]]:
    """Sizes that are, and those that are to be."""
    if found := re.search(r"\[\d+, (\d+)\] X \[(\d+), \d+\]|\(\d+x(\d+) and (\d+)x\d+\)", text):
        has, wanted = filter(None, found.groups())
        yield int(has), int(wanted)
    if found := re.search(r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", text):
        yield int(found[1]), int(found[2])
    if found := re.search(r"with shape \[[^\]]*?(\d+)\], but got input of size\D*[\d, ]*?(\d+)\]", text):
        yield int(found[2]), int(found[1])
    for wanted, has in re.findall(
        r"(?:[Ee]xpect\w*|must be|should be|to be)[^\d\n]*(\d+)[^\d\n]*(?:but|found|got)[^\d\n]*(\d+)", text
    ):
        yield int(has), int(wanted)
    for has, wanted in re.findall(r"\((\d+)\s*[x*]\s*\d+\)\D*\((\d+)\s*[x*]\s*\d+\)", text):
        yield int(has), int(wanted)


def streamed(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It adds to the ids what is of another length: it takes so many of them at a time."""
    found = re.search(r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", str(error))
    if found and "input_ids" in given and given["input_ids"].shape[-1] == int(found[1]) and not plan.streams:
        yield msgspec.structs.replace(plan, streams=int(found[2]))


def flat(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It has a dim too few: one of a single channel."""
    if re.search("Dimension out of range|not enough values to unpack|too many indices", str(error)):
        for name, own in floats(given):
            yield shaped(plan, name, (1, *own[1:]))


def undecoded(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It picks from what it decodes by the ids of the text, and so decodes the text itself."""
    if "shape of the mask" in str(error) and takes(type(model)).get("decoder_input_ids") is not None:
        yield msgspec.structs.replace(plan, names=tuple(name for name in plan.names if not name.startswith("decoder")))


def looked_up(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It takes numbers out of what is no integer for the rows of a table."""
    if isinstance(error, IndexError) and "index out of range" in str(error):
        for name, _ in floats(given):
            if name not in plan.ones:
                yield msgspec.structs.replace(plan, ones=(*plan.ones, name))


def ended(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It looks for the ends of the texts, of which there are none among ids that stand for nothing else."""
    token = attribute(model.config, "eos_token_id")
    is_missed = "<eos>" in str(error) or (isinstance(error, IndexError) and str(error).endswith("with size 0"))
    if is_missed and type(token) is int:
        yield msgspec.structs.replace(plan, tokens={**plan.tokens, token: 1})


def cached(model: Any, plan: Plan, given: Given, error: Exception) -> Iterator[Plan]:
    """It can keep no keys and values."""
    names = takes(type(model))
    if "use_cache" in names or "kwargs" in names:
        yield msgspec.structs.replace(plan, cache=False)


Rule = Callable[[Any, Plan, Given, Exception], Iterator[Plan]]
RULES: tuple[Rule, ...] = (
    unmatched,
    lacking,
    none_there,
    unseen,
    streamed,
    misshapen,
    flat,
    undecoded,
    looked_up,
    ended,
    cached,
)


def floats(given: Given) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, value in given.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            yield name, tuple(value.shape)


def shaped(plan: Plan, name: str, shape: tuple[int, ...]) -> Plan:
    return msgspec.structs.replace(plan, shapes={**plan.shapes, name: shape})


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))
