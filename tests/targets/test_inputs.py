"""Input specs: what they mean, and what is said of those that mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapetrace.errors import InputError
from shapetrace.targets.inputs import DTYPES, INTEGERS, declare, parse, shape


def sizes(text: str) -> list[int | str | tuple[str, int]]:
    """The sizes of a spec, as they were written."""

    def written(letter: str | None, number: int | None) -> int | str | tuple[str, int]:
        if letter is None or number is None:
            return letter or number or 0
        return letter, number

    return [written(size.letter, size.number) for size in parse(text).sizes]


def test_a_spec_is_a_name_a_dtype_and_sizes() -> None:
    spec = parse("ids: int64[2, 4]")
    assert (spec.name, spec.dtype, shape(spec, {}), spec.below) == ("ids", "int64", (2, 4), None)


def test_without_a_name_the_tensor_is_given_by_position() -> None:
    assert parse("float32[2]").name is None


def test_no_sizes_are_a_tensor_without_dims() -> None:
    assert shape(parse("float32[]"), {}) == ()


def test_a_dim_may_have_no_elements() -> None:
    assert shape(parse("float32[0, 4]"), {}) == (0, 4)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("bfloat16", "bfloat16"),
        ("int", "int32"),
        ("long", "int64"),
        ("short", "int16"),
        ("uint8", "uint8"),
        ("bool", "bool"),
        ("cfloat", "complex64"),
        ("complex128", "complex128"),
        ("float8_e4m3fn", "float8_e4m3fn"),
    ],
)
def test_dtypes_have_the_names_that_torch_gives_them(short: str, long: str) -> None:
    assert parse(f"{short}[2]").dtype == long


def test_sizes_are_numbers_letters_or_letters_with_their_number() -> None:
    assert sizes("x: float32[B, T=4, 8]") == ["B", ("T", 4), 8]


def test_a_name_may_be_any_that_python_has() -> None:
    assert parse("입력_2: bool[2]").name == "입력_2"


def test_a_name_may_be_that_of_a_dtype() -> None:
    spec = parse("float: int[2]")
    assert (spec.name, spec.dtype) == ("float", "int32")


def test_a_limit_follows_integers() -> None:
    assert parse("int64[2] < 100").below == 100
    assert parse("uint8[2] < 256").below == 256


def test_spaces_do_not_count() -> None:
    assert parse("  ids:int64[ 2,4 ]<7 ") == parse("  ids:int64[ 2,4 ]<7 ")
    spec = parse("\tids :int64 [B = 2,4]<7 ")
    assert (spec.name, spec.dtype, shape(spec, {}), spec.below) == ("ids", "int64", (2, 4), 7)


# --- letters ---------------------------------------------------------------------------------------------------------


def test_a_letter_has_the_size_that_it_is_given() -> None:
    assert shape(parse("float32[B, T, 8]"), {"B": 2, "T": 4}) == (2, 4, 8)


def test_a_letter_that_one_spec_declares_is_known_to_all() -> None:
    specs = [parse("mask: bool[B, T]"), parse("ids: int64[B=2, T=4]")]
    letters = declare(specs, {})
    assert letters == {"B": 2, "T": 4}
    assert [shape(spec, letters) for spec in specs] == [(2, 4), (2, 4)]


def test_a_letter_may_be_declared_again_if_its_size_is_the_same() -> None:
    assert declare([parse("float32[B=2]"), parse("float32[B=2, B=2]")], {"B": 2}) == {"B": 2}


# --- laws ------------------------------------------------------------------------------------------------------------

names = st.from_regex(r"[a-z_]\w{0,5}", fullmatch=True).filter(str.isidentifier)
whole_sizes = st.lists(st.integers(0, 2**63 - 1), max_size=4)


@given(st.none() | names, st.sampled_from(sorted(DTYPES)), whole_sizes, st.integers(1, 127))
def test_what_is_written_as_a_spec_is_read_as_the_same(
    name: str | None, dtype: str, numbers: list[int], below: int
) -> None:
    limit = f" < {below}" if dtype in INTEGERS else ""
    spec = parse(f"{name}: {dtype}{numbers}{limit}" if name else f"{dtype}{numbers}{limit}")
    assert (spec.name, list(shape(spec, {})), spec.below) == (name, numbers, below if limit else None)


@given(st.text(max_size=12) | st.lists(st.sampled_from([*"[]<=:,-BT2 x", "int64", "float", "ids"])).map("".join))
def test_any_text_is_read_or_refused_with_a_mark_under_it(text: str) -> None:
    try:
        parse(text)
    except InputError as error:
        first, line, mark, *_ = str(error).split("\n")
        assert first == "--input cannot be read"
        assert "^ expected " in mark
        assert mark.index("^") <= 2 * len(line)


# --- errors ----------------------------------------------------------------------------------------------------------

UNREADABLE = [
    ("", "^ expected the name of an input, or a dtype"),
    ("2: int64[2]", "^ expected the name of an input, or a dtype"),
    ("ids int64[2]", "    ^ expected ':' after the name 'ids', then a dtype"),
    ("ids", "   ^ expected ':' after the name 'ids', then a dtype"),
    ("ids:", "    ^ expected a dtype, such as float32, int64, bool"),
    ("ids: integer[2]", "     ^ expected a dtype: did you mean int, int8, int64?"),
    ("ids: q[2]", "     ^ expected a dtype, such as float32, int64, bool"),
    ("flaot32[2]", "^ expected a dtype: did you mean float32, float, cfloat?"),
    ("ids: int64", "          ^ expected '[' and the sizes, such as [2, 4]"),
    ("ids: int64(2, 4)", "          ^ expected '[' and the sizes, such as [2, 4]"),
    ("int64", "     ^ expected '[' and the sizes, such as [2, 4]"),
    ("int64[", "      ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[-1]", "      ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[b]", "      ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[BT]", "      ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[2, ]", "         ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[,2]", "      ^ expected a size: a whole number, a capital letter, or both, B=2"),
    ("int64[2 4]", "        ^ expected ',' and another size, or ']'"),
    ("int64[2.5]", "       ^ expected ',' and another size, or ']'"),
    ("int64[2, 4", "          ^ expected ',' and another size, or ']'"),
    ("int64[2=B]", "       ^ expected ',' and another size, or ']'"),
    ("int64[B=]", "        ^ expected the size of B, a whole number from 1 to 9223372036854775807"),
    ("int64[B=0]", "        ^ expected the size of B, a whole number from 1 to 9223372036854775807"),
    ("int64[B=T]", "        ^ expected the size of B, a whole number from 1 to 9223372036854775807"),
    ("int64[9223372036854775808]", "      ^ expected a size, a whole number from 0 to 9223372036854775807"),
    ("int64[2] x", "         ^ expected the end or a limit, < 100"),
    ("int64[2] < 3 < 4", "             ^ expected the end"),
    ("bool[2]]", "       ^ expected the end"),
    ("float32[2] < 3", "           ^ expected the end: only integers take a limit, not float32"),
    ("int64[2] <", "          ^ expected a limit, a whole number from 1 to 9223372036854775807"),
    ("int8[2] < 129", "          ^ expected a limit, a whole number from 1 to 128"),
    ("uint8[2] < 0", "           ^ expected a limit, a whole number from 1 to 256"),
    ("입력 int64[2]", "     ^ expected ':' after the name '입력', then a dtype"),
]


@pytest.mark.parametrize(("text", "mark"), UNREADABLE, ids=[text or "nothing" for text, _ in UNREADABLE])
def test_an_unreadable_spec_is_refused_with_the_place_what_was_expected_and_an_example(text: str, mark: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert str(error.value) == (f"--input cannot be read\n  {text}\n  {mark}\nfor example: --input 'ids: int64[2, 4]'")


def test_a_line_end_in_a_spec_does_not_move_the_mark() -> None:
    with pytest.raises(InputError, match=r"\n  x: int64\[2,  y\]\n               \^ expected a size"):
        parse("x: int64[2,\n y]")


def test_a_number_of_thousands_of_digits_is_refused_like_any_that_is_too_large() -> None:
    with pytest.raises(InputError, match="expected a size, a whole number from 0 to"):
        parse(f"int64[{'9' * 5000}]")


def test_a_letter_without_a_size_is_refused() -> None:
    with pytest.raises(InputError) as error:
        shape(parse("x: float32[B, T]"), {"B": 2})
    assert str(error.value) == (
        "--input cannot be read\n"
        "  x: float32[B, T]\n"
        "                ^ T has no size: write T=2 here, or give --T 2\n"
        "for example: --input 'ids: int64[2, 4]'"
    )


@pytest.mark.parametrize(
    ("before", "known", "mark"),
    [
        ([], {"B": 2}, "     ^ B=3 does not go with --B 2"),
        (["int64[B=2]"], {}, "     ^ B=3 does not go with B=2 elsewhere"),
    ],
)
def test_a_letter_with_two_sizes_is_refused(before: list[str], known: dict[str, int], mark: str) -> None:
    with pytest.raises(InputError) as error:
        declare(map(parse, [*before, "int8[B=3]"]), known)
    assert str(error.value).split("\n")[1:3] == ["  int8[B=3]", f"  {mark}"]
