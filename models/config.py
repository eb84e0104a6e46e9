"""The sizes and choices that a model is built from, and what is said about those that cannot be.

C  model width                    F  feed-forward width
H  heads                          V  vocabulary
G  key and value heads, 1 to H    L  layers
D  head width, C / H
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

Norm = Literal["pre", "post"]
NormKind = Literal["layer", "rms"]
Positions = Literal["learned", "sinusoidal", "rope", "none"]
Activation = Literal["relu", "gelu", "gelu_tanh", "swiglu"]
QKV = Literal["separate", "fused"]
AttentionKind = Literal["explicit", "sdpa"]
Head = Literal["tied", "untied"]
Size = Literal["seed", "paper"]

CHOICES: dict[str, Any] = {
    "norm": Norm,
    "norm_kind": NormKind,
    "positions": Positions,
    "activation": Activation,
    "qkv": QKV,
    "attention": AttentionKind,
    "head": Head,
    "size": Size,
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a model is built from. The lengths of its input (B, T, S) are no part of it."""

    C: int
    H: int
    F: int
    V: int
    L: int
    G: int | None = None  # key and value heads; None: as many as H
    context: int = 1024  # rows of the position table: the longest input

    norm: Norm = "pre"  # x + f(norm(x)), or norm(x + f(x))?
    norm_kind: NormKind = "layer"
    positions: Positions = "learned"
    activation: Activation = "gelu"
    qkv: QKV = "fused"  # one matrix for q, k and v, or three?
    attention: AttentionKind = "explicit"  # written out, or torch's fused one?
    head: Head = "tied"  # is the output projection the embedding table, or has it weights of its own?
    bias: bool = True  # have projections and feed-forward one?

    def __post_init__(self) -> None:
        refuse(
            *wrong_sizes(C=self.C, H=self.H, F=self.F, V=self.V, L=self.L, G=self.G, context=self.context),
            *wrong_choices(**{name: getattr(self, name) for name in CHOICES if name != "size"}),
        )
        if self.positions == "rope" and self.D % 2:
            refuse(f"rope turns pairs of channels, and D = C / H = {self.D} is odd: take C={self.C + self.H}")

    @property
    def D(self) -> int:
        return self.C // self.H

    @property
    def description(self) -> str:
        """What is unlike the plainest of models: "pre-LN · learned positions"."""
        G = self.H if self.G is None else self.G
        parts = (
            f"{self.norm}-{'LN' if self.norm_kind == 'layer' else 'RMSNorm'}",
            {"rope": "RoPE", "none": "no positions"}.get(self.positions, f"{self.positions} positions"),
            "MQA" if G == 1 < self.H else f"GQA, {G} key/value heads" if G < self.H else "",
            "SwiGLU" if self.activation == "swiglu" else "",
            "fused attention" if self.attention == "sdpa" else "",
        )
        return " · ".join(filter(None, parts))


def refuse(*reasons: str) -> None:
    """Raises one ValueError with all the reasons, if there are any."""
    if reasons:
        raise ValueError("; ".join(reasons))


def wrong_sizes(**sizes: int | None) -> list[str]:
    """Every size below 1 (None: not given, fine), a C that H heads cannot share, an H that G heads cannot."""
    reasons = []
    too_small = [f"{name}={size}" for name, size in sizes.items() if size is not None and size < 1]
    if too_small:
        reasons.append(f"{', '.join(too_small)} must be at least 1")
    for whole, part in (("C", "H"), ("H", "G")):
        size, parts = sizes.get(whole), sizes.get(part)
        if size and parts and size > 0 and parts > 0 and size % parts:
            more = size + parts - size % parts
            take = f"take {whole}={more} or another multiple of {part}"
            reasons.append(f"{whole}={size} is not divisible by {part}={parts}: {take}")
    return reasons


def wrong_choices(**choices: str) -> list[str]:
    """Values that are none of the choices."""
    return [
        f"{name}={value!r} is unknown: choose {' or '.join(map(repr, get_args(CHOICES[name])))}"
        for name, value in choices.items()
        if value not in get_args(CHOICES[name])
    ]


def wrong_vocabulary(V: int, *reserved: str) -> list[str]:
    """A vocabulary in which the reserved ids (the lowest ones) leave none for words."""
    if V not in range(1, len(reserved) + 1):
        return []
    taken = ", ".join(f"id {number} is {meaning}" for number, meaning in enumerate(reserved))
    return [f"V={V} leaves no id for words ({taken}): take V={len(reserved) + 1} or more"]
