"""Twelve bugs in a port that is written in other words: latents that attend to a picture, once with modules and once
with folded heads, `bmm` and layers taken apart. Each is named at the tensor where it is, or at the first after it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shapetrace import compare_values

C, H, N, P, SIDE = 20, 4, 5, 4, 12


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_kv, self.out = nn.Linear(C, C), nn.Linear(C, 2 * C), nn.Linear(C, C)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        q = self.to_q(x)
        k, v = self.to_kv(context).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in (q, k, v))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        out: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return out


class Original(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, C, P, P), nn.Linear(C, 7)
        self.positions = nn.Parameter(torch.randn(1, (SIDE // P) ** 2, C))
        self.latents, self.gamma = nn.Parameter(torch.randn(N, C)), nn.Parameter(torch.rand(C))
        self.attention, self.norm_1, self.norm_2 = Attention(), nn.LayerNorm(C), nn.LayerNorm(C)
        self.ffn = nn.Sequential(nn.Linear(C, 3 * C), nn.GELU(), nn.Linear(3 * C, C))

    def forward(self, image: Tensor) -> Tensor:
        context = self.stem(image).flatten(2).transpose(1, 2) + self.positions
        z = self.latents.expand(len(image), -1, -1)
        z = self.norm_1(z + self.attention(z, context))
        z = self.norm_2(z + self.gamma * self.ffn(z))
        logits: Tensor = self.head(z.mean(1))
        return logits


class Port(nn.Module):
    """With one `bug`, or none."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug
        self.patch, self.classify = nn.Linear(3 * P * P, C), nn.Linear(C, 7)
        self.places = nn.Parameter(torch.zeros(1, (SIDE // P) ** 2, C))
        self.start, self.scale = nn.Parameter(torch.zeros(1, N, C)), nn.Parameter(torch.zeros(C))
        self.q, self.k, self.v, self.o = (nn.Linear(C, C) for _ in range(4))
        self.after, self.last = nn.LayerNorm(C), nn.LayerNorm(C)
        self.up, self.down = nn.Linear(C, 3 * C), nn.Linear(3 * C, C)

    def attend(self, x: Tensor, y: Tensor) -> Tensor:
        b, n, d = len(x), N, C // H
        q, k, v = self.q(x), self.k(y), self.v(y)
        if self.bug == "k and v":
            k, v = v, k

        def folded(heads: Tensor) -> Tensor:
            apart = heads.view(b, -1, d, H).permute(0, 3, 1, 2) if self.bug == "heads" else None
            apart = heads.view(b, -1, H, d).permute(0, 2, 1, 3) if apart is None else apart
            return apart.reshape(b * H, -1, d)

        q, k, v = folded(q), folded(k), folded(v)
        alpha = (C if self.bug == "scale" else d) ** -0.5
        scores = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), beta=0, alpha=alpha)
        weights = F.softmax(scores, dim=1 if self.bug == "softmax" else -1)
        heads = torch.bmm(weights, v).view(b, H, n, d)
        out = heads.transpose(2, 3).reshape(b, n, C) if self.bug == "join" else heads.transpose(1, 2).reshape(b, n, C)
        return F.linear(out, self.o.weight, None if self.bug == "bias" else self.o.bias)

    def forward(self, picture: Tensor) -> Tensor:
        b, side = len(picture), SIDE // P
        cut = picture.view(b, 3, side, P, side, P)
        cut = cut.permute(0, 2, 4, 3, 5, 1) if self.bug == "patch" else cut.permute(0, 2, 4, 1, 3, 5)
        x = self.patch(cut.flatten(3).flatten(1, 2))
        x = x + (self.places.flip(1) if self.bug == "positions" else self.places)
        z = self.start.repeat(b, 1, 1)
        z = self.after(z) + self.attend(z, x) if self.bug == "norm" else self.after(z + self.attend(z, x))
        y = self.down(F.gelu(self.up(z), approximate="tanh" if self.bug == "gelu" else "none"))
        if self.bug != "gamma":
            y = torch.einsum("bnc,c->bnc", y, self.scale)
        z = self.last(z + y)
        z = z[:, 0] if self.bug == "pooling" else z.mean(dim=1)
        logits: Tensor = self.classify(z)
        return logits


def ported(before: nn.Module, after: nn.Module) -> None:
    """The weights of the original, each where the port has it."""
    given = dict(before.named_parameters())
    k, v = given["attention.to_kv.weight"].chunk(2), given["attention.to_kv.bias"].chunk(2)
    found = {
        "patch.weight": given["stem.weight"].flatten(1), "patch.bias": given["stem.bias"],
        "places": given["positions"], "start": given["latents"][None], "scale": given["gamma"],
        "k.weight": k[0], "v.weight": k[1], "k.bias": v[0], "v.bias": v[1],
    }  # fmt: skip
    names = {"q": "attention.to_q", "o": "attention.out", "after": "norm_1", "last": "norm_2"}
    names |= {"up": "ffn.0", "down": "ffn.2", "classify": "head"}
    for name, other in names.items():
        found |= {f"{name}.{kind}": given[f"{other}.{kind}"] for kind in ("weight", "bias")}
    after.load_state_dict(found)


BUGS = {
    "": "",
    "patch": "x",
    "positions": "x",
    "k and v": "k",
    "heads": "q",
    "scale": "scores",
    "softmax": "weights",
    "join": "concat",
    "bias": "attn_out",
    "norm": "after",
    "gelu": "gelu",
    "gamma": "add",
    "pooling": "z",
}
"""What is wrong -> the role, the name or the maker of the first tensor that diverges in the port."""


@pytest.mark.parametrize(("bug", "where"), BUGS.items(), ids=BUGS)
def test_a_bug_is_named_at_its_tensor_however_the_port_is_written(bug: str, where: str) -> None:
    torch.manual_seed(0)
    found = compare_values(Original(), Port(bug), torch.randn(2, 3, SIDE, SIDE), weights=ported)
    first = found.first
    assert bool(found) == bool(bug)
    if first is not None:
        assert where in (first.after.role, first.after.name, first.after.call.name), first
