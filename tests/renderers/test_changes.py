"""A diff as a person reads it, and as a program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

import shapetrace
from shapetrace.diff import Diff, compare
from shapetrace.renderers import Style, changes, changes_json
from shapetrace.schema import Call, TensorMeta, Trace
from tests.diff.nodes import linear, module, trace_of

TRACES = Path(__file__).parent.parent.parent / "traces"


def diff(before: str, after: str) -> Diff:
    return compare(*(shapetrace.load(TRACES / f"{name}.jsonl") for name in (before, after)))


def text(found: Diff, width: int = 80, *, all: bool = False, context: int = 1) -> str:
    return changes(found, Style(width=width, color=False, all=all), context=context) + "\n"


def test_pre_ln_against_post_ln() -> None:
    assert (
        text(diff("gpt", "postln"))
        == """\
--- gpt     GPT   decoder-only · pre-LN · learned positions
+++ postln  GPT   decoder-only · post-LN · learned positions
    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32
    …
    x · residual  +                     [B,T,C]
~   blocks.0  Block                     role pre-LN block → post-LN block
                                        and blocks.1
↕     norm_1  LayerNorm                 [B,T,C]   role norm → residual
                                        before attention → after x · residual
      attention  MultiHeadAttention · causal self-attention  20 tensors, same
      x · residual  +                   [B,T,C]
↕     norm_2  LayerNorm                 [B,T,C]   role norm → residual
                                        before feed_forward → after x · residual
      feed_forward  FeedForward         3 tensors, same
      …
-   norm_f  LayerNorm                   [B,T,C]
    head · logits  Linear               [B,T,V]
    …
2 moved · 1 removed · 1 changed · 37 same
"""
    )


def test_as_many_heads_for_keys_as_for_queries_against_fewer() -> None:
    assert (
        text(diff("gpt", "gqa"), 100)
        == """\
--- gpt  GPT   decoder-only · pre-LN · learned positions
+++ gqa  GPT   decoder-only · pre-LN · learned positions · GQA, 2 key/value heads
    B=2 T=4 D=4 V=16 L=2   float32
~   C 8 → 16: explains 20 shapes
~   H 2 → 4: explains 20 shapes
~   F 32 → 64: explains 4 shapes
~   G 2, only after
    …
    blocks.0  Block · pre-LN block  and blocks.1
      …
      attention  MultiHeadAttention · causal self-attention
~       w_qkv  Linear               [B,T,3·C] → [B,T,C+2·G·D]   (2,4,24) → (2,4,32)
        q  split                    [B,T,C]
~       k  split                    [B,T,C] → [B,T,G·D]
~       v  split                    [B,T,C] → [B,T,G·D]
        view                        [B,T,H,D]
        q  transpose                [B,H,T,D]
~       view                        [B,T,H,D] → [B,T,G,D]
~       k  transpose                [B,H,T,D] → [B,G,T,D]
~       view                        [B,T,H,D] → [B,T,G,D]
~       v  transpose                [B,H,T,D] → [B,G,T,D]
+       k  repeat_interleave        [B,H,T,D]
+       v  repeat_interleave        [B,H,T,D]
        transpose                   [B,H,D,T]
        …
2 added · 7 changed · 33 same
"""
    )


def test_learned_positions_against_rotary_ones_without_context() -> None:
    assert (
        text(diff("gpt", "rope"), 120, context=0)
        == """\
--- gpt   GPT   decoder-only · pre-LN · learned positions
+++ rope  GPT   decoder-only · pre-LN · RoPE
    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32
    …
-   index  arange                   [T]
-   position_embedding  Embedding   [T,C]
-   x · residual  +                 [B,T,C]
    blocks.0  Block · pre-LN block  and blocks.1
      …
      attention  MultiHeadAttention · causal self-attention
        …
~       q  transpose                [B,H,T,D]   role q → none
        …
~       k  transpose                [B,H,T,D]   role k → none
        …
+       rotary · q  RotaryEncoding  [B,H,T,D]
+       rotary · k  RotaryEncoding  [B,H,T,D]
        …
2 added · 3 removed · 2 changed · 35 same
"""
    )


def test_of_two_that_are_the_same_there_is_only_the_header_to_show() -> None:
    assert (
        text(diff("gpt", "gpt"))
        == """\
--- gpt  GPT   decoder-only · pre-LN · learned positions
+++ gpt  GPT   decoder-only · pre-LN · learned positions
    B=2 T=4 C=8 H=2 D=4 F=32 V=16 L=2   float32
40 same
"""
    )


def test_what_is_the_same_under_another_path_is_counted() -> None:
    def two(name: str) -> Trace:
        return trace_of(*(module(f"blocks.{at}", linear("norm"), linear(name)) for at in (0, 1)))

    assert text(compare(two("fc"), two("fc"))).splitlines()[-1] == "3 same"
    assert text(compare(two("fc"), two("up"))).splitlines()[-1] == "3 same, 1 of them under another path"
    assert json.loads(changes_json(compare(two("fc"), two("up"))))["renamed"] == 1


def test_a_block_of_a_list_that_stands_elsewhere_in_it_is_under_no_other_path() -> None:
    before, after = (
        trace_of(*(module(f"blocks.{at}", linear("fc")) for at in range(*ends))) for ends in ((0, 2), (1, 3))
    )
    assert compare(before, after).renamed == 0


def test_all_shows_what_is_the_same_each_block_once() -> None:
    shown = text(diff("gpt", "gpt"), all=True)
    assert "    blocks.0  Block · pre-LN block     and blocks.1\n" in shown
    assert "      norm_1  LayerNorm " in shown
    assert len(shown.splitlines()) == 3 + 40 + 3 + 1  # the header, 40 tensors, a block and two modules in it, the total


def one(shape: tuple[int, ...], axes: tuple[str | int, ...], **sizes: int) -> Trace:
    call = Call("function", "", "add", 0, {"": "y"}, outputs={"": TensorMeta(shape, axes=axes)})
    return Trace("net", "Net", sizes=sizes, calls=(call,))


def test_sizes_that_explain_all_shapes_are_the_only_thing_told() -> None:
    assert (
        text(compare(one((2, 8), ("B", 8), B=2), one((3, 8), ("B", 8), B=3)))
        == """\
--- net  Net
+++ net  Net
~   B 2 → 3: explains 1 shape
sizes differ, nothing else · 1 same
"""
    )


def test_what_a_trace_names_is_not_obeyed() -> None:
    evil = Call("function", "", "[bold]\x1b[31m", 0, {"": "[red]x\n"}, outputs={"": TensorMeta((1,))})
    shown = text(compare(Trace("\x1b]0;"), Trace("b", calls=(evil,))))
    assert "\x1b" not in shown
    assert "+   [red]x\\n  [bold]\\x1b[31m  (1,)\n" in shown


PAIRS = [("gpt", "postln"), ("gpt", "llama"), ("nn.Transformer", "transformer"), ("gpt", "nn.MultiheadAttention")]


@pytest.mark.parametrize("width", [40, 80, 100, 120])
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_no_line_is_wider_than_it_may_be_or_ends_in_a_space(before: str, after: str, width: int) -> None:
    for options in ({}, {"all": True}, {"context": 0}, {"context": 5}):
        for line in text(diff(before, after), width, **options).splitlines():
            assert cell_len(line) <= width
            assert line == line.rstrip()


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_each_change_has_a_line_of_its_own_with_a_sign(before: str, after: str) -> None:
    found = diff(before, after)
    signs = re.findall(r"^([-+~↕])   (?!\S+ [^ ]+ → [^ ]+(?:$|:))", text(found, 200), re.MULTILINE)
    header = len(found.sizes)
    assert len(re.findall(r"^[-+~↕]   ", text(found, 200), re.MULTILINE)) == len(found.changes) + header
    assert signs


def test_plain_text_has_no_colour_codes_and_coloured_text_says_the_same() -> None:
    found = diff("gpt", "postln")
    colored = changes(found, Style(width=80, color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text(found).rstrip("\n")


def test_a_diff_prints_as_text() -> None:
    assert str(diff("gpt", "gpt")).endswith("40 same")


def test_json_says_what_changed() -> None:
    found = json.loads(changes_json(diff("gpt", "gqa")))
    assert list(found) == ["before", "after", "same", "renamed", "counts", "sizes", "unnamed", "changes"]
    assert (found["before"]["target"], found["after"]["target"]) == ("gpt", "gqa")
    assert (found["same"], found["counts"]) == (33, {"changed": 7, "added": 2})
    assert found["sizes"]["C"] == {"before": 8, "after": 16, "shapes": 20}
    change = found["changes"][1]
    assert change == {
        "kind": "changed",
        "before": {
            "path": "blocks.0.attention", "name": "k", "by": "split", "role": None,
            "axes": ["B", "T", "C"], "shape": [2, 4, 8],
        },
        "after": {
            "path": "blocks.0.attention", "name": "k", "by": "split", "role": None,
            "axes": ["B", "T", "G·D"], "shape": [2, 4, 8],
        },
        "fields": {"axes": [["B", "T", "C"], ["B", "T", "G·D"]]},
        "blocks": [["blocks.1", "blocks.1"]],
        "steps": 1,
        "tensors": 2,
        "shapes": [],
    }  # fmt: skip


def test_of_a_module_that_was_added_all_shapes_are_told() -> None:
    before = trace_of(linear("blocks.0"))
    found = compare(before, trace_of(linear("blocks.0"), module("blocks.1", linear("up", (2, 12)), linear("down"))))
    assert "+   blocks.1  Module  8 tensors: (2,8) (2,12)\n" in text(found)
    (change,) = json.loads(changes_json(found))["changes"]
    whole, up, down = [[2, 8]] * 2, [[2, 12]] * 3, [[2, 8]] * 3  # what each is given, gives, and the function makes
    assert (change["tensors"], change["shapes"]) == (8, [*whole, *up, *down])


def test_json_of_what_is_on_one_side_only_has_nothing_for_the_other() -> None:
    (change,) = json.loads(changes_json(compare(Trace("a"), one((2,), ("B",)))))["changes"]
    assert (change["kind"], change["before"], change["after"]["shape"]) == ("added", None, [2])
    assert msgspec.json.decode(changes_json(diff("gpt", "nn.Transformer")))
