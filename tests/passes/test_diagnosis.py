"""What is said of a call that failed, on plain data: also of what no torch would record."""

import msgspec
import pytest

from shapetrace.passes.diagnosis import diagnosis
from shapetrace.passes.failure import failure
from shapetrace.schema import Call, TensorMeta, Trace

Q = TensorMeta((2, 4, 8), (32, 8, 1), number=0, axes=("B", "T", "C"))
K = TensorMeta((2, 5, 8), (40, 8, 1), number=1, axes=("B", "S", "C"))


def failed(name: str, error: str, *tensors: TensorMeta, **literals: str) -> Trace:
    inputs = {str(place): tensor for place, tensor in enumerate(tensors)}
    outer = Call("module", "", "Net", 0, inputs={"q": Q, "k": K}, error=error)
    call = Call("function", "", name, 1, inputs=inputs, literals=literals, error=error)
    return Trace("net", "Net", error=error, calls=(outer, call))


MISMATCH = "RuntimeError: The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1"


def test_two_axes_that_do_not_go_together_are_named() -> None:
    assert diagnosis(failed("add", MISMATCH, Q, K)) == (
        "add lines dims up from the last: T=4 of q [B=2, T=4, C=8] met S=5 of k [B=2, S=5, C=8]; "
        "they must be equal, or one of them 1"
    )


def test_of_a_forward_that_did_not_fail_nothing_is_said() -> None:
    trace = msgspec.structs.replace(failed("add", MISMATCH, Q, K), error=None)
    assert (diagnosis(trace), failure(trace)) == (None, "")


def test_of_an_error_that_no_rule_knows_only_the_place_is_said() -> None:
    trace = failed("add", "RuntimeError: the weather is bad", Q, K)
    assert diagnosis(trace) is None
    assert failure(trace) == (
        """\
shapetrace: raised in Net, by q + k
    q  [B, T, C]  (2, 4, 8)  stride (32, 8, 1)  float32  input of the model
    k  [B, S, C]  (2, 5, 8)  stride (40, 8, 1)  float32  input of the model"""
    )


def test_what_a_terminal_would_obey_is_shown() -> None:
    trace = failed("add", "RuntimeError: no", msgspec.structs.replace(Q, number=7, name="a\x1b[31mb"), K)
    assert "\x1b" not in failure(trace)
    assert "a\\x1b[31mb" in failure(trace)


def test_an_index_is_not_blamed_for_a_dtype_that_it_may_have() -> None:
    index = TensorMeta((2,), (1,), "int64", number=2)
    half = msgspec.structs.replace(K, dtype="float16")
    error = "RuntimeError: index_add_(): self and source expected to have the same dtype"
    said = diagnosis(failed("index_add_", error, Q, index, half))
    assert said == (
        "index_add_ wants one dtype: q is float32, k is float16; k.to(q.dtype) makes them one"
    )  # the index is no part of it


@pytest.mark.parametrize(
    "trace",
    [
        failed("add", MISMATCH, Q, msgspec.structs.replace(K, axes=("B",))),
        failed("view", "RuntimeError: shape '[]' is invalid for input of size 64", Q, **{"1": "9" * 5000}),
        failed("embedding", "IndexError: index out of range in self"),
        failed("cat", "RuntimeError: Sizes of tensors must match", TensorMeta(())),
        failed("linear", "RuntimeError: mat1 and mat2", TensorMeta(()), TensorMeta((2, 2))),
    ],
)
def test_what_no_torch_would_record_is_no_mistake_that_is_known(trace: Trace) -> None:
    assert diagnosis(trace) is None


def test_a_dim_that_is_larger_than_any_memory_takes_no_longer() -> None:
    large = TensorMeta((2**62 + 1,), (1,), number=0)
    error = "RuntimeError: shape '[3, 5]' is invalid for input of size 7"
    assert diagnosis(failed("view", error, large, **{"1": f"{2**61}", "2": "2"})) is not None
