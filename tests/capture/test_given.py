"""What a forward was given is given again: as it was before the forward, at other sizes, and what was one is one."""

from __future__ import annotations

import dataclasses
import threading
from collections import namedtuple
from typing import Any

import pytest
import torch
from torch import Tensor

from shapetrace.capture.given import CannotProbe, given


def forward(x: Any, y: Any = None, *more: Any, mask: Any = None, **others: Any) -> None: ...


def again(*args: Any, shapes: dict[int, tuple[int, ...]] | None = None, **kwargs: Any) -> Any:
    return given(forward, args, kwargs).at(shapes or {}, seed=0)


def test_integers_and_small_floats_keep_their_values_and_repeat_them_where_there_are_more() -> None:
    ids, x = torch.tensor([[1, 2], [3, 4]]), torch.tensor([0.5, 1.5])
    (more, floats), _ = again(ids, x, shapes={0: (3, 1), 1: (5,)})
    assert more.tolist() == [[1], [3], [1]]
    assert floats.tolist() == [0.5, 1.5, 0.5, 1.5, 0.5]


@pytest.mark.parametrize("mask", [[[1, 1, 1, 1, 1, 0]], [[0, 1, 1, 1, 1, 1]]])
def test_a_mask_that_is_shorter_or_drawn_anew_still_masks_something(mask: list[list[int]]) -> None:
    kept = given(forward, (torch.tensor(mask),), {})
    for seed in range(20):
        for redrawn in (False, True):
            (other,), _ = kept.at({0: (1, 3)}, seed, redrawn=redrawn)
            assert set(other.flatten().tolist()) == {0, 1}


def test_of_large_floats_only_the_form_is_kept() -> None:
    x = torch.zeros(1 << 17, dtype=torch.float64, requires_grad=True)
    held = given(forward, (x,), {}).held[0]
    assert (held.values, held.shape) == (None, (1 << 17,))
    (other,), _ = again(x, shapes={0: (3,)})
    assert (other.shape, other.dtype, other.requires_grad) == ((3,), torch.float64, True)


def test_what_is_given_again_is_a_copy_each_time() -> None:
    ids, log = torch.tensor([1, 2]), [3]
    kept = given(forward, (ids, log), {})
    (first, first_log), _ = kept.at({}, seed=0)
    first.zero_()
    first_log.append(4)
    (second, second_log), _ = kept.at({}, seed=0)
    assert (second.tolist(), second_log, ids.tolist(), log) == ([1, 2], [3], [1, 2], [3])


def test_it_is_as_it_was_before_the_forward_changed_it() -> None:
    cache, counts = [torch.tensor([1])], torch.tensor([1])
    kept = given(forward, (cache,), {"counts": counts})
    cache.append(torch.tensor([2]))
    counts += 1
    args, kwargs = kept.at({}, seed=0)
    assert (args, kwargs) == (([torch.tensor([1])],), {"counts": torch.tensor([1])})


def test_one_tensor_that_is_given_twice_is_one_again_unless_it_is_given_other_shapes() -> None:
    x = torch.zeros(2, 4)
    (a, b), kwargs = again(x, x, mask=x)
    assert a is b is kwargs["mask"]
    (a, b), kwargs = again(x, x, mask=x, shapes={0: (3, 4), 2: (3, 4)})
    assert a is kwargs["mask"]
    assert (a.shape, b.shape) == ((3, 4), (2, 4))


class Cache:
    """As key/value caches are: no container that anybody knows."""

    def __init__(self, *tensors: Tensor) -> None:
        self.layers = [{"k": tensor} for tensor in tensors]
        self.seen = len(tensors)


@dataclasses.dataclass(frozen=True)
class Batch:
    ids: Tensor
    names: tuple[str, ...] = ("a",)

    def __post_init__(self) -> None:
        if not isinstance(self.ids, Tensor):
            raise TypeError("ids must be a tensor")


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "shapes"),
    [
        ([torch.zeros(2), torch.zeros(3)], [(2,), (3,)]),
        ({"a": torch.zeros(2), "b": {"c": torch.zeros(3)}}, [(2,), (3,)]),
        (Pair(torch.zeros(2), [torch.zeros(3)]), [(2,), (3,)]),
        (Batch(torch.zeros(2)), [(2,)]),
        (Cache(torch.zeros(2), torch.zeros(3)), [(2,), (3,)]),
        (torch.nn.Parameter(torch.zeros(2)), [(2,)]),
        ([torch.zeros(2)[0], 3, None, "a", torch.float32], [()]),
    ],
)
def test_tensors_are_found_in_whatever_holds_them(value: Any, shapes: list[tuple[int, ...]]) -> None:
    kept = given(forward, (value,), {})
    assert [held.shape for held in kept.held] == shapes
    (other,), _ = kept.at({0: (7,)} if shapes[0] else {}, seed=0)
    assert type(other) is (Tensor if isinstance(value, Tensor) else type(value))
    assert [held.shape for held in given(forward, (other,), {}).held] == [*([(7,)] if shapes[0] else [()]), *shapes[1:]]


def test_tensors_are_named_as_forward_names_its_parameters() -> None:
    x = torch.zeros(2)
    kept = given(forward, (x, [x], x), {"mask": x, "other": {"deep": x}})
    assert [held.name for held in kept.held] == ["x", "y", "2", "mask", "other"]


class Mine(Tensor): ...


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (torch.zeros(2).as_subclass(Mine), "it is given a Mine"),
        (torch.eye(2).to_sparse(), "it is given a sparse, nested or quantised tensor"),
        (threading.Lock(), "its arguments cannot be copied: TypeError"),
        ((number for number in (1, 2)), "its arguments cannot be copied: TypeError"),
    ],
)
def test_what_cannot_be_given_again_is_said(value: Any, reason: str) -> None:
    with pytest.raises(CannotProbe) as raised:
        given(forward, ([value],), {})
    assert str(raised.value) == reason


def test_a_structure_that_holds_itself_is_given_again_as_one() -> None:
    ring: list[Any] = [torch.zeros(2)]
    ring.append(ring)
    (other,), _ = again(ring)
    assert other[1] is other
    assert other[0].shape == (2,)
