"""The kinds of error, and the words that a user may have meant."""

import pickle
import re

import pytest

from shapetrace import errors
from shapetrace.errors import FileError, InputError, LookupFailed, ShapetraceError, TargetError, near


def test_the_docstring_shows_every_kind_with_what_it_is() -> None:
    shown = re.findall(r"^[├└]── (\w+) +(\S.*)$", errors.__doc__ or "", flags=re.MULTILINE)
    kinds = [kind for kind in ShapetraceError.__subclasses__() if kind.__module__ == errors.__name__]
    assert [name for name, _ in shown] == [kind.__name__ for kind in kinds]
    for (_, what), kind in zip(shown, kinds, strict=True):
        assert f"{what.partition(' (also')[0].capitalize()}." == kind.__doc__


@pytest.mark.parametrize("kind", [ShapetraceError, TargetError, InputError, FileError, LookupFailed])
def test_an_error_prints_as_its_message_also_after_it_came_from_another_process(kind: type[ShapetraceError]) -> None:
    error = kind("'x' is not here:\n  did you mean y?")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "'x' is not here:\n  did you mean y?"


def test_a_failed_lookup_shows_what_a_terminal_would_obey() -> None:
    assert str(LookupFailed("there is a\x1b[31mb")) == "there is a\\x1b[31mb"


def test_a_failed_lookup_is_what_python_programs_expect_of_one() -> None:
    assert issubclass(LookupFailed, KeyError)


@pytest.mark.parametrize(
    ("word", "words", "meant"),
    [
        pytest.param("gtp", ["encoder", "gpt"], ["gpt"], id="two letters changed places"),
        pytest.param("Q", ["k", "q"], ["q"], id="another case"),
        pytest.param("head_out", ["heads", "head_output"], ["head_output", "heads"], id="the nearest first"),
        pytest.param("b.attn", ["b.1.attn", "b.0.attn", "b.2.attn"], ["b.1.attn", "b.0.attn", "b.2.attn"], id="equal"),
        pytest.param("xaa", ["aab", "aac", "aad", "aae"], ["aab", "aac", "aad"], id="no more than three"),
        pytest.param("zzz", ["q", "k", "v"], [], id="nothing near"),
        pytest.param("q", [], [], id="nothing at all"),
        pytest.param("q" * 10**7, ["q" * 90], [], id="no word, but what takes hours to compare"),
    ],
)
def test_the_words_that_a_user_may_have_meant(word: str, words: list[str], meant: list[str]) -> None:
    assert near(word, words) == meant
