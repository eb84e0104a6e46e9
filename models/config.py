"""The sizes of a model, and what is said about sizes that cannot be.

C  model width         F  feed-forward width
H  heads               V  vocabulary
D  head width, C / H   L  layers
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Head = Literal["tied", "untied"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a model is built from. The lengths of its input (B, T, S) are no part of it."""

    C: int
    H: int
    F: int
    V: int
    L: int
    context: int = 1024  # rows of the position table: the longest input
    head: Head = "tied"  # is the output projection the embedding table, or has it weights of its own?

    def __post_init__(self) -> None:
        refuse(
            *wrong_sizes(C=self.C, H=self.H, F=self.F, V=self.V, L=self.L, context=self.context),
            *wrong_choice("head", self.head, ("tied", "untied")),
        )

    @property
    def D(self) -> int:
        return self.C // self.H


def refuse(*reasons: str) -> None:
    """Raises one ValueError with all the reasons, if there are any."""
    if reasons:
        raise ValueError("; ".join(reasons))


def wrong_sizes(**sizes: int | None) -> list[str]:
    """Every size below 1 (None: not given, fine), and a C that H heads cannot share."""
    reasons = []
    too_small = [f"{name}={size}" for name, size in sizes.items() if size is not None and size < 1]
    if too_small:
        reasons.append(f"{', '.join(too_small)} must be at least 1")
    C, H = sizes.get("C"), sizes.get("H")
    if C and H and C > 0 and H > 0 and C % H:
        reasons.append(f"C={C} is not divisible by H={H}: take C={C + H - C % H} or another multiple of H")
    return reasons


def wrong_choice(name: str, value: str, choices: Sequence[str]) -> list[str]:
    """A value that is none of the choices."""
    if value in choices:
        return []
    return [f"{name}={value!r} is unknown: choose {' or '.join(map(repr, choices))}"]


def wrong_vocabulary(V: int, *reserved: str) -> list[str]:
    """A vocabulary in which the reserved ids (the lowest ones) leave none for words."""
    if V not in range(1, len(reserved) + 1):
        return []
    taken = ", ".join(f"id {number} is {meaning}" for number, meaning in enumerate(reserved))
    return [f"V={V} leaves no id for words ({taken}): take V={len(reserved) + 1} or more"]
