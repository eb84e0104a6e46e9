"""The model types of the zoo, by group."""

from __future__ import annotations

from typing import Any

import transformers
from transformers.models.auto import modeling_auto as auto

GROUPS: dict[str, dict[str, Any]] = {
    "causal": dict(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
    "masked": dict(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "seq2seq": dict(auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    "vision": dict(auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES),
    "speech": {
        **auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES,
        **auto.MODEL_FOR_CTC_MAPPING_NAMES,
        **auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    },
}
"""Group -> model type -> class name. Where there are several classes for a type, the first is meant."""


def class_of(group: str, model_type: str) -> type[transformers.PreTrainedModel]:
    name = GROUPS[group][model_type]
    found: type[transformers.PreTrainedModel] = getattr(transformers, name if isinstance(name, str) else name[0])
    return found
