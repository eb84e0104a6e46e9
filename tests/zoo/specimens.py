"""A model of the zoo with what it is given: built, run, and traced."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedModel

from shapetrace import Trace, trace

from .configs import small
from .inputs import inputs
from .sizes import Sizes
from .species import class_of

SHOWN = {"output_attentions": True, "output_hidden_states": True}


class Specimen(NamedTuple):
    model: PreTrainedModel
    inputs: dict[str, Any]

    def run(self) -> Any:
        """What the model gives, untraced."""
        seed()
        with torch.no_grad():
            return self.model(**self.inputs)

    def trace(self) -> tuple[Any, Trace]:
        """What it gives, and the record of it, which says all that shapetrace can say."""
        given: list[Any] = []

        def keep(module: torch.nn.Module, args: Any, output: Any) -> None:
            if module is self.model:  # and not a copy of it, that tells the axes
                given.append(output)

        handle = self.model.register_forward_hook(keep)
        seed()
        try:
            with torch.no_grad():
                found = trace(self.model, **self.inputs)
        finally:
            handle.remove()
        return given[0], found


def seed() -> None:
    """Some models draw numbers also in eval, and not all of them torch's."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def specimen(group: str, model_type: str, sizes: Sizes, attention: str = "eager") -> Specimen:
    """A model that has run once, with the most of the arguments below that it takes.

    Raises whatever building it, or running it untraced, raises.
    """
    model = build(group, model_type, sizes, attention)
    shown = SHOWN if attention == "eager" else {}  # others make no weights, or go back to eager if these are asked for
    given = inputs(model, sizes)
    unlabelled = {key: value for key, value in given.items() if key != "labels"}
    attempts = [given | shown, unlabelled | shown, unlabelled | shown | {"use_cache": False}, unlabelled]
    failures = []
    for attempt in attempts:
        found = Specimen(model, attempt)
        try:
            found.run()
            return found
        except Exception as error:
            failures.append(error)
    raise failures[0]


def build(group: str, model_type: str, sizes: Sizes, attention: str) -> PreTrainedModel:
    kind = class_of(group, model_type)
    config = fitting(kind, small(model_type, sizes))
    if group == "causal" and not config.is_encoder_decoder and getattr(config, "is_decoder", None) is False:
        config.is_decoder = True  # an encoder by default
    seed()
    return kind._from_config(config, attn_implementation=attention).eval()


def fitting(kind: type[PreTrainedModel], config: PretrainedConfig) -> PretrainedConfig:
    """The configuration, or that inside of it which the class is for, as that of the text of a model that also sees."""
    inside = [value for value in vars(config).values() if isinstance(value, kind.config_class)]
    return inside[0] if inside and not isinstance(config, kind.config_class) else config
