from tests.zoo.checks import Verdict
from tests.zoo.rows import Row
from tests.zoo.summary import line, summary

ROWS = [
    Row("causal", "gpt2", None, {"output": Verdict(True), "named": Verdict(True, "96.0%", 96, 100)}),
    Row("causal", "odd", None, {"output": Verdict(False, "[logits] differs"), "named": Verdict(None, "no axes")}),
    Row("masked", "lost", "ImportError: no timm", {}),
]


def test_a_line_says_what_was_found() -> None:
    assert [line(row) for row in ROWS] == [
        "causal   gpt2                         output ✓   named ✓ 96.0%",
        "causal   odd                          output ✗ [logits] differs   named · no axes",
        "masked   lost                         does not run: ImportError: no timm",
    ]


def test_the_summary_counts_and_lists_what_does_not_hold() -> None:
    assert summary(ROWS) == (
        "| transformers' mapping | types | run untraced |\n"
        "|---|---:|---:|\n"
        "| causal | 2 | 2 |\n"
        "| masked | 1 | 0 |\n"
        "\n"
        "| check | types | hold | share |\n"
        "|---|---:|---:|---:|\n"
        "| traced output = bare output, bit for bit | 2 | 1 | 50.0% |\n"
        "| at least 95 % of dims named | 1 | 1 | 100.0% |\n"
        "| dims named, of all types together | 100 | 96 | 96.0% |\n"
        "\n"
        "Do not hold:\n"
        "\n"
        "- odd (causal), output: [logits] differs\n"
        "\n"
        "Do not run untraced:\n"
        "\n"
        "- lost (masked): ImportError: no timm"
    )


def test_a_check_is_counted_also_without_what_no_one_could_find() -> None:
    found = [Verdict(True, "2"), Verdict(False, "not weights: attentions[0]"), Verdict(False, "…", apart=True)]
    rows = [Row("causal", str(at), None, {"attentions": verdict}) for at, verdict in enumerate(found)]
    assert summary(rows).splitlines()[6:8] == [
        "| returned attentions = tensors of role `weights` | 3 | 1 | 33.3% |",
        "| … where what is returned is a distribution | 2 | 1 | 50.0% |",
    ]
