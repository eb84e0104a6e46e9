"""The table as text: a line for each type, and a summary that a README can hold."""

from __future__ import annotations

from collections import Counter

from .checks import Verdict
from .rows import CHECKS, Row
from .species import GROUPS

WORDS = {
    "output": "traced output = bare output, bit for bit",
    "attentions": "returned attentions = tensors of role `weights`",
    "sdpa": "weights that `sdpa` never makes: count and shapes as eager",
    "roles": "hidden states, logits, loss have their roles",
    "axes": "every axis right at three other settings",
    "named": "at least 95 % of dims named",
}


APART = {"attentions": "… where what is returned is a distribution"}
"""The same check, without the models that give something else than they say."""


def line(row: Row) -> str:
    """A type and what was found, "✓" where a check holds, "✗" where not, "·" where there is nothing to check."""
    if row.reason is not None:
        return f"{row.group:8s} {row.model_type:28s} does not run: {row.reason}"
    found = "   ".join(f"{name} {mark(verdict)}" for name, verdict in row.verdicts.items())
    return f"{row.group:8s} {row.model_type:28s} {found}"


def mark(verdict: Verdict) -> str:
    sign = {True: "✓", False: "✗", None: "·"}[verdict.holds]
    return f"{sign} {verdict.text}".strip()


def summary(rows: list[Row]) -> str:
    return "\n\n".join(filter(None, (breadth(rows), checked(rows), failing(rows), idle(rows))))


def breadth(rows: list[Row]) -> str:
    """How many types of each group run."""
    lines = ["| transformers' mapping | types | run untraced |", "|---|---:|---:|"]
    for group in GROUPS:
        reasons = [row.reason for row in rows if row.group == group]
        if reasons:
            lines.append(f"| {group} | {len(reasons)} | {reasons.count(None)} |")
    return "\n".join(lines)


def checked(rows: list[Row]) -> str:
    """How many types each check holds of."""
    lines = ["| check | types | hold | share |", "|---|---:|---:|---:|"]
    for name in CHECKS:
        verdicts = [row.verdicts[name] for row in rows if name in row.verdicts]
        count = Counter(verdict.holds for verdict in verdicts)
        of = count[True] + count[False]
        share = f"{count[True] / of:.1%}" if of else "—"
        if verdicts:
            lines.append(f"| {WORDS[name]} | {of} | {count[True]} | {share} |")
        if apart := sum(verdict.apart for verdict in verdicts):
            share = f"{count[True] / (of - apart):.1%}" if of > apart else "—"
            lines.append(f"| {APART[name]} | {of - apart} | {count[True]} | {share} |")
    named = [row.verdicts["named"] for row in rows if "named" in row.verdicts]
    if dims := sum(verdict.dims for verdict in named):
        known = sum(verdict.named for verdict in named)
        lines.append(f"| dims named, of all types together | {dims} | {known} | {known / dims:.1%} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def failing(rows: list[Row]) -> str:
    lines = [
        f"- {row.model_type} ({row.group}), {name}: {verdict.text}"
        for name in CHECKS
        for row in rows
        if name in row.verdicts and (verdict := row.verdicts[name]).holds is False
    ]
    return "\n".join(["Do not hold:", "", *lines]) if lines else ""


def idle(rows: list[Row]) -> str:
    """What does not run where nobody traces it."""
    lines = [f"- {row.model_type} ({row.group}): {row.reason}" for row in rows if row.reason is not None]
    return "\n".join(["Do not run untraced:", "", *lines]) if lines else ""
