"""Which class of transformers a configuration is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ...errors import TargetError, brief
from ..place import hint

__all__ = ["class_for"]

TASKS = """CAUSAL_LM SEQ_TO_SEQ_CAUSAL_LM MASKED_LM IMAGE_TEXT_TO_TEXT SPEECH_SEQ_2_SEQ CTC AUDIO_CLASSIFICATION
    ZERO_SHOT_IMAGE_CLASSIFICATION IMAGE_CLASSIFICATION VIDEO_CLASSIFICATION SEMANTIC_SEGMENTATION OBJECT_DETECTION
    DEPTH_ESTIMATION TEXT_TO_WAVEFORM TEXT_TO_SPECTROGRAM MULTIMODAL_LM PRETRAINING""".split()
"""In the order in which a type is asked for the class that says most; after them the model without a head."""

DECODERS_LAST = ["SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM"]
"""What types for which CAUSAL_LM is but a part of the model, or a way to use it, are asked before all others."""


def class_for(target: str, config: Any, named: str) -> Any:
    """The class that is named, or that the configuration names, or that transformers has for its type."""
    if named:
        return named_class(target, config, named)
    import transformers

    names = config.architectures or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TargetError(f"{target}: architectures is no list of names")
    for name in names:  # a file may name anything
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    if names:
        raise TargetError(f"{target}: transformers has no class {join(names)}, which architectures names")
    for task in tasks(config):
        name = mapping(task).get(config.model_type)
        if name:
            return getattr(transformers, name if isinstance(name, str) else name[0])
    raise TargetError(f"{target}: transformers has no model for {config.model_type!r} alone; it is a part of others")


def tasks(config: Any) -> Iterator[str]:
    is_causal = getattr(config, "is_decoder", None) is True
    first = [] if is_causal else DECODERS_LAST[: 3 if not config.is_encoder_decoder else 2]
    for task in dict.fromkeys([*first, *TASKS]):
        yield f"MODEL_FOR_{task}_MAPPING_NAMES"
    yield "MODEL_MAPPING_NAMES"


def mapping(name: str) -> Mapping[str, Any]:
    from transformers.models.auto import modeling_auto

    return getattr(modeling_auto, name, {})


def named_class(target: str, config: Any, named: str) -> Any:
    """A class by its name, or by the end of it: "BertForMaskedLM", "ForMaskedLM"."""
    known = classes_of(config)
    found = [kind for name, kind in known.items() if named in (name, name[len(common(known)) :])]
    if not found:
        raise TargetError(
            f"{target}: there is no class {named!r} for {config.model_type!r}{hint(named, known, 'it has')}"
        )
    return found[0]


def common(known: Mapping[str, Any]) -> str:
    """What the names of these classes begin with: "Bert"."""
    base = min(known, key=len, default="")
    return base.removesuffix("Model")


def classes_of(config: Any) -> dict[str, Any]:
    """The models that are defined beside the configuration, by name."""
    import transformers

    package = import_module(type(config).__module__.rpartition(".")[0])
    modules = [found.name for found in iter_modules(package.__path__) if found.name.startswith("modeling_")]
    return {
        name: kind
        for module in modules
        for name, kind in vars(import_module(f"{package.__name__}.{module}")).items()
        if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel) and hasattr(transformers, name)
    }


def join(names: list[str]) -> str:
    return brief(", ".join(names))
