"""Arithmetic with numbers some of which are not known, as far as that leaves something that is."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["BINARY", "BITWISE", "LOW", "OTHER_NAMES", "UNARY", "Number", "chosen", "least", "number", "plus"]

Number = float | None
"""None is not known. A bool is 0 or 1."""

LOW = -1000.0
"""Of what is no larger softmax leaves nothing: -inf, the least number of a dtype, -1e9, -10000 over the root of D."""


def number(text: str) -> Number:
    """A number as Python writes it."""
    if text in ("True", "False"):
        return float(text == "True")
    try:
        return float(text)
    except ValueError:
        return None


def plus(one: Number, other: Number) -> Number:
    if one is not None and other is not None:
        return one + other
    return lowest(one, other)


def lowest(*values: Number) -> Number:
    """What is left of a sum, or a minimum, of which not all is known."""
    return next((value for value in values if value is not None and value <= LOW), None)


def times(one: Number, other: Number) -> Number:
    if 0 in (one, other):
        return 0.0
    return None if one is None or other is None else one * other


def power(one: float, other: float) -> float:
    try:
        return float(one**other)
    except (OverflowError, ZeroDivisionError, TypeError):
        return math.nan


def both(one: Number, other: Number) -> Number:
    if 0 in (one, other):
        return 0.0
    return None if one is None or other is None else 1.0


def either(one: Number, other: Number) -> Number:
    if one or other:
        return 1.0
    return None if one is None or other is None else 0.0


def least(one: Number, other: Number) -> Number:
    if one is not None and other is not None:
        return min(one, other)
    return lowest(one, other)


def chosen(condition: Number, one: Number, other: Number) -> Number:
    if condition is not None:
        return one if condition else other
    is_low = one is not None and other is not None and max(one, other) <= LOW
    return one if is_low or one == other else None


def known(function: Callable[[float, float], float]) -> Callable[[Number, Number], Number]:
    """For two numbers, both of which must be known."""
    return lambda one, other: None if one is None or other is None else float(function(one, other))


BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "add": plus,
    "sub": lambda one, other: plus(one, None if other is None else -other),
    "rsub": lambda one, other: plus(None if one is None else -one, other),
    "mul": times,
    "div": known(lambda one, other: one / other if other else math.nan),
    "rdiv": known(lambda one, other: other / one if one else math.nan),
    "floordiv": known(lambda one, other: one // other if other else math.nan),
    "remainder": known(lambda one, other: one % other if other else math.nan),
    "pow": known(power),
    "lt": known(lambda one, other: one < other),
    "le": known(lambda one, other: one <= other),
    "gt": known(lambda one, other: one > other),
    "ge": known(lambda one, other: one >= other),
    "eq": known(lambda one, other: one == other),
    "ne": known(lambda one, other: one != other),
    "logical_and": both,
    "logical_or": either,
    "logical_xor": known(lambda one, other: bool(one) != bool(other)),
    "minimum": least,
    "maximum": known(max),
}
OTHER_NAMES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "rtruediv": "rdiv", "truediv": "div",
    "floor_divide": "floordiv", "mod": "remainder", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "not_equal": "ne",
}  # fmt: skip
BITWISE = {
    "and": "logical_and", "bitwise_and": "logical_and", "or": "logical_or", "bitwise_or": "logical_or",
    "xor": "logical_xor", "bitwise_xor": "logical_xor",
}  # fmt: skip
"""What these are of truth values."""

UNARY: dict[str, Callable[[float], float]] = {
    "neg": lambda one: -one,
    "abs": abs,
    "sign": lambda one: float((one > 0) - (one < 0)),
    "logical_not": lambda one: float(not one),
    "tanh": math.tanh,
}
