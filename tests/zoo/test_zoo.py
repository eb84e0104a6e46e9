"""Two dozen types that differ much, in CI; `python -m tests.zoo` checks them all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest
import torch
from _pytest.mark import ParameterSet

from tests.zoo.checks import Subject, subject
from tests.zoo.rows import CHECKS
from tests.zoo.species import GROUPS

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own

TYPES = {
    "causal": """gpt2 llama qwen3 gemma3_text mixtral deepseek_v3 falcon bloom mpt gpt_neox gptj opt phi mamba xlnet
        recurrent_gemma""".split(),
    "masked": "bert deberta-v2 albert longformer squeezebert".split(),
    "seq2seq": "t5 bart".split(),
    "vision": "vit swin convnext".split(),
    "speech": "whisper wav2vec2".split(),
}

HELD = {
    "output": GROUPS,
    "attentions": GROUPS,
    "sdpa": GROUPS,
    "axes": GROUPS,
    "roles": ("causal", "masked", "seq2seq"),
    "named": GROUPS,
}
"""Each check that holds of all of these -> the groups that it is held against: of tokens, or all."""

UNNAMED = "longformer swin convnext wav2vec2".split()
"""Their windows, rows and columns of a picture, and stages have no letter."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Where all cores are busy, threads that wait for each other took five times as long as one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@lru_cache(maxsize=1)
def found(group: str, model_type: str) -> Subject:
    return subject(group, model_type)


def cases() -> Iterator[ParameterSet]:
    """Type by type, so that each is built once."""
    for group, types in TYPES.items():
        for model_type in types:
            for name in [name for name, groups in HELD.items() if group in groups]:
                if name != "named" or model_type not in UNNAMED:
                    yield pytest.param(group, model_type, name)


@pytest.mark.parametrize(("group", "model_type", "name"), list(cases()))
def test_a_model_of_transformers_agrees_with_its_trace(group: str, model_type: str, name: str) -> None:
    if model_type not in GROUPS[group]:
        pytest.skip(f"this transformers has no {model_type}")
    verdict = CHECKS[name](found(group, model_type))
    assert verdict.holds is not False or verdict.apart, verdict.text


def test_every_group_of_the_zoo_is_visited() -> None:
    assert list(TYPES) == list(GROUPS)
