"""Where a model runs."""

from __future__ import annotations

import pytest
import torch

from shapetrace.errors import TargetError
from shapetrace.targets import Request, Way, record


def said(device: str, weightless: bool | None = None) -> str:
    with pytest.raises(TargetError) as caught:
        record(Request("gpt", way=Way(device=device, weightless=weightless)))
    return str(caught.value)


def test_the_cpu_is_there() -> None:
    assert record(Request("gpt", way=Way(device="cpu"))).device == "cpu"


@pytest.mark.parametrize("device", ["mars", ""])
def test_a_device_of_no_kind_is_refused(device: str) -> None:
    assert said(device) == f"--device {device}: torch knows no such device"


@pytest.mark.skipif(torch.cuda.is_available(), reason="it is here")
def test_a_device_that_is_not_there_is_said_to_be_not_there() -> None:
    assert said("cuda").startswith("--device cuda: ")


@pytest.mark.skipif(torch.backends.cuda.is_built(), reason="this torch has it")
def test_fake_tensors_need_a_torch_that_knows_the_device() -> None:
    assert said("cuda", weightless=True) == (
        "--device cuda: this torch is built without cuda, which its fake tensors need as well; "
        "a build that has it shows the layouts there without the device"
    )


def test_of_meta_it_is_said_that_nothing_runs_there() -> None:
    assert record(Request("gpt", way=Way(device="meta"))).notes == (
        "meta is no device to run on: fused attention is taken apart there, and more may be copied than elsewhere",
    )
    assert record(Request("gpt", way=Way(device="cpu"))).notes == ()
