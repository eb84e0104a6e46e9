"""Models of timm and torchvision, by their name."""

from __future__ import annotations

import pytest

from shapetrace.errors import ShapetraceError
from shapetrace.schema import Trace
from shapetrace.targets import Request, Way, find, record

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["timm", "torchvision"])
def library(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


def traced(target: str, *options: str, **way: object) -> Trace:
    return record(Request(target, options=options, way=Way(**way)))


def test_a_model_is_given_images_and_has_no_weights(library: str) -> None:
    found = traced(f"{library}:resnet18", "--B", "3")
    assert (found.model, found.weightless) == ("ResNet", True)
    assert found.calls[0].inputs["x"].axes == ("B", 3, 224, 224)
    assert found.calls[0].outputs[""].axes == ("B", 1000)


def test_what_its_builder_takes_are_options(library: str) -> None:
    assert traced(f"{library}:resnet18", "--num-classes", "10").calls[0].outputs[""].shape == (2, 10)
    assert traced(f"{library}:resnet18", changes=("num_classes=10",)).calls[0].outputs[""].shape == (2, 10)


def test_weights_are_made_where_they_are_wanted(library: str) -> None:
    real, fake = (traced(f"{library}:resnet18", weightless=weightless) for weightless in (False, None))
    assert not real.weightless
    assert [(call.path, call.name) for call in real.calls] == [(call.path, call.name) for call in fake.calls]


def test_a_builder_that_looks_at_what_it_computes_is_built_first_and_then_loses_its_weights() -> None:
    pytest.importorskip("timm")
    found = traced("timm:regnetx_002")  # it takes the widths of its stages out of a tensor of them
    assert (found.weightless, found.calls[0].outputs[""].axes) == (True, ("B", 1000))


def test_a_name_that_is_not_there_is_said_with_what_is_near(library: str) -> None:
    with pytest.raises(ShapetraceError) as caught:
        traced(f"{library}:resnet19")
    said = str(caught.value)
    assert said.startswith(f"{library}:resnet19: {library} has no model 'resnet19': did you mean resnet")


@pytest.mark.parametrize("name", ["timm", "torchvision"])
def test_without_the_library_it_is_said_what_brings_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapetrace.targets.vision.find_spec", lambda _: None)
    with pytest.raises(ShapetraceError) as caught:
        find(f"{name}:resnet18")
    assert str(caught.value) == (
        f"{name}:resnet18: this needs {name}, which is not installed: pip install 'shapetrace[{name}]'"
    )


@pytest.mark.parametrize(
    ("target", "options", "sizes"),
    [
        ("timm:vit_tiny_patch16_224", "--img-size 32", (2, 3, 32, 32)),
        ("timm:vit_tiny_patch16_224", "--img-size (32,48) --in-chans 1", (2, 1, 32, 48)),
        ("timm:mixer_s16_224", "--img-size 64", (2, 3, 64, 64)),
        ("timm:resnet18", "--in-chans 1", (2, 1, 224, 224)),
        ("timm:resnet18", "--in-chans 4 --features-only", (2, 4, 224, 224)),
        ("torchvision:vit_b_16", "--image-size 32", (2, 3, 32, 32)),
    ],
)
def test_an_option_that_changes_what_it_takes_changes_what_it_is_given(
    target: str, options: str, sizes: tuple[int, ...]
) -> None:
    pytest.importorskip(target.partition(":")[0])
    assert next(iter(traced(target, *options.split()).calls[0].inputs.values())).shape == sizes


@pytest.mark.parametrize(("name", "option"), [("timm", "pretrained"), ("torchvision", "weights")])
def test_weights_cannot_be_asked_for(name: str, option: str) -> None:
    pytest.importorskip(name)
    with pytest.raises(ShapetraceError) as caught:
        traced(f"{name}:resnet18", f"--{option}")
    assert str(caught.value) == (
        f"{name}:resnet18: --{option} would bring weights, and nothing is downloaded; leave it out"
    )


def test_an_option_that_is_said_twice_and_otherwise_is_refused(library: str) -> None:
    with pytest.raises(ShapetraceError) as caught:
        traced(f"{library}:resnet18", "--num-classes", "10", changes=("num_classes=11",))
    assert str(caught.value) == (f"{library}:resnet18: --set num_classes=11 and --num-classes 10 do not go together")
