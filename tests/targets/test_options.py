"""Options: which arguments of a builder the words on a command line are."""

import inspect
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest

from shapetrace.errors import TargetError
from shapetrace.letters import in_order
from shapetrace.targets.options import bind, signature_of, sized, sizes

if TYPE_CHECKING:
    from nowhere import Config


def call(build: Callable[..., Any], line: str, *, spare: Collection[str] = ()) -> Any:
    """What `build` returns, called with the options on a command line."""
    bound, _ = bind("model", signature_of(build), line.split(), spare=spare, others=["depth", "format"])
    return build(*bound.args, **bound.kwargs)


def refusal(build: Callable[..., Any], line: str) -> str:
    with pytest.raises(TargetError) as error:
        call(build, line)
    return str(error.value)


def plain(B: int = 2, n_heads: int = 4, dropout: float = 0.1, bias: bool = True, name: str = "a") -> Any:
    return B, n_heads, dropout, bias, name


def test_what_is_not_given_is_left_to_the_builder() -> None:
    bound, letters = bind("model", signature_of(plain), [], spare=(), others=())
    assert (bound.args, bound.kwargs, letters) == ((), {}, {})


def test_an_option_is_a_parameter_read_as_its_annotation_says() -> None:
    assert call(plain, "--B 3 --n-heads 8 --dropout 1 --no-bias --name 5") == (3, 8, 1.0, False, "5")


def test_a_value_may_follow_an_equals_sign() -> None:
    assert call(plain, "--n-heads=8 --name=--x=y") == (2, 8, 0.1, True, "--x=y")


def test_underscores_are_as_good_as_dashes() -> None:
    assert call(plain, "--n_heads 8")[1] == 8


def test_of_an_option_given_twice_the_last_counts() -> None:
    assert call(plain, "--n-heads 8 --bias --n-heads 9 --no-bias") == (2, 9, 0.1, False, "a")


def test_a_negative_number_is_a_value() -> None:
    assert call(plain, "--n-heads -3")[1] == -3


def test_literals_are_choices_and_keep_their_type() -> None:
    def build(kind: Literal["relu", 2] = "relu") -> Any:
        return kind

    assert [call(build, f"--kind {kind}") for kind in ("relu", "2")] == ["relu", 2]


def test_unions_are_tried_from_the_narrowest_on() -> None:
    def build(
        a: str | int | None = None,
        b: Optional[float] = None,  # noqa: UP045 as older code writes it
        c: int | Callable[..., Any] = 0,
        d: Annotated[int, ""] = 0,
    ) -> Any:
        return a, b, c, d

    assert call(build, "--a 1 --b 2 --c 3 --d 4") == (1, 2.0, 3, 4)
    assert call(build, "--a x --b None") == ("x", None, 0, 0)
    assert call(build, "--a None") == (None, None, 0, 0)


def test_without_an_annotation_a_value_is_what_python_writes_so_or_text() -> None:
    def build(a: Any = None, b=0, c="", d=False, e=None) -> Any:
        return a, b, c, d, e

    assert call(build, "--a [1,2] --b 0.5 --c 1 --d --e cpu") == ([1, 2], 0.5, "1", True, "cpu")


def test_an_annotation_that_only_type_checkers_can_read_is_as_good_as_none() -> None:
    def build(n: "int", config: "Config | None" = None) -> Any:
        return n, config

    assert call(build, "--n 3 --config x") == (3, "x")


def test_a_parameter_that_goes_by_position_only_has_its_option_too() -> None:
    def build(a: int, b: int = 2, /, c: int = 3) -> Any:
        return a, b, c

    assert call(build, "--a 1 --c 5") == (1, 2, 5)


def test_a_builder_that_takes_any_keyword_is_given_all() -> None:
    def build(a: int = 1, **rest: Any) -> Any:
        return a, rest

    assert call(build, "--a 2 --n-layers 3 --C 4 --kind gelu --fast") == (
        2,
        {"n_layers": 3, "C": 4, "kind": "gelu", "fast": True},
    )


def test_a_class_takes_what_its_init_takes() -> None:
    class Net:
        def __init__(self, width: int = 3) -> None:
            self.width = width

    assert call(Net, "--width 5").width == 5


def test_of_what_is_written_in_c_no_options_are_known() -> None:
    assert signature_of(dict) == inspect.Signature()


# --- letters ---------------------------------------------------------------------------------------------------------


def test_a_letter_that_only_an_input_spec_uses_is_kept_from_the_builder() -> None:
    def build(**rest: Any) -> Any:
        return rest

    bound, letters = bind("model", signature_of(build), ["--B", "3", "--C", "4"], spare={"B"}, others=())
    assert bound.arguments == {"rest": {"C": 4}}
    assert letters == {"B": 3, "C": 4}


def test_the_sizes_of_a_builder_are_its_letters_with_their_defaults() -> None:
    def build(B: int = 2, T: int = 4, F: int | None = None, n: int = 3, P: float = 0.1, **rest: Any) -> Any: ...

    bound, _ = bind("model", signature_of(build), ["--T", "7", "--G", "1"], spare=(), others=())
    assert sizes(bound) == {"B": 2, "T": 7, "G": 1}
    assert bound.arguments == {"T": 7, "rest": {"G": 1}}


def test_letters_come_in_the_order_that_a_reader_expects_and_unknown_ones_last() -> None:
    assert list(in_order(dict.fromkeys("NLVFDHCSTBGPA", 1))) == list("BTSCHDGFVPLNA")


def test_a_letter_that_is_no_size_is_read_as_its_annotation_says() -> None:
    def build(P: float = 0.1) -> Any:
        return P

    assert call(build, "--P 0.5") == 0.5


# --- errors ----------------------------------------------------------------------------------------------------------


class Thing:
    pass


def strict(
    C: int, n_heads: int, kind: Literal["relu", "gelu"] = "relu", p: float | None = None, x: Thing | None = None
) -> None: ...


NEEDED = "--C 8 --n-heads 2 "

REFUSED = [
    (plain, "--S 3", "model takes no --S; it takes --B --n-heads --dropout --bias --name"),
    (
        plain,
        "--S 3 --x --nheads=2",
        "model takes no --S, --x and --nheads: did you mean --n-heads? it takes --B --n-heads --dropout --bias --name",
    ),
    (
        plain,
        "--dept 3 --fromat x",
        "model takes no --dept and --fromat: did you mean --depth and --format? "
        "it takes --B --n-heads --dropout --bias --name",
    ),
    (lambda: None, "--C 3", "model takes no --C; it takes no options"),
    (plain, "--B 0", "--B is the size of an axis, a whole number from 1 on, not '0'"),
    (plain, "--B -1", "--B is the size of an axis, a whole number from 1 on, not '-1'"),
    (plain, "--B 1.5", "--B is the size of an axis, a whole number from 1 on, not '1.5'"),
    (plain, "--B=", "--B is the size of an axis, a whole number from 1 on, not ''"),
    (plain, f"--B {2**63}", f"--B is the size of an axis, a whole number from 1 on, not '{2**63}'"),
    (plain, "--B", "--B needs a value: the size of an axis, a whole number from 1 on"),
    (plain, "--B --bias", "--B needs a value: the size of an axis, a whole number from 1 on"),
    (plain, "--n-heads x", "model: --n-heads is a whole number, not 'x'"),
    (plain, "--n-heads", "model: --n-heads needs a value: a whole number"),
    (plain, "--dropout x", "model: --dropout is a number, not 'x'"),
    (plain, "--bias=yes", "model: --bias takes no value: --bias or --no-bias"),
    (plain, "--no-bias=yes", "model: --no-bias takes no value: --bias or --no-bias"),
    (plain, "--bias yes", "model: 'yes' is no option; what follows the target is --name VALUE"),
    (plain, "-b 3", "model: '-b' is no option; what follows the target is --name VALUE"),
    (plain, "-- 3", "model: '--' is no option; what follows the target is --name VALUE"),
    (strict, "", "model needs --C and --n-heads; it takes --C --n-heads --kind --p --x"),
    (strict, f"{NEEDED}--kind tanh", "model: --kind is relu or gelu, not 'tanh'"),
    (strict, f"{NEEDED}--p x", "model: --p is None or a number, not 'x'"),
    (strict, f"{NEEDED}--x 3", "model: --x is a Thing | None, which cannot be given on the command line"),
]


@pytest.mark.parametrize(("build", "line", "message"), REFUSED, ids=[line or "nothing" for _, line, _ in REFUSED])
def test_what_a_builder_does_not_take_is_refused_with_what_it_takes(
    build: Callable[..., Any], line: str, message: str
) -> None:
    assert refusal(build, line).replace(f"{__name__}.", "") == message


def test_top_k_is_how_many_experts_are_chosen_where_there_are_experts() -> None:
    def mixture(num_experts: int = 4, top_k: int = 2) -> None: ...
    def sampler(vocab_size: int = 9, top_k: int = 2) -> None: ...

    found = [sized(bind("model", signature_of(build), [], spare=(), others=())[0]) for build in (mixture, sampler)]
    assert found == [{"num_experts": "E", "top_k": "K"}, {"vocab_size": "V"}]
